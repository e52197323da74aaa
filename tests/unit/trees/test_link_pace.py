"""How links are tried: by what the topology says, and not while nobody could be heard."""

from __future__ import annotations

from mesh.model.tree_frames import Frame, Hello
from mesh.trees.inputs import FrameRead, LeadResumed, LinkOpened, MeshFollowed, Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.settings import Settings

SLOW = MeshFollowed(nodes=2, ping_ms=60_000, pings_missed_max=3)
FAST = MeshFollowed(nodes=2, ping_ms=1_000, pings_missed_max=3)


def linked(mesh: MeshFollowed) -> TreeNode:
    """Return a node that has heard its one neighbour at the moment 0."""
    node = TreeNode("a", "ua", 1, 7, "", Settings(hops_max=4))
    node.step(mesh, 0)
    node.step(LinkOpened("b"), 0)
    hello = Hello("ub", 1, node._node.links["b"].mine, "", None, None, 0)
    node.step(FrameRead("b", Frame(1 << 32 | 1, 1, hello)), 0)
    assert node.links_up == ["b"]
    return node


def is_up(node: TreeNode, now_ms: int) -> bool:
    node.step(Ticked(), now_ms)
    return node.links_up == ["b"]


def test_frames_cross_as_many_links_as_the_mesh_had_nodes_at_most() -> None:
    node = linked(FAST)
    for nodes, hops_max in ((9, 9), (3, 9)):
        assert node.step(MeshFollowed(nodes=nodes, ping_ms=1_000, pings_missed_max=3), 1) == []
        assert node._node.settings.hops_max == hops_max


def test_what_was_heard_at_a_slower_pace_is_not_too_long_ago_by_a_faster_one() -> None:
    node = linked(SLOW)
    assert is_up(node, 50_000)
    node.step(FAST, 50_000)
    assert node.wakes_ms == 51_000
    assert is_up(node, 53_000)
    assert not is_up(node, 53_001)


def test_who_was_away_as_well_is_not_taken_for_cut_off_before_it_can_be_back() -> None:
    node = linked(FAST)
    node.step(LeadResumed(["b", "gone"], 20_000), 10_000)
    assert is_up(node, 20_000)
    assert not is_up(node, 20_001)
