"""`mesh zone ...` on a running mesh: what is put in force, what is refused, and how it is told."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.model.control import Stage
from mesh.model.topology import Topology, Zone, with_addresses
from mesh.operate.changes.in_force import read_in_force
from tests.component.cli.conftest import Run
from tests.component.in_memory_mesh import put_in_force
from tests.component.operate.following import Following

ADDRESSES = {"left": "left.test:9092", "right": "right.test:9092"}
NODES = "a b c d e f g"
PRICES = {"kind": "one-hop", "nodes": ["a", "b", "c"], "exclusive": True, "title": "Prices"}


def mesh(**zones: object) -> Topology:
    """Seven nodes, a of them on another Kafka cluster than the others."""
    return topology_from_mapping(
        {
            "kafka": {"left": {}, "right": {}},
            "nodes": {n: {"kafka": "left" if n == "a" else "right"} for n in NODES.split()},
            "zones": zones,
        }
    )


Started = Callable[..., tuple[Following, str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """Nodes that follow any change, and the file of the mesh."""

    def start(**zones: object) -> tuple[Following, str]:
        full = {"Y": {"kind": "one-hop", "nodes": NODES.split()}}
        before, all_linked = (with_addresses(mesh(**one), ADDRESSES) for one in (zones, full))
        nodes = Following(before, all_linked)
        monkeypatch.setattr(
            "mesh.view.connection.open_kafka",
            lambda _topology, names=None, **_options: {
                name: nodes.kafka[name] for name in (nodes.kafka if names is None else names)
            },
        )
        monkeypatch.setattr("mesh.transport.clock.now_ms", nodes.now_ms)
        monkeypatch.setattr("mesh.transport.clock.pause", nodes.pause)
        file = tmp_path / "mesh.yaml"
        write_topology(before, file)
        return nodes, str(file)

    return start


def in_force(nodes: Following) -> tuple[int, Mapping[str, Zone]]:
    found, _ = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    return found.number, found.topology.zones


def test_a_change_goes_on_when_nobody_reads_of_its_progress(
    run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`2>&1 | head` has gone while sources take nothing from their clients: they would wait for ever."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    nodes, file = started()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Gone())
        added = run("zone", "add", "P", "d", "--kind", "one-hop", "--yes", "-o", "json", "-f", file)
    assert (added.code, added.data["in_force"]) == (0, True)
    assert in_force(nodes)[1]["P"].nodes == ("d",)


def test_who_adds_to_a_zone_may_say_what_it_is_to_be(run: Run, started: Started) -> None:
    """Universal Messaging makes the zone that a realm joins. Spec: UM-8."""
    nodes, file = started()
    refused = run("zone", "add", "A", "a", "b", "-f", file)
    assert (refused.code, "there is none" in refused.err) == (2, True)
    assert run("zone", "add", "A", "a", "b", "--kind", "one-hop", "-f", file).code == 0
    assert in_force(nodes)[1]["A"].nodes == ("a", "b")
    assert run("zone", "add", "A", "c", "--kind", "one-hop", "-f", file).code == 0
    assert in_force(nodes)[1]["A"].nodes == ("a", "b", "c")


def test_a_zone_comes_grows_shrinks_and_goes(run: Run, started: Started) -> None:
    """Spec: UM-8, DESIGN 3, K28."""
    nodes, file = started()
    made = run(
        "zone", "create", "A", "--kind", "one-hop", "--nodes", "a, b", "--title", "Prices",
        "--exclusive", "-f", file,
    )  # fmt: skip
    assert (made.code, "version 2 is in force" in made.out) == (0, True)
    assert "2 to create; walks that move: 0\n" in made.out  # and not that nothing was done
    assert re.search(r"create +zone +A", made.out)
    assert run("zone", "add", "A", "c", "d", "-f", file, "-o", "json").data["version"] == 3
    number, zones = in_force(nodes)
    assert (number, zones["A"].nodes, len(zones["A"].links)) == (3, ("a", "b", "c", "d"), 6)
    assert run("zone", "remove", "A", "a", "c", "d", "-f", file).code == 0
    assert run("zone", "remove", "A", "b", "-f", file).code == 0
    number, zones = in_force(nodes)
    assert (number, zones["A"].nodes, zones["A"].exclusive) == (5, (), True)
    [told] = run("zone", "list", "-f", file, "-o", "json").data["zones"]
    assert (told["zone"], told["active"], told["nodes"]) == ("A", False, [])
    assert run("zone", "add", "A", "e", "f", "-f", file).code == 0
    kept = run("zone", "delete", "A", "-f", file)
    assert (kept.code, kept.err.count("\n")) == (2, 1)
    assert "zone A: goes with 1 link and their topics: give --allow-delete" in kept.err
    assert in_force(nodes)[0] == 6
    assert run("zone", "remove", "A", "e", "f", "-f", file).code == 0
    assert run("zone", "delete", "A", "-f", file).code == 0  # without links nothing is lost
    assert "A" not in in_force(nodes)[1]


@pytest.mark.parametrize("kind", ["cluster", "one-hop", "multi-hop", "external"])
def test_a_zone_without_members_survives_export_plan_and_apply(
    run: Run, started: Started, tmp_path: Path, kind: str
) -> None:
    """It exists and does nothing. Spec: UM-8, DESIGN 3."""
    nodes, file = started(A=PRICES)
    words = ("--title", "Prices", *(["--exclusive"] if kind == "one-hop" else []))
    assert run("zone", "create", "E", "--kind", kind, *words, "-f", file).code == 0
    exported = tmp_path / "exported.yaml"
    exported.write_text(run("export", "-f", file).out, encoding="utf-8")
    assert run("validate", str(exported)).code == 0
    assert run("plan", str(exported), "-f", file).code == 0
    assert run("apply", str(exported), "-f", file, "-o", "json").data["version"] == 2
    zone = in_force(nodes)[1]["E"]
    assert (zone.nodes, zone.links, zone.title) == ((), (), "Prices")
    assert (str(zone.kind), zone.exclusive) == (kind, kind == "one-hop")
    member = ("--link", "d-e") if kind == "external" else ("d", "e")
    assert run("zone", "add", "E", *member, "-f", file).code == 0
    assert [link.ends for link in in_force(nodes)[1]["E"].links] == [("d", "e")]


def test_topics_of_a_deleted_zone_are_deleted(run: Run, started: Started) -> None:
    """Spec: UM-8, K28."""
    nodes, file = started(A=PRICES)
    before = {topic for kafka in nodes.kafka.values() for topic in kafka.topics}
    ended = run("zone", "delete", "A", "--allow-delete", "-f", file, "-o", "json")
    assert ended.code == 0
    after = {topic for kafka in nodes.kafka.values() for topic in kafka.topics}
    gone = {one["topic"] for one in ended.data["deleted"]}
    assert before - after == gone
    assert "mesh.a.to.b.g" in gone
    assert in_force(nodes) == (2, {})


def test_links_are_added_and_removed_one_by_one(run: Run, started: Started) -> None:
    nodes, file = started(W={"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]})
    assert run("zone", "add", "W", "--link", "d-c", "--link", "d:e", "-f", file).code == 0
    assert [link.ends for link in in_force(nodes)[1]["W"].links] == [
        ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"),
    ]  # fmt: skip
    assert run("zone", "remove", "W", "--link", "e-d", "-f", file).code == 0
    number, zones = in_force(nodes)
    assert (number, zones["W"].nodes) == (3, ("a", "b", "c", "d"))
    made = run("zone", "create", "X", "--kind", "external", "--links", "d-e,d-f", "-f", file)
    assert (made.code, len(in_force(nodes)[1]["X"].links)) == (0, 2)


def test_joins_are_made_with_all_they_have(run: Run, started: Started) -> None:
    """Spec: UM-5, UM-10."""
    nodes, file = started(A=PRICES, B={"kind": "one-hop", "nodes": ["d", "e"]})
    ended = run(
        "zone", "create", "J", "--kind", "join", "--from", "d", "--to", "b", "--filter", "acme/>",
        "--hops", "3", "-f", file,
    )  # fmt: skip
    join = in_force(nodes)[1]["J"].join
    assert ended.code == 0
    assert join is not None
    assert (join.source, join.target, join.filter, join.hops) == ("d", "b", "acme/>", 3)
    told = run("zone", "add", "J", "a", "-f", file)
    assert (told.code, "is a join, whose two ends never change" in told.err) == (2, True)


def test_clusters_may_be_made_direct_only_and_no_other_zone(run: Run, started: Started) -> None:
    """Spec: DMR-11."""
    nodes, file = started(A=PRICES)
    asked = ("zone", "create", "C", "--nodes", "d,e", "--direct-only", "-f", file)
    refused = run(*asked, "--kind", "one-hop")
    assert (refused.code, "only a zone of kind cluster" in refused.err) == (2, True)
    assert run(*asked, "--kind", "cluster").code == 0
    assert in_force(nodes)[1]["C"].direct_only


def test_titles_change_and_identities_do_not(run: Run, started: Started) -> None:
    """Two zones may share a title. Spec: UM-8."""
    nodes, file = started(A=PRICES, B={"kind": "one-hop", "nodes": ["d", "e"], "exclusive": True})
    ended = run("zone", "rename", "B", "--title", "Prices", "-f", file, "-o", "json")
    assert (ended.code, ended.data["pauses_ms"]) == (0, {})
    zones = in_force(nodes)[1]
    assert {name: zone.title for name, zone in zones.items()} == {"A": "Prices", "B": "Prices"}
    refused = run("zone", "rename", "Prices", "--title", "x", "-f", file)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "zone Prices: is the title of A, B; write the name instead" in refused.err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("stock prices", "is the title of A; write the name instead"),
        ("Bond prices", "there is none; known here: A, B"),
    ],
)
def test_a_title_in_place_of_a_name_says_which_name_is_meant(
    run: Run, started: Started, given: str, told: str
) -> None:
    """People see titles everywhere, and most titles could be no names. Spec: UM-9."""
    _, file = started(A={**PRICES, "title": "Stock prices"}, B={"kind": "external", "links": []})
    refused = run("zone", "show", given, "-f", file)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert f"zone {given}: {told}" in refused.err


def test_a_dry_run_changes_nothing_and_can_be_kept(
    run: Run, started: Started, tmp_path: Path
) -> None:
    """A kept plan that is stale is refused. Spec: DESIGN 3, K27."""
    nodes, file = started(A=PRICES)
    shown = run("zone", "add", "A", "d", "--dry-run", "-f", file, "-o", "json")
    assert (shown.code, shown.data["kind"], in_force(nodes)[0]) == (0, "Plan", 1)
    assert re.search(
        r"create +link +a-d", run("zone", "add", "A", "d", "--dry-run", "-f", file).out
    )
    plan = tmp_path / "plan.json"
    plan.write_text(shown.out, encoding="utf-8")
    assert run("zone", "add", "A", "e", "-f", file).code == 0
    stale = run("apply", str(plan), "-f", file)
    assert (stale.code, "MOVED_ON" in stale.err, in_force(nodes)[0]) == (2, True, 2)
    assert run("zone", "delete", "A", "--dry-run", "-f", file).code == 0


CLUSTER = {"kind": "cluster", "nodes": ["d", "e", "f"]}
ROW = {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}
REFUSED: list[tuple[dict[str, object], str, str]] = [
    ({"A": ROW}, "add A --link a-c", "a reaches c by two walks: a -A-> c and a -A-> b -A-> c; remove"),
    ({"A": ROW}, "add A b", "has links as listed and no nodes: give `mesh zone add A --link A-B`"),
    ({"A": ROW}, "add A --link a-b", "zone A: has a link between a and b already"),
    ({"A": ROW}, "remove A --link a-c", "zone A: has no link between a and c"),
    ({"A": ROW}, "add A --link a-z", "is not a link of two nodes; write A-B, of a, b, c"),
    ({"A": ROW}, "add A", "name either nodes, or links with --link A-B"),
    ({"A": ROW}, "create a --kind one-hop", "zone a: exists already and is multi-hop"),
    ({"A": ROW}, "create B --kind two-hop", "must be cluster, one-hop, multi-hop, external or join"),
    ({"A": PRICES}, "add A z", "no node is called 'z'"),
    ({"A": PRICES}, "add A b", "zone A: has node b already"),
    ({"A": PRICES}, "remove A d", "zone A: has no node 'd'"),
    ({"A": PRICES}, "add P d", "zone P: there is none; known here: A"),
    ({"C": CLUSTER}, "add C --link a-b", "is a cluster, which is fully linked: name nodes"),
    (
        {"A": PRICES},
        "create B --kind one-hop --nodes c,d",
        "node c is in zone B and in zone A, which is exclusive: remove it from one",
    ),
    (
        {"A": PRICES, "B": {**PRICES, "nodes": ["d", "e"]}},
        "add B c",
        "node c is in zone B and in zone A, which is exclusive: remove it from one",
    ),
    (
        {"C": CLUSTER, "U": {**PRICES, "nodes": ["d", "g"]}},
        "create B --kind one-hop --nodes e,a",
        "node e is in zone B, and its cluster C is by d a member of zone U, which is exclusive",
    ),
    (
        {"C": CLUSTER, "U": {**PRICES, "nodes": ["d", "g"]}},
        "add U e",
        "which ends 3 more such loops",
    ),
    (
        {"A": {"kind": "join", "from": "a", "to": "b"}, "B": {"kind": "join", "from": "b", "to": "c"}},
        "create J --kind join --from c --to a",
        "a reaches itself: a -A-> b -B-> c -J-> a",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "command", "text"), REFUSED, ids=[one[1] for one in REFUSED])
def test_what_may_not_be_is_one_clear_line(
    run: Run, started: Started, zones: dict[str, object], command: str, text: str
) -> None:
    """And the mesh is untouched. Spec: DESIGN 3, UM-4, UM-8, UM-9."""
    nodes, file = started(**zones)
    ended = run("zone", *command.split(), "-f", file)
    assert (ended.code, ended.out, text in ended.err) == (2, "", True), ended.err
    assert ended.err.count("\n") == 1, ended.err
    assert (in_force(nodes)[0], nodes.seen) == (1, [])


def test_a_refusal_names_both_walks_and_the_smallest_edit(run: Run, started: Started) -> None:
    """As scripts read it. Spec: lab.md 3, DESIGN 3."""
    _, file = started(A=ROW)
    [told] = run("zone", "add", "A", "--link", "a-c", "-f", file, "-o", "json").data["error"]
    assert told["code"] == "TWO_WALKS"
    assert told["walks"] == [["a", "c"], ["a", "b", "c"]]
    assert told["edit"] == [{"op": "remove", "link": ["a", "c"], "zone": "A"}]


def test_the_kind_of_a_live_zone_never_changes(run: Run, started: Started, tmp_path: Path) -> None:
    """Neither by a plan nor by an apply. Spec: EMS-13."""
    nodes, file = started(A=PRICES)
    other = tmp_path / "other.yaml"
    ring = mesh(A={"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]], "exclusive": True})
    for proposed in (mesh(A={**PRICES, "kind": "cluster", "exclusive": False}), ring):
        write_topology(with_addresses(proposed, ADDRESSES), other)
        for command in ("plan", "apply"):
            ended = run(command, str(other), "-f", file)
            assert (ended.code, ended.err.count("\n")) == (2, 1)
            assert "zone A is one-hop and has links, so it cannot become" in ended.err
            assert "[CANNOT_CHANGE]" in ended.err
    assert (in_force(nodes)[0], nodes.seen) == (1, [])


def test_who_was_overtaken_is_refused(
    run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came into force meanwhile is not undone. Spec: K27, K28."""
    nodes, file = started(A=PRICES)

    def somebody_is_quicker(*_args: object, **_options: object) -> bool:
        other = mesh(A=PRICES, B={"kind": "one-hop", "nodes": ["e", "f"]})
        put_in_force(2, other, nodes.kafka)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", somebody_is_quicker)
    ended = run("zone", "add", "A", "d", "-f", file)
    assert (ended.code, "MOVED_ON" in ended.err) == (2, True)
    assert "version 2" in ended.err
    number, zones = in_force(nodes)
    assert (number, set(zones), zones["A"].nodes) == (2, {"A", "B"}, ("a", "b", "c"))
    assert nodes.seen == []


