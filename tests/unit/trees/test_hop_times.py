"""What a hop takes is measured, and recoveries over slow links wait for longer. Spec: 5.10."""

from __future__ import annotations

from mesh.model.tree_apps import SendWanted
from mesh.model.tree_frames import Frame, Hello, Pong
from mesh.model.trees import Address, tree_id
from mesh.trees.inputs import FrameRead, LinkOpened
from mesh.trees.machine import TreeNode
from mesh.trees.settings import Settings

SESSION = 1 << 32 | 1


def linked(pongs_ms: list[int]) -> TreeNode:
    """Return a node with one link, over which PING took so long."""
    node = TreeNode("a", "ua", 1, 7, "", Settings(hops_max=4))
    node.step(LinkOpened("b"), 0)
    hello = Hello("ub", 1, node._node.links["b"].mine, "", None, None, 0)
    node.step(FrameRead("b", Frame(SESSION, 1, hello)), 0)
    now = 0
    for number, took_ms in enumerate(pongs_ms, 2):
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
