"""Applications that watch what passes, hold it, change it, take it out. Spec: tree_layer 6.7, 6.8."""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import Refused, Resumed, Snooped, SnoopEnded, SnoopWanted
from mesh.model.tree_nodes import NODES
from mesh.model.trees import MessageId
from mesh.trees import snooping
from mesh.trees.inputs import AppGone
from mesh.trees.settings import Settings
from mesh.trees.snooping import WATCHES_MAX
from tests.sim.trees.rules import check_quiet, inside
from tests.sim.trees.scenes import (
    LINE,
    answer,
    ask,
    codes,
    hold_answers,
    kinds,
    late_route,
    world,
)
from tests.sim.trees.world import World, address

TREE = address("t", "r").tree


def warm(roles: str = "c", **options) -> World:
    """Return the line a-b-c whose routes are known."""
    mesh = world(LINE, roles=roles, **options)
    ask(mesh, "a"), ask(mesh, "a")
    return mesh


def snoop(
    mesh: World, node: str, *, app: str = "spy", holds: bool = True, protocol: str = ""
) -> None:
    """Watch the tree at a node."""
    mesh.step(node, SnoopWanted(app, TREE, protocol, holds))


def shown(mesh: World, app: str = "spy") -> list[Snooped]:
    """Return what an application has seen."""
    return [one for _, one in mesh.told if isinstance(one, Snooped) and one.app == app]


def say(mesh: World, node: str, one: Snooped, **how) -> list:
    """Give an application's word."""
    return mesh.step(node, Resumed(one.app, one.token, **how))


def test_47_a_held_message_goes_on_with_another_payload() -> None:
    """Spec: tree_layer 11 (47): the reply is not affected."""
    mesh = warm()
    snoop(mesh, "b")
    call = mesh.send("a", "r", payload="first")
    mesh.run(for_ms=500)
    assert call.reached == []
    (one,) = shown(mesh)
    assert (one.items, one.link, one.has_role, one.kind) == ((b"c2 first",), "a", False, None)
    held = hold_answers(mesh)
    say(mesh, "b", one, payload=b"c2 second")
    mesh.run(for_ms=500)
    assert held[0][1].payload == b"c2 second"
    answer(mesh, held[0], b"said")
    mesh.run(for_ms=500)
    assert call.answers == []
    reply = shown(mesh)[1]
    assert (reply.items, reply.is_last, reply.is_endpoint) == ((b"said",), True, False)
    say(mesh, "b", reply)
    mesh.run()
    assert (kinds(call), call.items) == ([("data", True)], [b"said"])
    check_quiet(mesh)
    assert not inside(mesh, "b").watching.held


def test_48_what_is_consumed_still_ends_with_one_last_reply() -> None:
    """Spec: tree_layer 11 (48): a message, and a last reply, at every node of the way."""
    for node in "abc":
        mesh = warm()
        snoop(mesh, node)
        call = mesh.send("a", "r")
        mesh.run(for_ms=500)
        say(mesh, node, shown(mesh)[0], is_consumed=True)
        mesh.run()
        assert call.reached == []
        assert kinds(call) == [("end", True)]
        call = mesh.send("a", "r")
        mesh.run(for_ms=500)
        say(mesh, node, shown(mesh)[1])
        mesh.run(for_ms=500)
        say(mesh, node, shown(mesh)[2], is_consumed=True)
        mesh.run()
        assert (call.reached, kinds(call)) == (["c"], [("end", True)])
        check_quiet(mesh)


def test_replies_keep_their_order_past_one_that_is_held() -> None:
    """What comes behind a held reply waits, the last one too."""
    mesh = warm()
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    snoop(mesh, "b")
    for text in (b"1", b"2"):
        answer(mesh, held[0], text, is_last=False)
    answer(mesh, held[0], b"3")
    mesh.run(for_ms=500)
    assert len(shown(mesh)) == 1
    for at in range(3):
        say(mesh, "b", shown(mesh)[at])
        mesh.run(for_ms=500)
    mesh.run()
    assert call.items == [b"1", b"2", b"3"]
    check_quiet(mesh)


