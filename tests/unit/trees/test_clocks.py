"""How far others may take a node's clock. Spec: tree_layer 7.1."""

from __future__ import annotations

from mesh.model.tree_frames import ColourSpread
from mesh.model.trees import Colour, Extent
from mesh.trees.clocks import CREDIT, PER_S, STEP
from mesh.trees.machine import TreeNode
from mesh.trees.node import TreeState
from mesh.trees.settings import Settings

BETWEEN_MS = 1000 // PER_S - 1
"""In which not even 1 of the credit comes back."""


def spread(node: TreeState, ahead: int) -> ColourSpread:
    return ColourSpread(Extent.CLOUD, Colour(node.clock.value + ahead, 1))


def test_credit_comes_back_however_often_somebody_asks_for_more() -> None:
    node = TreeNode("a", "uuid", 1, 7, "", Settings())._node
    node.clock.know_somebody()
    assert node.clock.believes(spread(node, CREDIT - STEP), node.now_ms)
    wanted = PER_S  # more than what is left: that comes back in a second
    asked = 0
    while not node.clock.believes(spread(node, STEP + wanted), node.now_ms):
        node.now_ms += BETWEEN_MS
        asked += 1
        assert asked < 2 * 1000 // BETWEEN_MS
    assert 1000 <= node.now_ms < 1000 + BETWEEN_MS
