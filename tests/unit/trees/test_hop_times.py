"""What a hop takes is measured, and recoveries over slow links wait for longer. Spec: tree_layer 5.10."""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import SendWanted
from mesh.model.tree_frames import Frame, Hello, Ping, Pong, RecoveryDone, ReplyKind
from mesh.model.trees import Address, tree_id
from mesh.trees.inputs import FrameRead, LinkOpened, Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Transmit
from mesh.trees.settings import Settings
from tests.sim.trees.world import World

SESSION = 1 << 32 | 1


def linked(pongs_ms: list[int]) -> TreeNode:
    """Return a node with one link, over which PING took so long."""
    node = TreeNode("a", "ua", 1, 7, "", Settings(hops_max=4))
    node.step(LinkOpened("b"), 0)
    hello = Hello("ub", 1, node._node.links["b"].mine, "", None, None, 0)
    node.step(FrameRead("b", Frame(SESSION, 1, hello)), 0)
    now = 0
    for number, took_ms in enumerate(pongs_ms, 2):
        now += node._node.settings.ping_ms
        [asked] = node.step(Ticked(), now)
        assert isinstance(asked, Transmit)
        assert asked.frame.body == Ping(now)
        now += took_ms
        node.step(FrameRead("b", Frame(SESSION, number, Pong(now - took_ms))), now)
    return node


def patience_ms(node: TreeNode) -> int:
    """Return how long a recovery that begins now waits."""
    now = node._node.now_ms
    node.step(SendWanted("app", "c", Address(tree_id("t"), "r")), now)
    [own] = node._node.recoveries.values()
    return own.deadline_ms - now


def test_fast_links_wait_for_the_setting_and_slow_ones_for_what_they_take() -> None:
    settings = Settings(hops_max=4)
    floor = settings.recovery_ms_min + settings.timeout_factor * 2 * settings.hop_ms * 4
    assert patience_ms(linked([])) == floor
    assert patience_ms(linked([10] * 5)) == floor
    assert patience_ms(linked([2_000] * 5)) == settings.recovery_ms_min + 3 * 2 * 1_000 * 4


def test_one_slow_ping_is_averaged_away() -> None:
    node = linked([100, 10_000, *[100] * 50])
    assert node._node.links["b"].hop_ms < 80


@pytest.mark.parametrize("sent_ms", [0, 1, 10**15])
def test_an_answer_to_what_was_not_asked_says_nothing(sent_ms: int) -> None:
    """One that named the moment 0 had every recovery wait for as long as the clock was old."""
    node = linked([100])
    before = node._node.links["b"].hop_ms
    now = 50 * 86_400_000
    node.step(FrameRead("b", Frame(SESSION, 3, Pong(sent_ms))), now)
    assert node._node.links["b"].hop_ms == before == 50


def test_an_answer_counts_once() -> None:
    node = linked([100])
    sent_ms = 1_000
    node.step(FrameRead("b", Frame(SESSION, 3, Pong(sent_ms))), 9_000)
    assert node._node.links["b"].hop_ms == 50
    assert not node._node.links["b"].pings


def test_an_answer_behind_that_of_a_later_question_says_nothing() -> None:
    """Answers come in order: of one that does not nobody knows what it took."""
    node = linked([])
    for now in (1_000, 2_000):
        node.step(Ticked(), now)
    for number, sent_ms in ((2, 2_000), (3, 1_000)):
        node.step(FrameRead("b", Frame(SESSION, number, Pong(sent_ms))), 2_010)
    assert node._node.links["b"].hop_ms == 5
    assert node._node.counts["answers to nothing"] == 1


def test_what_was_asked_in_a_session_that_has_ended_is_not_answered_in_the_next() -> None:
    """It may be minutes old: recoveries would wait for a multiple of that."""
    node = linked([])
    node.step(Ticked(), 1_000)
    end, later = node._node.links["b"], SESSION + 1
    for heard in (end.mine, end.mine + 1):
        hello = Hello("ub", 1, heard, "", None, None, 0)
        node.step(FrameRead("b", Frame(later, 1 + heard - end.mine, hello)), 300_000)
    assert end.is_up
    node.step(FrameRead("b", Frame(later, end.read + 1, Pong(1_000))), 300_000)
    assert (end.hop_ms, node._node.counts["answers to nothing"]) == (0, 1)


def test_what_hops_take_that_are_far_away_is_told_by_echoes() -> None:
    """Else a recovery that crosses them gives up before they can have answered."""
    mesh = World([("a", "b"), ("b", "c"), ("c", "d")], settings=Settings(hops_max=4))
    mesh.wires[frozenset("cd")].latency_ms = 1_500
    mesh.run(for_ms=20_000)
    mesh.role("d", "r")
    mesh.run(for_ms=20_000)
    own = max(end.hop_ms for end in mesh.nodes["a"]._node.links.values())
    assert own < 100
    nulls = []
    for _ in range(3):
        call = mesh.send("a", "r")
        mesh.run(for_ms=60_000)
        assert call.reached == ["d"]
        nulls.append(call.count(ReplyKind.NULL))
        mesh.nodes["a"]._node.trees[tree_id("t")].roles["r"].everywhere.doubt()
    assert nulls == [1, 0, 0]
    assert 1_000 < mesh.nodes["a"]._node.far_hop_ms < 2_000
    patience = patience_ms(mesh.nodes["a"])
    assert patience > Settings().recovery_ms_min + 3 * 2 * 1_000 * 4


def test_nobody_is_believed_who_says_more_than_a_link_may_take() -> None:
    """It would be down. And no recovery waits for longer than a record is kept."""
    node = linked([10])
    now = node._node.now_ms
    for number in range(3, 40):
        node.step(SendWanted("app", f"c{number}", Address(tree_id("t"), f"r{number}")), now)
        [flood] = node._node.recoveries
        done = RecoveryDone(flood, ok=True, hop_ms=1 << 60)
        node.step(FrameRead("b", Frame(SESSION, number, done)), now)
    settings = node._node.settings
    assert node._node.far_hop_ms <= settings.ping_ms * settings.pings_missed_max + 1
    node._node.settings = Settings(hops_max=1_000)
    assert patience_ms(node) == settings.record_ms
