"""`mesh role`: who has roles, what nodes know of them, and sending to them. Spec: tree_layer 8."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mesh.client.roles import Roles
from mesh.transport.port import TopicPartition
from tests.component.cli.conftest import Chain, Mesh, Run, chain_of
from tests.component.in_memory_mesh import CHAIN


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[Chain]:
    """A chain whose nodes have the tree layer; one at a time of those who wait lets it live."""
    for mesh, file in chain_of(CHAIN, monkeypatch, tmp_path, trees=True):
        turns = threading.RLock()

        def pause(seconds: float, of: Mesh = mesh, turns: threading.RLock = turns) -> None:  # type: ignore[valid-type]
            with turns:
                of.pause(seconds)

        monkeypatch.setattr("mesh.transport.clock.pause", pause)
        yield mesh, file


def hosted(mesh: Mesh) -> Roles:
    """Return an application at c that answers whenever time passes."""
    host = mesh.client("c").roles("desk", lease_s=600).open()
    host.add("desk-7", "pricing")
    pause = mesh.pause

    def live(seconds: float) -> None:
        pause(seconds)
        mesh.pause = pause  # type: ignore[method-assign] # one at a time
        host.step()
        for message in host.taken():
            message.answer(b"42")
        mesh.pause = live  # type: ignore[method-assign]

    mesh.pause = live  # type: ignore[method-assign]
    return host


def test_a_role_is_listed_sent_to_and_shown(run: Run, trees: Chain) -> None:
    mesh, file = trees
    hosted(mesh)
    [listed] = run("role", "list", "-f", file, "-o", "json").data["roles"]
    assert (listed["tree"], listed["role"], listed["node"], listed["app"]) == (
        "desk-7", "pricing", "c", "desk",
    )  # fmt: skip
    sent = run(
        "role", "send", "desk-7", "pricing", "-n", "a", "how much?", "-f", file, "-o", "json"
    )
    assert sent.code == 0
    assert [one["items"] for one in sent.data["replies"] if one["kind"] == "data"] == [["42"]]
    shown = run("role", "show", "desk-7", "pricing", "-f", file, "-o", "json").data
    ways = {
        one["node"]: [(way["link"], way["hops"]) for way in one["routes"]] for one in shown["nodes"]
    }
    assert ways == {"a": [("b", 2)], "b": [("c", 1)], "c": [("", 0)]}
    apart = {one["node"]: one["disjoint_ways"] for one in shown["nodes"]}
    assert apart == {"a": 1, "b": 1, "c": None}
    table = run("role", "show", "desk-7", "pricing", "-f", file).out
    assert all(word in table for word in ("b (2)", "here", "desk", "shared", "APART"))


def test_nobody_is_found_and_names_that_are_none_are_refused(run: Run, trees: Chain) -> None:
    _, file = trees
    sent = run("role", "send", "desk-7", "nobody", "-n", "a", "-f", file, "-o", "json")
    assert (sent.code, sent.data["ok"]) == (10, False)
    assert [one["kind"] for one in sent.data["replies"]] == ["not_found"]
    wrong = run("role", "send", "desk-7", "two words", "-n", "a", "-f", file)
    assert wrong.code == 2
    assert "has spaces" in wrong.err
    options = ("--one-way", "--one-instance")
    wrong = run("role", "send", "desk-7", "r", "-n", "a", "-f", file, *options)
    assert wrong.code == 2
    assert "drop one" in wrong.err


def test_what_a_node_refuses_is_told_with_its_code_alone(run: Run, trees: Chain) -> None:
    _, file = trees
    for word in ("send", "trace"):
        wrong = run("role", word, "desk-7", "r", "-n", "a", "x", "--local-realm", "-f", file)
        assert wrong.code == 2
        assert wrong.err.splitlines() == [
            f"role {word}: node 'a' is in no realm; send without local_realm [NO_REALM]"
        ]


def test_one_way_is_not_sent_if_kafka_has_not_taken_it(
    run: Run, trees: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file = trees
    monkeypatch.setattr(Roles, "flush", lambda _: 1)
    sent = run("role", "send", "desk-7", "r", "-n", "a", "x", "--one-way", "-f", file)
    assert (sent.code, sent.out) == (1, "")
    assert "send it again [TRANSPORT_UNAVAILABLE]" in sent.err


def test_what_applications_that_are_gone_have_left_is_deleted_if_somebody_says_so(
    run: Run, trees: Chain
) -> None:
    """Not of one that lives, nor what somebody may still read; who comes back is served. 13."""
    mesh, file = trees
    hosted(mesh)
    for app in ("gone", "going"):
        with mesh.client("a").roles(app) as roles:
            roles.add("desk-7", "r")
    mesh.pause(1)
    admin = mesh.world.kafka["left"].admin()
    place = TopicPartition("mesh.a.app.gone", 0)
    admin.delete_before({place: admin.ends([place])[place]})  # as Kafka does after ten minutes
    asked = run("role", "clean", "-f", file)
    assert (asked.code, asked.out) == (2, "")
    assert "give --yes to delete 1 topics, such as mesh.a.app.gone" in (asked.err)
    cleaned = run("role", "clean", "--yes", "-f", file, "-o", "json").data["deleted"]
    assert cleaned == [{"node": "a", "app": "gone", "topic": "mesh.a.app.gone"}]
    assert sorted(admin.named("mesh.a.app.")) == ["mesh.a.app.going"]
    assert "has left a topic" in run("role", "clean", "-f", file).out
    with mesh.client("a").roles("gone") as roles:
        assert roles.add("desk-7", "r")


def test_status_tells_the_parts_of_a_mesh_that_is_split(run: Run, trees: Chain) -> None:
    mesh, file = trees
    hosted(mesh)
    run("role", "send", "desk-7", "pricing", "-n", "a", "-f", file)
    mesh.pause(2)
    assert run("status", "-f", file, "-o", "json").data["parts"] == [["a", "b", "c"]]
    assert "parts" not in run("status", "-f", file).out
    mesh.world.cut("a", ["b"])
    mesh.pause(13)
    assert run("status", "-f", file, "-o", "json").data["parts"] == [["a"], ["b", "c"]]
    assert "in 2 parts: a | b, c" in run("status", "-f", file).out


def test_status_tells_the_parts_of_a_realm_that_is_not_joined_inside(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """The mesh is one, and messages of the realm alone do not come through. Spec: tree_layer 5.14."""
    inside = {name: {"realm": "west"} for name in "ac"}
    nodes = {name: {**node, **inside.get(name, {})} for name, node in CHAIN["nodes"].items()}  # type: ignore[attr-defined]
    for mesh, file in chain_of({**CHAIN, "nodes": nodes}, monkeypatch, tmp_path, trees=True):
        monkeypatch.setattr("mesh.transport.clock.pause", mesh.pause)
        hosted(mesh)
        run("role", "send", "desk-7", "pricing", "-n", "a", "-f", file)
        mesh.pause(2)
        told = run("status", "-f", file, "-o", "json").data
        assert (told["parts"], told["realms"]) == ([["a", "b", "c"]], {"west": [["a"], ["c"]]})
        colours = [(one["realm"], bool(one["realm_colour"])) for one in told["nodes"]]
        assert colours == [("west", True), (None, False), ("west", True)]
        assert "realm west is in 2 parts: a | c" in run("status", "-f", file).out


def test_routes_are_shown_with_their_age_and_reason(run: Run, trees: Chain) -> None:
    mesh, file = trees
    hosted(mesh)
    mesh.pause(5)
    shown = run("role", "route", "desk-7", "pricing", "-f", file, "-o", "json").data
    ways = {one["node"]: one["routes"] for one in shown["nodes"]}
    assert [way["reason"] for way in ways["a"] + ways["c"]] == ["published", "here"]
    assert ways["a"][0]["age_s"] >= 5
    assert [one["certain"] for one in shown["nodes"]] == [False, False, False]
    run("role", "send", "desk-7", "pricing", "-n", "a", "-f", file)
    shown = run("role", "route", "desk-7", "pricing", "-f", file, "-o", "json").data
    assert shown["nodes"][0]["routes"][0]["reason"] == "recovered"
    assert shown["nodes"][0]["certain"] is True
    table = run("role", "route", "desk-7", "pricing", "-f", file).out
    assert all(word in table for word in ("recovered", "here", "NEXT"))
    assert "-" in run("role", "route", "desk-7", "nobody", "-f", file).out


def test_the_way_of_one_message_is_shown_hop_by_hop(run: Run, trees: Chain) -> None:
    mesh, file = trees
    hosted(mesh)
    for _ in range(2):
        traced = run(
            "role", "trace", "desk-7", "pricing", "-n", "a", "hi", "-f", file, "-o", "json"
        )
    assert traced.code == 0
    hops = [(one["what"], one["from"], one["node"], one["hops"]) for one in traced.data["hops"]]
    assert hops == [
        ("message", "", "a", 0),
        ("message", "a", "b", 1),
        ("message", "b", "c", 2),
        ("data", "", "c", 2),
        ("data", "c", "b", 1),
        ("data", "b", "a", 0),
    ]
    assert [one["has_role"] for one in traced.data["hops"][:3]] == [False, False, True]
    assert [one["items"] for one in traced.data["replies"]] == [["42"]]
    assert "data (last)" in run("role", "trace", "desk-7", "pricing", "-n", "a", "-f", file).out


def test_a_trace_says_why_it_ends_so(run: Run, trees: Chain) -> None:
    """Nobody has the role: exit code 10, and the reply that says so."""
    _, file = trees
    traced = run("role", "trace", "desk-7", "nobody", "-n", "a", "-f", file)
    assert traced.code == 10
    assert "not_found" in traced.out
    routes = run("role", "route", "desk-7", "nobody", "-f", file)
    assert "0 s" not in routes.out


@pytest.mark.parametrize("command", ["send", "trace"])
def test_a_message_that_is_too_large_is_wrong_input(run: Run, trees: Chain, command: str) -> None:
    _, file = trees
    sent = run("role", command, "desk-7", "pricing", "-n", "a", "x" * 900_001, "-f", file)
    assert (sent.code, sent.out) == (2, "")
    assert "PAYLOAD: 900001 bytes; at most 900000 are allowed" in sent.err


@pytest.mark.parametrize("tree", ["$nodes", "$realms"])
def test_trees_of_all_nodes_have_no_trace(run: Run, trees: Chain, tree: str) -> None:
    """Nobody is shown what passes there, so the way would look empty."""
    _, file = trees
    traced = run("role", "trace", tree, "node", "-n", "a", "x", "-f", file)
    assert (traced.code, traced.out) == (2, "")
    assert "`mesh role send` says who answers" in traced.err
    assert run("role", "send", "$nodes", "node", "-n", "a", "-f", file).code == 0


def test_a_trace_says_whom_it_cannot_watch(run: Run, trees: Chain) -> None:
    mesh, file = trees
    hosted(mesh)
    run("role", "send", "desk-7", "pricing", "-n", "a", "-f", file)
    mesh.world.kill("b")
    options = ("-f", file, "--timeout", "3", "-o", "json")
    traced = run("role", "trace", "desk-7", "pricing", "-n", "a", *options)
    assert traced.code == 10
    assert traced.data["unheard"] == ["b"]
    assert "node b does not answer" in traced.err
    gone = run("role", "trace", "desk-7", "pricing", "-n", "b", "-f", file, "--timeout", "3")
    assert gone.code == 2
    assert "node b does not answer; start it, or see `mesh status`" in gone.err
    wrong = run("role", "trace", "desk-7", "pricing", "-n", "x", "-f", file)
    assert wrong.code == 2


def test_a_node_that_ends_during_a_trace_takes_no_other_s_word_along(
    run: Run, trees: Chain
) -> None:
    """What passed the others is shown, and whose word is missing."""
    mesh, file = trees
    host = mesh.client("c").roles("desk", lease_s=600).open()
    host.add("desk-7", "pricing")
    pause = mesh.pause

    def live(seconds: float) -> None:
        mesh.pause = pause  # type: ignore[method-assign] # one at a time
        pause(seconds)
        host.step()
        if host.taken():
            mesh.world.kill("b")
        mesh.pause = live  # type: ignore[method-assign]

    mesh.pause = live  # type: ignore[method-assign]
    options = ("-f", file, "--timeout", "3", "-o", "json")
    traced = run("role", "trace", "desk-7", "pricing", "-n", "a", "x", *options)
    assert (traced.code, traced.data["unheard"]) == (10, ["b"])
    passed = [one["node"] for one in traced.data["hops"] if one["what"] == "message"]
    assert passed[0] == "a"
    assert "c" in passed
