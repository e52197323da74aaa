"""Applications that watch what passes their node, and what the mesh tells who listens."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.client.role_messages import Call
from mesh.client.roles import Roles
from mesh.client.watching import Passing, Verdict
from mesh.errors import RoleRefusedError, SubjectError
from mesh.model.tree_apps import (
    ColourChanged,
    ColourReason,
    NewsKind,
    NodesFound,
    NodesLost,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import tree_id
from mesh.operate.roles.trace import trace_send
from mesh.trees import utility
from tests.component.in_memory_mesh import Mesh
from tests.component.worker.trees.applications import Open, finished, live, payloads


def test_a_cut_and_a_heal_are_told_and_the_far_side_is_found(mesh: Mesh, application: Open) -> None:
    host, sender = application("c"), application("a")
    told: list[str] = []
    sender.listener = lambda news: told.append(type(news).__name__)
    host.add("desk-7", "pricing")
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]
    mesh.world.cut("a", ["b"])
    live(mesh, 12, host, sender)
    assert told == ["PartitionSuspected"]
    lone = finished(sender.send("desk-7", "pricing", b"2"), host)
    assert [one.kind for one in lone.replies] == [ReplyKind.NOT_FOUND]
    mesh.world.cut("a", [])
    live(mesh, 3, host, sender)
    assert told == ["PartitionSuspected", "Unpartitioned"]
    assert payloads(finished(sender.send("desk-7", "pricing", b"3"), host)) == ["c: 3"]


def test_an_application_on_the_way_changes_what_passes(mesh: Mesh, application: Open) -> None:
    """It holds a message, changes it later, takes out a reply. Spec: tree_layer 6.8."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    seen: list[Passing] = []
    verdicts = [Verdict.SUSPEND, Verdict.CONTINUE]

    def watch(passing: Passing) -> Verdict:
        seen.append(passing)
        return verdicts.pop(0) if verdicts else Verdict.CONSUME

    spy.snoop(watch, "desk-7")
    live(mesh, 1, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"how much?")
    live(mesh, 3, host, sender, spy)
    assert [(one.payload, one.shown.kind, one.waits) for one in seen] == [
        (b"how much?", None, True)
    ]
    seen[0].resume(b"how little?")
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: how little?"]
    lost = finished(sender.send("desk-7", "pricing", b"lost"), host, spy)
    assert [one.kind for one in lost.replies] == [ReplyKind.END]
    assert seen[-1].payload == b"lost"
    spy.unsnoop("desk-7")
    live(mesh, 1, host, sender, spy)
    assert payloads(finished(sender.send("desk-7", "pricing", b"free"), host, spy)) == ["c: free"]


def test_watches_that_overlap_are_all_asked(mesh: Mesh, application: Open) -> None:
    """Each of them sees what it asked for; what passes waits for all that hold it."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    every: list[bytes] = []
    held: list[Passing] = []

    def look(passing: Passing) -> Verdict:
        every.append(passing.payload)
        return Verdict.CONSUME  # in vain: this watch holds nothing

    def hold(passing: Passing) -> Verdict:
        if passing.shown.kind is not None:
            return Verdict.CONTINUE
        held.append(passing)
        return Verdict.SUSPEND

    spy.snoop(look, holds=False)
    spy.snoop(hold, "desk-7")
    live(mesh, 1, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"how much?")
    live(mesh, 3, host, sender, spy)
    assert (every, len(held), call.replies) == ([b"how much?"], 1, [])
    held[0].resume()
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: how much?"]
    assert every == [b"how much?", b"c: how much?"]


def test_who_watches_goes_on_watching_when_its_node_comes_back(
    mesh: Mesh, application: Open
) -> None:
    """The new incarnation knows nothing of it; the client says it again."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    seen: list[bytes] = []

    def watch(passing: Passing) -> Verdict:
        seen.append(passing.payload)
        return Verdict.CONTINUE

    spy.snoop(watch, holds=False)
    mesh.world.kill("b")
    mesh.world.start("b")
    live(mesh, 20, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"again")
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: again"]
    assert seen == [b"again", b"c: again"]


def test_a_split_is_told_once_to_who_watches_for_it(mesh: Mesh, application: Open) -> None:
    """Both sides, with whom they reach and whom not; a minority can refuse writes. Spec: PAT-12."""
    lone, other, deaf = application("a"), application("c"), application("c", "deaf")
    told: dict[str, list[object]] = {"a": [], "c": [], "deaf": []}
    for name, one in (("a", lone), ("c", other), ("deaf", deaf)):
        one.listener = told[name].append
    lone.listen("splits"), other.listen("splits")
    live(mesh, 2, lone, other, deaf)
    for _ in range(2):
        mesh.world.cut("a", ["b"])
        live(mesh, 20, lone, other, deaf)
        mesh.world.cut("a", [])
        live(mesh, 20, lone, other, deaf)
    splits = {
        name: [one for one in news if isinstance(one, NodesLost)] for name, news in told.items()
    }
    heals = {
        name: [one for one in news if isinstance(one, Unpartitioned)] for name, news in told.items()
    }
    assert splits["a"] == [NodesLost(("a",), ("b", "c"))] * 2
    assert splits["c"] == [NodesLost(("b", "c"), ("a",))] * 2
    assert [one.is_minority for one in (splits["a"][0], splits["c"][0])] == [True, False]
    found = [one for one in told["c"] if isinstance(one, NodesFound)]
    assert found == [NodesFound(("a", "b", "c"), (), ("a",))] * 2
    assert splits["deaf"] == []
    assert [len(heals[name]) for name in ("a", "c", "deaf")] == [2, 2, 2]