def test_a_change_that_was_left_is_gone_on_with_by_the_same_command(
    run: Run, started: Started
) -> None:
    """Even if one Kafka cluster has it in force by now. Spec: K28."""
    nodes, file = started(A=PRICES)
    nodes.stuck = {"b": Stage.SWITCH}
    late = run("zone", "add", "A", "d", "-f", file, "--wait", "3")
    assert (late.code, "give the same command again" in late.err) == (10, True)
    other = run("zone", "add", "A", "e", "-f", file)
    assert (other.code, "UNDER_WAY" in other.err) == (2, True)
    nodes.stuck = {}
    after = mesh(A={**PRICES, "nodes": ["a", "b", "c", "d"]})
    put_in_force(2, with_addresses(after, ADDRESSES), {"left": nodes.kafka["left"]})
    ended = run("zone", "add", "A", "d", "-f", file, "-o", "json")
    assert (ended.code, ended.data["version"]) == (0, 2)
    assert in_force(nodes)[1]["A"].nodes == ("a", "b", "c", "d")


def test_show_and_list_tell_members_and_clusters(run: Run, started: Started) -> None:
    """Which zone a node belongs to, and by whom a cluster does. Spec: UM-8, UM-9."""
    _, file = started(
        C=CLUSTER, U={**PRICES, "nodes": ["a", "d"]}, B={"kind": "external", "links": []}
    )
    listed = run("zone", "list", "--node", "d", "-f", file, "-o", "json").data["zones"]
    assert [(one["zone"], one["clusters"]) for one in listed] == [("C", {}), ("U", {"d": "C"})]
    table = run("zone", "list", "-f", file).out
    assert "d (cluster C)" in table
    shown = run("zone", "show", "U", "-f", file, "-o", "json").data
    assert (shown["title"], shown["active"]) == ("Prices", True)
    assert [one["link"] for one in shown["states"]] == [["a", "d"]]
    assert run("zone", "show", "U", "-f", file).code == 0
    assert run("zone", "list", "--node", "x", "-f", file).code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("my zone", "--kind", "one-hop"), "is not a name"),
        (("Z", "--kind", "onehop"), "must be cluster, one-hop"),
        (("Z", "--kind", "join", "--from", "d"), "add to"),
        (("Z", "--kind", "join", "--from", "d", "--to", "b", "--hops", "0"), "at least 1; got 0"),
        (("Z", "--kind", "external", "--nodes", "a,b"), "write links and no nodes"),
        (("Z", "--kind", "one-hop", "--nodes", "d,e", "--direct-only"), "only a zone of kind"),
    ],
)
def test_what_is_no_zone_is_told_before_anybody_is_asked(
    run: Run, started: Started, words: tuple[str, ...], told: str
) -> None:
    nodes, file = started()
    for kafka in nodes.kafka.values():
        kafka.available = False
    ended = run("zone", "create", *words, "-f", file)
    assert (ended.code, told in ended.err) == (2, True), ended
