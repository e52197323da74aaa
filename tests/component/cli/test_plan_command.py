"""`mesh plan`, `mesh export`: what they print and how they end."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from mesh.cli.plan import ASK_AGAIN_S
from mesh.config.published import document_hash
from mesh.config.topology_file import load_topology
from mesh.operate.changes.founding import publish
from mesh.transport.port import TopicPartition, TopicSpec
from tests.component.cli.conftest import Chain, Run

EXAMPLES = Path(__file__).parents[3] / "examples" / "topologies"
FIG36 = str(EXAMPLES / "fig36.yaml")
SHORT_CUT = str(EXAMPLES / "illegal" / "fig36-short-cut.yaml")


def edited(file: str, path: Path, *changes: tuple[tuple[str, ...], object]) -> str:
    """A copy of a topology file with some keys below `spec` set, or removed by None."""
    document: Any = YAML(typ="safe").load(Path(file).read_text())
    for keys, value in changes:
        at = document["spec"]
        for key in keys[:-1]:
            at = at[key]
        if value is None:
            del at[keys[-1]]
        else:
            at[keys[-1]] = value
    path.write_text(json.dumps(document))
    return str(path)


def test_the_same_file_changes_nothing(run: Run) -> None:
    ended = run("plan", FIG36, "--from", FIG36)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{FIG36} changes nothing")
    data = run("plan", FIG36, "--from", FIG36, "-o", "json").data
    assert (data["changes"], data["interest"]) == ([], None)


def test_changes_end_with_three_and_are_kept(run: Run, tmp_path: Path) -> None:
    new = edited(
        FIG36,
        tmp_path / "new.yaml",
        (("nodes", "tk4"), {"kafka": "tokyo"}),
        (("zones", "TK", "nodes"), ["tk1", "tk2", "tk3", "tk4"]),
        (("zones", "WO", "links"), [["tk1", "ny1"], ["tk1", "pa1"]]),
    )
    kept = tmp_path / "plan.json"
    ended = run("plan", new, "--from", FIG36, "--out", str(kept), "-o", "json")
    assert (ended.code, ended.err) == (3, "")
    assert json.loads(kept.read_text()) == ended.data
    data = ended.data
    assert data["base"]["version"] == 0
    assert data["base"]["hash"] == document_hash(
        run("plan", FIG36, "--from", FIG36, "-o", "json").data["document"]
    )
    made = [f"{one['action']} {one['what']} {one['name']}" for one in data["changes"]]
    assert made == [
        "create node tk4", "change zone TK", "delete link ny1-pa1", "create link tk1-tk4",
        "create link tk2-tk4", "create link tk3-tk4", "create link pa1-tk1",
    ]  # fmt: skip
    deleted = [one["topic"] for one in data["topics"]["deleted"]]
    assert deleted == [
        f"mesh.{a}.to.{b}.{end}" for a, b in (("ny1", "pa1"), ("pa1", "ny1")) for end in "cdgt"
    ]
    assert "mesh.tk4.ledger" in [one["topic"] for one in data["topics"]["created"]]
    assert {one["gained"][0] for one in data["reach"]["sources"] if one["source"] != "tk4"} == {
        "tk4"
    }
    assert sum(one["walks"] for one in data["reach"]["moves"]) == 36
    needed = [one for one in data["rights"]["needed"] if one["node"] == "pa1"]
    assert {(one["operation"], one["kafka"]) for one in needed} == {("READ", "tokyo")}
    assert load_topology(new).nodes.keys() == data["document"]["spec"]["nodes"].keys()
    table = run("plan", new, "--from", FIG36)
    assert table.code == 3
    assert "ny1 -WO-> pa1" in table.out
    assert "mesh.tk1.to.pa1.{c,d,g,t}" in table.out


def test_a_plan_is_kept_in_no_file_that_it_is_made_from(run: Run, tmp_path: Path) -> None:
    old = edited(FIG36, tmp_path / "old.yaml")
    new = edited(FIG36, tmp_path / "new.yaml", (("maxMessageBytes",), 5_000))
    for kept in (old, new, str(tmp_path / "." / "new.yaml")):
        before = Path(kept).read_text()
        ended = run("plan", new, "--from", old, "--out", kept)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert "would be lost; name another file" in ended.err
        assert Path(kept).read_text() == before
    assert run("plan", new, "--from", old, "--out", str(tmp_path / "plan.json")).code == 3


def test_a_plan_is_kept_whole_or_not_at_all(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up, or a kill, leaves the plan that was there."""
    kept = tmp_path / "plan.json"
    kept.write_text("an earlier plan")
    write_text = Path.write_text

    def fills_up(path: Path, text: str, **options: Any) -> int:
        write_text(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", fills_up)
        ended = run("plan", FIG36, "--from", FIG36, "--out", str(kept))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"{kept} cannot be written: No space left on device" in ended.err
    assert ([one.name for one in tmp_path.iterdir()], kept.read_text()) == (
        [kept.name],
        "an earlier plan",
    )


def test_what_is_no_file_is_written_to_and_not_replaced(run: Run, tmp_path: Path) -> None:
    """As `/dev/stdout`; a link still leads to the file that it led to."""
    pipe, file, link = tmp_path / "pipe", tmp_path / "file", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(file)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("plan", FIG36, "--from", FIG36, "--out", str(pipe)).code == 0
        told = os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert run("plan", FIG36, "--from", FIG36, "--out", str(link)).code == 0
    assert link.is_symlink()
    assert json.loads(told) == json.loads(file.read_text())


def test_options_of_kafka_are_taken_by_nodes_that_start_again(run: Run, tmp_path: Path) -> None:
    """A plan tells which; brokers of a mesh that runs stay as many as they are. Spec: K27."""
    new = edited(FIG36, tmp_path / "new.yaml", (("kafka", "paris", "linger.ms"), 7))
    assert run("plan", new, "--from", FIG36, "-o", "json").data["restart"] == [
        "ny1",
        "pa1",
        "pa2",
        "pa3",
    ]
    assert "start these again, one after another" in run("plan", new, "--from", FIG36).out
    more = edited(FIG36, tmp_path / "more.yaml", (("kafka", "paris"), {"brokers": 3}))
    ended = run("plan", more, "--from", FIG36)
    assert (ended.code, "nothing starts or ends brokers" in ended.err) == (2, True)


def test_an_illegal_file_is_refused_as_validate_does(run: Run, tmp_path: Path) -> None:
    """By the same walks; but of two ways out it knows which link is the new one. Spec: lab.md 3."""
    mine = run("plan", SHORT_CUT, "--from", FIG36, "-o", "json", "--out", str(tmp_path / "p"))
    judged = run("validate", SHORT_CUT, "-o", "json")
    assert (mine.code, judged.code, mine.err) == (2, 2, judged.err)
    walks = [[one["walks"] for one in ended.data["problems"]] for ended in (mine, judged)]
    assert walks[0] == walks[1]
    assert mine.data["problems"][0]["edit"] == [
        {"op": "remove", "link": ["ny1", "tk3"], "zone": "SC"}
    ]
    said = run("plan", SHORT_CUT, "--from", FIG36, "--out", str(tmp_path / "p"))
    assert "remove the new link ny1-tk3 from zone SC [TWO_WALKS]" in said.err
    assert not (tmp_path / "p").exists()


def test_what_a_living_mesh_cannot_follow_is_one_line_each(run: Run, tmp_path: Path) -> None:
    new = edited(
        FIG36,
        tmp_path / "new.yaml",
        (("nodes", "tk2"), {"kafka": "paris", "lanes": 2}),
        (("zones", "WO", "kind"), "one-hop"),
    )
    ended = run("plan", new, "--from", FIG36)
    assert (ended.code, ended.out) == (2, "")
    assert [line.split(": ")[1] for line in ended.err.splitlines()] == [
        "spec.nodes.tk2.kafka", "spec.nodes.tk2.lanes", "spec.zones.WO.kind",
    ]  # fmt: skip


def test_who_comes_back_has_the_lanes_of_the_former_node_of_that_name(
    run: Run, chain: Chain, tmp_path: Path
) -> None:
    """Its topics may be there still. Spec: K14."""
    mesh, file = chain
    mesh.world.kafka["left"].admin().create([TopicSpec(name="mesh.d.lanes", partitions=2)])
    node = ("nodes", "d"), {"kafka": "left", "lanes": 1}
    ended = run("plan", edited(file, tmp_path / "new.yaml", node), "-f", file)
    assert (ended.code, ended.out) == (2, "")
    assert "spec.nodes.d.lanes: node d cannot have 1 lane: it was made with 2 lanes" in ended.err
    node = ("nodes", "d"), {"kafka": "left", "lanes": 2}
    assert run("plan", edited(file, tmp_path / "new.yaml", node), "-f", file).code == 3


def test_what_is_exported_plans_to_nothing(run: Run, chain: Chain, tmp_path: Path) -> None:
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    for output, name in (("yaml", "a.yaml"), ("json", "a.json")):
        exported = run("export", "-f", file, "-o", output)
        assert (exported.code, exported.err) == (0, "")
        (tmp_path / name).write_text(exported.out)
        planned = run("plan", str(tmp_path / name), "-f", file, "-o", "json")
        assert (planned.code, planned.data["changes"], planned.data["base"]["version"]) == (
            0,
            [],
            1,
        )


def test_a_silent_kafka_cluster_is_named_once(run: Run, chain: Chain) -> None:
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    mesh.world.kafka["left"].available = False
    for command, code in ((["plan", file], 3), (["export"], 0)):  # 3: the file has addresses
        ended = run(*command, "-f", file)
        assert (ended.code, ended.err.count("\n"), "warning" in ended.err) == (code, 1, True)
    mesh.world.kafka["right"].available = False
    for command in (["plan", file], ["export"], ["route", "a", "c"], ["topology"]):
        ended = run(*command, "-f", file)
        assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)


