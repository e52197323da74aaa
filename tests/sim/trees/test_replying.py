"""Replies: back the way the message came, one of them the last. Spec: tree_layer 11."""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import (
    AnswerGiven,
)
from mesh.model.tree_frames import (
    Cause,
    Frame,
    Reply,
    ReplyKind,
    Send,
)
from mesh.model.trees import (
    MessageId,
)
from mesh.trees.inputs import (
    AppGone,
    FrameRead,
    PortClosed,
)
from mesh.trees.replying import ITEM_BYTES
from mesh.trees.settings import (
    Settings,
)
from tests.sim.trees.rules import (
    check_quiet,
    inside,
)
from tests.sim.trees.scenes import (
    LONG,
    STAR,
    answer,
    ask,
    codes,
    hold_answers,
    kinds,
    world,
)
from tests.sim.trees.world import (
    APP,
)


def test_05_four_replies_and_the_fourth_is_last() -> None:
    """Spec: tree_layer 11 (5)."""
    mesh = world(roles="c")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.answers_of = lambda _, one: [
        AnswerGiven(APP, one.mid, bytes([n]), is_last=n == 3) for n in range(4)
    ]
    mesh._later = lambda after, happen: mesh._at(mesh.now_ms + 10, happen)
    call = mesh.send("a", "r")
    mesh.run()
    assert kinds(call) == [("data", False)] * 3 + [("data", True)]


def test_06_a_last_reply_is_no_last_one_while_others_are_owed() -> None:
    """Spec: tree_layer 11 (6), I2."""
    mesh = world(roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=200)
    by_node = {node: (node, one) for node, one in held}
    for _ in range(2):
        answer(mesh, by_node["b"], is_last=False)
    answer(mesh, by_node["b"])
    mesh.run(for_ms=200)
    assert kinds(call) == [("data", False)] * 3
    answer(mesh, by_node["c"])
    mesh.run()
    assert kinds(call)[3:] == [("data", True)]
    check_quiet(mesh)


def test_07_an_answer_behind_the_last_or_to_nothing_is_refused() -> None:
    """Spec: tree_layer 11 (7), 6.5."""
    mesh = world(roles="bc")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=400)
    at_b = next(one for one in held if one[0] == "b")
    assert codes(answer(mesh, at_b)) == []
    assert codes(answer(mesh, at_b)) == ["LAST_ALREADY_SENT"]
    assert codes(mesh.step("a", AnswerGiven(APP, MessageId(7)))) == ["UNKNOWN_MESSAGE"]
    assert codes(mesh.step("b", AnswerGiven("other", at_b[1].mid))) == ["UNKNOWN_MESSAGE"]


@pytest.mark.parametrize("lost", [("c", "d"), ("a", "b")])
def test_14_15_a_link_lost_before_the_reply_is_a_null(lost: tuple[str, str]) -> None:
    """Spec: tree_layer 11 (14, 15). PAT-4."""
    mesh = world(LONG, roles="d")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=300)
    mesh.cut(*lost, (0, 0))
    mesh.run(for_ms=300)
    answer(mesh, held[0])
    mesh.run()
    assert kinds(call) == [("null", True)]
    assert call.answers[0].cause is Cause.LINK_DOWN
    check_quiet(mesh)