@pytest.mark.parametrize("behind", [False, True], ids=["is held", "waits behind one"])
def test_a_branch_that_has_more_to_say_waits_for_it(behind: bool) -> None:
    """Its word comes past its own last reply, which waits for a watcher here. Spec: tree_layer 6.6, H9."""
    mesh = late_route()
    held = hold_answers(mesh)
    snoop(mesh, "s")
    call = mesh.send("s", "r")
    say(mesh, "s", shown(mesh)[0])
    while not held:
        mesh.run(for_ms=1)
    if behind:
        answer(mesh, held[0], b"before", is_last=False)
    answer(mesh, held[0], b"m")
    mesh.run(for_ms=1_000)
    assert [node for node, _ in held] == ["m", "x"]
    assert call.answers == []
    answer(mesh, held[1], b"x")
    mesh.run(for_ms=500)
    at = 1
    while at < len(shown(mesh)):
        say(mesh, "s", shown(mesh)[at])
        mesh.run(for_ms=500)
        at += 1
    mesh.run()
    assert call.items == [*([b"before"] if behind else []), b"m", b"x"]
    assert sum(last for _, last in kinds(call)) == 1
    check_quiet(mesh)


def test_a_link_lost_behind_a_held_reply_is_a_null_behind_it() -> None:
    """Nothing overtakes what waits."""
    mesh = warm()
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    snoop(mesh, "b")
    answer(mesh, held[0], b"1", is_last=False)
    mesh.run(for_ms=500)
    mesh.cut("b", "c", (0, 0))
    mesh.run(for_ms=500)
    assert call.answers == []
    say(mesh, "b", shown(mesh)[0])
    mesh.run(for_ms=500)
    assert kinds(call)[0] == ("data", False)
    say(mesh, "b", shown(mesh)[1])
    mesh.run()
    assert kinds(call) == [("data", False), ("null", True)]
    assert not inside(mesh, "b").watching.held


def test_who_only_watches_holds_nothing_up() -> None:
    """And several are shown the same, in the order in which they came."""
    mesh = warm()
    snoop(mesh, "b", holds=False)
    snoop(mesh, "b", app="second", holds=False)
    snoop(mesh, "b", app="third", holds=False, protocol="other")
    assert kinds(ask(mesh, "a")) == [("data", True)]
    assert [one.token for one in shown(mesh)] == [0, 0]
    assert len(shown(mesh, "second")) == 2
    assert shown(mesh, "third") == []


def test_what_waits_goes_on_when_its_watcher_ends() -> None:
    """By its word, or without one."""
    for end in (AppGone("spy"), SnoopEnded("spy", TREE)):
        mesh = warm()
        snoop(mesh, "b")
        call = mesh.send("a", "r")
        mesh.run(for_ms=500)
        mesh.step("b", end)
        mesh.run()
        assert kinds(call) == [("data", True)]
        check_quiet(mesh)


def test_what_waits_for_too_long_is_taken_out() -> None:
    """Whoever waits for a last reply gets one; nothing is kept."""
    mesh = warm(settings=Settings(ping_ms=0, record_ms=5_000, sweep_ms=1_000))
    snoop(mesh, "b")
    call = mesh.send("a", "r")
    mesh.run()
    assert sum(one.is_last for one in call.answers) == 1
    assert not inside(mesh, "b").watching.held
    assert codes(say(mesh, "b", shown(mesh)[0])) == ["UNKNOWN_TOKEN"]


def test_a_word_on_what_does_not_wait_is_refused() -> None:
    """Also that of another application."""
    mesh = warm()
    snoop(mesh, "b")
    mesh.send("a", "r")
    mesh.run(for_ms=500)
    (one,) = shown(mesh)
    assert codes(mesh.step("b", Resumed("other", one.token))) == ["UNKNOWN_TOKEN"]
    assert codes(mesh.step("b", Resumed("spy", MessageId(9)))) == ["UNKNOWN_TOKEN"]
    assert not any(isinstance(out, Refused) for out in say(mesh, "b", one))