def test_without_a_record_the_file_stands_for_it(run: Run, chain: Chain) -> None:
    _, file = chain
    ended = run("plan", file, "-f", file)
    assert (ended.code, "mesh.config does not say" in ended.err) == (0, True)


def test_what_somebody_else_puts_in_force_is_waited_for(
    run: Run, chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the releases of other sites do: asked for again until it is there, or for so long."""
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    exported = tmp_path / "new.yaml"
    exported.write_text(run("export", "-f", file).out)
    new = edited(str(exported), exported, (("zones", "Z", "links"), [["a", "b"]]))
    asked: list[float] = []
    is_awaited = False

    def pause(seconds: float) -> None:
        mesh.pause(seconds)
        if seconds == ASK_AGAIN_S:
            asked.append(seconds)
            if is_awaited:
                run("apply", new, "-f", file, "--yes")

    monkeypatch.setattr("mesh.transport.clock.pause", pause)
    assert run("plan", new, "-f", file, "--within", "3").code == 3
    assert asked
    is_awaited = True
    assert run("plan", new, "-f", file, "--within", "60").code == 0
    assert run("plan", new, "--from", file, "--within", "3").code == 2


def test_the_filters_in_force_are_looked_at(run: Run, chain: Chain, tmp_path: Path) -> None:
    """Who of the endpoints loses whose messages, and over how many links they went."""
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    new = edited(file, tmp_path / "new.yaml", (("zones", "Z", "links"), [["a", "b"]]))
    ended = run("plan", new, "-f", file, "-o", "json")
    assert ended.code == 3
    assert ended.data["interest"] == {
        "endpoints": [{"endpoint": "c/e", "filter": "acme/>", "gains": [], "loses": ["a", "b"]}],
        "copies": [{"filter": "acme/>", "links": {"a": [2, 0], "b": [1, 0]}}],
    }
    assert "c/e" in run("plan", new, "-f", file).out


def test_a_queue_that_is_shared_out_otherwise_is_named(
    run: Run, chain: Chain, tmp_path: Path
) -> None:
    """For all sources pause. Spec: K28."""
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    new = edited(file, tmp_path / "new.yaml", (("queues",), {"Jobs": {"policy": "any"}}))
    told = "these queues will be shared out differently, so all sources pause: jobs"
    assert told not in run("plan", new, "-f", file).out
    run("subscribe", "acme/>", "-n", "c", "-e", "jobs", "--queue", "-f", file)
    assert told in " ".join(run("plan", new, "-f", file).out.split())
    assert run("plan", new, "-f", file, "-o", "json").data["queues"] == ["jobs"]


def test_unread_messages_are_not_deleted_unasked(run: Run, chain: Chain, tmp_path: Path) -> None:
    """Spec: DESIGN 4.4."""
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    new = edited(file, tmp_path / "new.yaml", (("zones", "Z", "links"), [["a", "b"]]))
    mesh.world.cut("c", ["b"])
    run("publish", "acme/x", "hello", "-n", "a", "-f", file)
    mesh.pause(3.0)
    waits = run("plan", new, "-f", file, "-o", "json")
    assert (waits.code, [one["topic"] for one in waits.data["unread"]]) == (3, ["mesh.b.to.c.g"])
    assert waits.data["unread"][0]["is_read"] is True  # for all that anybody can know yet
    mesh.world.kill("c")
    mesh.pause(12.0)
    refused = run("plan", new, "-f", file)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert (
        "mesh.b.to.c.g on right would be deleted and holds 1 unread guaranteed record"
        in refused.err
    )
    allowed = run("plan", new, "-f", file, "--allow-delete", "-o", "json")
    assert (allowed.code, allowed.data["allow_delete"]) == (3, True)
    [left] = [one for one in allowed.data["unread"] if not one["is_read"]]
    assert (left["topic"], left["records"], left["reader"]) == ("mesh.b.to.c.g", 1, "c")


def test_what_waits_on_a_paused_link_is_not_read(run: Run, chain: Chain, tmp_path: Path) -> None:
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    assert run("link", "pause", "b", "c", "-f", file).code == 0
    mesh.pause(3.0)
    run("publish", "acme/x", "hello", "-n", "a", "-f", file)
    mesh.pause(3.0)
    new = edited(file, tmp_path / "new.yaml", (("zones", "Z", "links"), [["a", "b"]]))
    refused = run("plan", new, "-f", file)
    assert (refused.code, "holds 1 unread guaranteed record" in refused.err) == (2, True)


def test_what_clients_published_at_a_node_that_goes(run: Run, chain: Chain, tmp_path: Path) -> None:
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    mesh.world.kill("c")
    run("publish", "other/x", "hello", "-n", "c", "-f", file)
    mesh.pause(12.0)
    new = edited(
        file, tmp_path / "new.yaml", (("zones", "Z", "links"), [["a", "b"]]), (("nodes", "c"), None)
    )
    refused = run("plan", new, "-f", file)
    assert (refused.code, "mesh.c.in.g on right would be deleted" in refused.err) == (2, True)
    allowed = run("plan", new, "-f", file, "--allow-delete", "-o", "json")
    left = [one["topic"] for one in allowed.data["topics"]["left"]]
    assert left == ["mesh.c.control.log", "mesh.c.dlq", "mesh.c.ep.e", "mesh.c.ledger"]


@pytest.mark.parametrize("fate", ["cut off", "recreated", "hidden"])
def test_what_took_the_place_of_what_was_read_at_a_node_that_goes(
    run: Run, chain: Chain, tmp_path: Path, fate: str
) -> None:
    """An offset says nothing of records that came after it was read. Spec: DESIGN 4.4, R6."""
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    right = mesh.world.kafka["right"]
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    for value in ("1", "2", "3"):
        run("publish", "other/x", value, "-n", "c", "--key", "k", "-f", file)
    mesh.pause(3.0)
    [info] = right.admin().describe(["mesh.c.in.g"]).values()
    places = [TopicPartition(info.name, number) for number in range(info.partitions)]
    [at] = [at for at, end in right.admin().ends(places).items() if end]
    if fate == "cut off":
        right.truncate(at, 2)
        mesh.pause(3.0)
    mesh.world.kill("c")
    writer = right.writer("client", "hangs")
    if fate == "hidden":
        writer.begin()
        writer.produce(at.topic, b"never committed", None, at.partition)
        assert writer.flush() == 0
    if fate == "recreated":
        right.admin().delete([info.name])
        right.admin().create([TopicSpec(name=info.name, partitions=info.partitions)])
    run("publish", "other/x", "4", "-n", "c", "--key", "k", "-f", file)
    mesh.pause(12.0)
    new = edited(
        file, tmp_path / "new.yaml", (("zones", "Z", "links"), [["a", "b"]]), (("nodes", "c"), None)
    )
    refused = run("plan", new, "-f", file)
    told = "mesh.c.in.g on right would be deleted and holds "
    count = "2 unread guaranteed records" if fate == "hidden" else "1 unread guaranteed record"
    assert (refused.code, told + count in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "no.yaml", "--from", FIG36], "no such file"),
        (["plan", FIG36, "--from", "no.yaml"], "no such file"),
        (["plan", FIG36, "--from", FIG36, "-f", FIG36], "looks at no mesh"),
        (["plan", FIG36, "--from", FIG36, "--out", "no/such/plan.json"], "cannot be written"),
        (["export"], "mesh context use"),
    ],
)
def test_wrong_input_is_one_line_and_two(run: Run, arguments: list[str], said: str) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