def test_a_node_that_restarts_is_missed_and_found_each_time(mesh: Mesh, application: Open) -> None:
    """It joins without a colour: nothing tells the others but that somebody counts. Spec: tree_layer 7.4."""
    watcher = application("a")
    told: list[object] = []
    watcher.listener = told.append
    watcher.listen("splits")
    live(mesh, 2, watcher)
    for _ in range(2):
        mesh.world.kill("c")
        live(mesh, 20, watcher)
        mesh.world.start("c")
        live(mesh, 50, watcher)
    heard = [one for one in told if isinstance(one, NodesLost | NodesFound)]
    assert (
        heard
        == [
            NodesLost(("a", "b"), ("c",)),
            NodesFound(("a", "b", "c"), (), ("c",)),
        ]
        * 2
    )
    watcher.stop_listening("splits")
    live(mesh, 1, watcher)
    mesh.world.kill("c")
    live(mesh, 20, watcher)
    assert [one for one in told if isinstance(one, NodesLost | NodesFound)] == heard


def test_colours_are_told_at_both_ends_of_a_cut_and_are_one_again_after_it(
    mesh: Mesh, application: Open
) -> None:
    """Also by the next incarnation of the node, unasked. Spec: tree_layer 7.1, 7.4."""
    ends = {"a": application("a"), "c": application("c")}
    told: dict[str, list[object]] = {"a": [], "c": []}
    for name, one in ends.items():
        one.listener = told[name].append
        one.add("desk-7", "pricing")
        one.listen(NewsKind.COLOURS)
    live(mesh, 2, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new
    mesh.world.cut("a", ["b"])
    live(mesh, 15, *ends.values())
    apart = {name: _colours(told[name])[-1] for name in told}
    assert apart["a"].new != apart["c"].new
    assert (apart["a"].reason, apart["c"].reason) == (ColourReason.LINK_LOST, ColourReason.SPREAD)
    mesh.world.cut("a", [])
    live(mesh, 3, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new
    heals = [one for one in told["a"] if isinstance(one, Unpartitioned)]
    assert [(one.near_colour, one.far_colour) for one in heals] == [
        (apart["a"].new, apart["c"].new)
    ]
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new


def _colours(told: list[object]) -> list[ColourChanged]:
    return [one for one in told if isinstance(one, ColourChanged)]


def test_an_application_that_learns_of_a_tree_watches_what_passes_on_it(
    mesh: Mesh, application: Open
) -> None:
    """Trees are learned from what passes: nobody told the node of this one. Spec: tree_layer 8."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    trees: list[str] = []
    passed: list[bytes] = []

    def learn(news: object) -> None:
        if isinstance(news, TreeBuilt) and news.tree == tree_id("desk-7"):
            trees.append(news.tree)
            spy.snoop(lambda one: passed.append(one.payload) or Verdict.CONTINUE, news.tree)

    spy.listener = learn
    spy.listen("trees")
    live(mesh, 1, host, sender, spy)
    host.add("desk-7", "pricing")
    live(mesh, 2, host, sender, spy)
    assert trees == [tree_id("desk-7")]
    call = finished(sender.send("desk-7", "pricing", b"how much?"), host, spy)
    assert payloads(call) == ["c: how much?"]
    assert passed == [b"how much?", b"c: how much?"]
    with pytest.raises(SubjectError, match="write one of splits, colours, trees"):
        spy.listen("weather")


def test_everybody_can_be_asked_and_so_can_a_tree(mesh: Mesh, application: Open) -> None:
    """By the client as by `kcat`: a send like any other. Spec: tree_layer 8 (getTreeNodes)."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    finished(sender.send("desk-7", "pricing", b"1"), host)
    assert [(one.node, one.links) for one in sender.nodes()] == [
        ("a", ("b",)), ("b", ("a", "c")), ("c", ("b",)),
    ]  # fmt: skip
    assert [(one.node, one.neighbours) for one in sender.nodes("desk-7")] == [
        ("a", ("b",)), ("b", ("a", "c")), ("c", ("b",)),
    ]  # fmt: skip
    assert sender.nodes("desk-8") == []
    with pytest.raises(RoleRefusedError, match="RESERVED"):
        host.add("$nodes", "node")


def test_who_asks_everybody_is_not_stopped_by_what_no_node_says(
    application: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write on a tree link may answer for a node."""
    said = utility.encode_node
    words = {"b": b"x", "c": b"[" * 100_000}
    monkeypatch.setattr(utility, "encode_node", lambda one: words.get(one.node) or said(one))
    assert [one.node for one in application("a").nodes()] == ["a"]


def test_two_traces_at_once_each_show_the_whole_way(
    mesh: Mesh, application: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands are one application: the first to end took the watches of the other along."""
    application("c").add("desk-7", "pricing")
    first, second = (
        {node: application(node, "cli", is_new=False) for node in "abc"} for _ in range(2)
    )
    send = Roles.send

    def send_behind(roles: Roles, *place: Any, **how: Any) -> Call:
        monkeypatch.setattr(Roles, "send", send)
        trace_send(second, "b", "desk-7", "pricing", timeout_s=2)
        return send(roles, *place, **how)

    monkeypatch.setattr(Roles, "send", send_behind)
    _, seen, silent = trace_send(first, "a", "desk-7", "pricing", timeout_s=2)
    assert [one.node for one in seen if one.what == "message"] == ["a", "b", "c"]
    assert not silent