def test_a_one_way_message_can_be_held_and_taken_out() -> None:
    """No reply is owed for it, and none is made."""
    mesh = warm()
    snoop(mesh, "b")
    kept, lost = (mesh.send("a", "r", one_way=True) for _ in range(2))
    mesh.run(for_ms=500)
    first, second = shown(mesh)
    say(mesh, "b", first)
    say(mesh, "b", second, is_consumed=True)
    mesh.run()
    assert (kept.reached, lost.reached) == (["c"], [])
    assert kept.answers == lost.answers == []
    check_quiet(mesh)


@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("size", [1, 10_000], ids=["too old", "too large"])
def test_a_one_way_message_that_is_held_for_too_long_is_answered_by_nobody(
    node: str, size: int
) -> None:
    """Nobody waits for a reply: not the sender, and no node on the way."""
    limits = {"record_ms": 5_000, "sessions_bytes_max": 8_000}
    mesh = warm(settings=Settings(ping_ms=0, sweep_ms=1_000, **limits))
    snoop(mesh, node)
    call = mesh.send("a", "r", payload="x" * size, one_way=True)
    mesh.run()
    assert (call.reached, call.answers) == ([], [])
    assert not inside(mesh, node).watching.held
    assert not any(inside(mesh, one).counts["replies to nothing"] for one in "abc")


def held_at(mesh: World, node: str) -> int:
    """Return how much waits for a word at a node."""
    return len(inside(mesh, node).watching.held)


def test_who_has_ended_meanwhile_is_not_waited_for() -> None:
    """Two may hold; the second ends while the first looks. Spec: tree_layer 6.8."""
    for end in (AppGone("y"), SnoopEnded("y", TREE)):
        mesh = warm()
        snoop(mesh, "b", app="x"), snoop(mesh, "b", app="y")
        call = mesh.send("a", "r")
        mesh.run(for_ms=500)
        mesh.step("b", end)
        say(mesh, "b", shown(mesh, "x")[0])
        mesh.run(for_ms=500)
        assert call.reached == ["c"]
        assert shown(mesh, "y") == []


def test_a_watch_that_ends_lets_go_though_its_application_watches_elsewhere() -> None:
    """One that is asked for anew, without holding, too."""
    for end in (SnoopEnded("spy", TREE), SnoopWanted("spy", TREE, "", holds=False)):
        mesh = warm()
        snoop(mesh, "b")
        mesh.step("b", SnoopWanted("spy", None, "other", holds=False))
        call = mesh.send("a", "r")
        mesh.run(for_ms=500)
        assert call.reached == []
        mesh.step("b", end)
        mesh.run(for_ms=500)
        assert call.reached == ["c"]


def test_an_application_is_shown_a_message_once() -> None:
    """However many of its watches it falls under; it waits if one of them holds."""
    mesh = warm()
    mesh.step("b", SnoopWanted("spy", None, "", holds=False))
    snoop(mesh, "b")
    mesh.send("a", "r")
    mesh.run(for_ms=500)
    assert len(shown(mesh)) == held_at(mesh, "b") == 1


def test_an_application_has_so_many_watches_and_no_more() -> None:
    """All of them are looked through for each message of the node."""
    mesh = warm()
    for number in range(WATCHES_MAX):
        snoop(mesh, "b", protocol=f"p{number}")
    one_more = SnoopWanted("spy", TREE, "one more")
    assert codes(mesh.step("b", one_more)) == ["TOO_MANY_WATCHES"]
    assert len(inside(mesh, "b").watching.watchers) == WATCHES_MAX
    assert codes(mesh.step("b", SnoopWanted("spy", TREE, "p1"))) == []