def test_16_one_branch_is_lost_and_one_answers() -> None:
    """Spec: tree_layer 11 (16)."""
    mesh = world((("b", "a"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=200)
    mesh.cut("a", "b", (0, 0))
    mesh.run(for_ms=100)
    answer(mesh, next(one for one in held if one[0] == "c"))
    mesh.run()
    assert kinds(call) == [("null", False), ("data", True)]


def test_17_one_response_collects() -> None:
    """Spec: tree_layer 11 (17), Q4."""
    mesh = world(STAR, roles="bcdef")
    call = ask(mesh, "a", one_response=True)
    assert kinds(call) == [("data", True)]
    assert sorted(call.items) == [b"b", b"c", b"d", b"e", b"f"]
    held = hold_answers(mesh)
    broken = mesh.send("a", "r", one_response=True)
    mesh.run(for_ms=200)
    mesh.cut("a", "b", (0, 0))
    for one in held:
        answer(mesh, one)
    mesh.run()
    assert kinds(broken) == [("null", False), ("data", True)]
    assert len(broken.items) == 4


def test_a_reply_takes_the_way_of_its_message_back() -> None:
    """Hop for hop, though another way is as short, and was used by others. Spec: Q9."""
    ring = (*LONG, ("d", "e"), ("e", "f"), ("f", "a"))
    for seed in range(5):
        mesh = world((*ring, ("b", "e")), roles="d", seed=seed)
        for node in "abf":
            ask(mesh, node), ask(mesh, node)
        mesh.log = []
        ask(mesh, "a")
        there = [(x, y) for _, x, y, one in mesh.log if isinstance(one.body, Send)]
        back = [(x, y) for _, x, y, one in mesh.log if isinstance(one.body, Reply)]
        assert len(there) >= 3
        assert back == [(y, x) for x, y in reversed(there)]


def test_answers_that_are_too_large_together_are_a_null() -> None:
    """One response is one frame on each link. Spec: tree_layer 6.4; K6."""
    line = (("a", "b"), ("b", "c"), ("c", "d"))
    mesh = world(line, roles="bcd", settings=Settings(ping_ms=0, collected_bytes_max=2))
    call = mesh.send("a", "r", one_response=True)
    mesh.run()
    assert call.count(ReplyKind.NULL) == 1
    assert 1 <= len(call.items) <= 2
    assert sum(one.is_last for one in call.answers) == 1


def test_empty_answers_have_an_end_too() -> None:
    """Each takes its room in the one frame that carries all, and in the record that is told."""
    most = 10 * ITEM_BYTES
    mesh = world((("a", "b"),), roles="b", settings=Settings(ping_ms=0, collected_bytes_max=most))
    held = hold_answers(mesh)
    call = mesh.send("a", "r", one_response=True)
    mesh.run(for_ms=3_000)
    for _ in range(100):
        answer(mesh, held[0], b"", is_last=False)
    answer(mesh, held[0], b"")
    mesh.run()
    assert call.count(ReplyKind.NULL) == 1
    assert len(call.items) == 11


def test_22_23_not_found_only_if_every_branch_says_so() -> None:
    """Spec: tree_layer 11 (22, 23), H12. PAT-5."""
    mesh = world((("a", "b"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    inside(mesh, "b").hosts.by_tree.clear()
    one = mesh.send("a", "r")
    mesh.run()
    assert [kind for kind, _ in kinds(one)][:1] == ["data"]
    assert "not_found" not in [kind for kind, _ in kinds(one)]
    mesh = world((("a", "b"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    inside(mesh, "b").hosts.by_tree.clear()
    inside(mesh, "c").hosts.by_tree.clear()
    none = mesh.send("a", "r")
    mesh.run()
    assert kinds(none) == [("not_found", True)]


def test_49_nobody_listens_at_a_host() -> None:
    """Spec: tree_layer 11 (49)."""
    mesh = world(roles="c")
    mesh.step("c", PortClosed(APP))
    call = mesh.send("a", "r")
    mesh.run()
    assert call.reached == []
    assert kinds(call) == [("not_found", True)]
    check_quiet(mesh)


def test_an_application_that_ends_answers_with_a_null() -> None:
    """Spec: tree_layer 13: whoever waits for it is told at that moment."""
    mesh = world(roles="c")
    hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=400)
    mesh.step("c", AppGone(APP))
    mesh.run()
    assert [one.cause for one in call.answers] == [Cause.APPLICATION_GONE]
    assert kinds(ask(mesh, "a")) == [("not_found", True)]


def test_a_reply_that_nobody_waits_for_changes_nothing() -> None:
    """A stray last reply must not close what is still owed. Spec: tree_layer 6.4."""
    mesh = world(roles="c")
    end = inside(mesh, "a").links["b"]
    stray = Reply(MessageId(3), ReplyKind.DATA, is_last=True)
    outputs = mesh.step("a", FrameRead("b", Frame(end.theirs, end.read + 1, stray)))
    assert outputs == []
    assert mesh.nodes["a"].counts["replies to nothing"] == 1