def test_so_many_replies_wait_behind_one_that_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes on top pushes the oldest on: none is lost, and their order stays."""
    monkeypatch.setattr(snooping, "BEHIND_MAX", 5)
    mesh = warm()
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    snoop(mesh, "b")
    texts = [b"%d" % number for number in range(20)]
    for text in texts:
        answer(mesh, held[0], text, is_last=False)
    mesh.run(for_ms=500)
    [session] = inside(mesh, "b").sessions.open.values()
    assert len(session.behind) == 5
    mesh.step("b", AppGone("spy"))
    answer(mesh, held[0], b"end")
    mesh.run()
    assert call.items == [*texts, b"end"]
    check_quiet(mesh)


def test_so_many_messages_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes on top is shown and goes on. Spec: tree_layer 6.8."""
    monkeypatch.setattr(snooping, "HELD_MAX", 2)
    mesh = warm()
    snoop(mesh, "b")
    calls = [mesh.send("a", "r", one_way=True) for _ in range(3)]
    mesh.run(for_ms=500)
    assert [call.reached for call in calls] == [[], [], ["c"]]
    assert [bool(one.token) for one in shown(mesh)] == [True, True, False]
    mesh.step("b", AppGone("spy"))
    mesh.run()
    assert [call.reached for call in calls] == [["c"]] * 3
    check_quiet(mesh)


def test_so_many_bytes_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that come on top are shown and go on. Spec: tree_layer 6.8."""
    monkeypatch.setattr(snooping, "HELD_BYTES_MAX", 250)
    mesh = warm()
    snoop(mesh, "b")
    calls = [mesh.send("a", "r", payload="x" * 97) for _ in range(3)]
    mesh.run(for_ms=500)
    assert [call.reached for call in calls] == [[], [], ["c"]]
    assert [bool(one.token) for one in shown(mesh)] == [True, True, False, True]
    assert inside(mesh, "b").watching.held_bytes == 100 + 100 + len(b"c")
    mesh.step("b", AppGone("spy"))
    mesh.run()
    assert [call.reached for call in calls] == [["c"]] * 3
    check_quiet(mesh)


def test_replies_of_so_many_bytes_wait_behind_one_that_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many of the oldest go on as make room for the next: their order stays."""
    mesh = warm()
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    monkeypatch.setattr(snooping, "HELD_BYTES_MAX", 30)
    snoop(mesh, "b")
    texts = [b"%d" % number * 5 for number in range(6)]
    for text in [*texts, b"y" * 18]:
        answer(mesh, held[0], text, is_last=False)
        mesh.run(for_ms=100)
        assert inside(mesh, "b").watching.held_bytes <= 30
    assert call.items == texts[:4]
    mesh.step("b", AppGone("spy"))
    answer(mesh, held[0], b"z" * 31)
    mesh.run()
    assert call.items == [*texts, b"y" * 18, b"z" * 31]
    check_quiet(mesh)


def test_nobody_watches_the_trees_of_the_mesh_itself() -> None:
    """Who counts the nodes must not be told a count by an application."""
    mesh = warm()
    mesh.step("a", SnoopWanted("spy", None, "", holds=True))
    mesh.send("a", NODES.role, tree=NODES.tree)
    mesh.run(for_ms=500)
    assert shown(mesh) == []


def test_several_answers_in_one_reply_are_not_changed_into_one() -> None:
    """The word would take the others away without a trace."""
    mesh = warm("bc")
    call = mesh.send("a", "r", one_response=True)
    snoop(mesh, "a")
    mesh.run(for_ms=500)
    [reply] = [one for one in shown(mesh) if one.kind is not None]
    assert codes(say(mesh, "a", reply, payload=b"mine")) == ["CANNOT_CHANGE"]
    say(mesh, "a", reply)
    mesh.run(for_ms=500)
    assert len(call.items) == 2


def test_who_answers_behind_its_last_reply_while_that_waits_ends_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer without payload is shown to nobody: all that waited went on at once."""
    monkeypatch.setattr(snooping, "BEHIND_MAX", 2)
    mesh = warm()
    snoop(mesh, "c")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    say(mesh, "c", shown(mesh)[0])
    mesh.run(for_ms=100)
    answer(mesh, held[0], b"one", is_last=False)
    for is_last in (False, True, True):
        answer(mesh, held[0], None, is_last=is_last)
    mesh.run()
    assert kinds(call) == [("data", False), ("end", True)]
    check_quiet(mesh)
