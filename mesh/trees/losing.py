"""What follows when a tree link goes down: routes, recoveries, replies, colours, in this order.

Spec: tree_layer 5.9, 6.9, 7.1.
"""

from __future__ import annotations

from mesh.model.tree_apps import PartitionSuspected
from mesh.trees.colours import recolour_after_loss
from mesh.trees.installing import lose_link
from mesh.trees.node import TreeLink, TreeState
from mesh.trees.recovery import lose_branches
from mesh.trees.replying import lose_replies


def link_lost(node: TreeState, end: TreeLink) -> None:
    """Forget what led over a link; nothing is repaired until somebody sends."""
    trees = [node.trees[id_] for id_ in end.trees if id_ in node.trees]
    end.trees = {}
    was_remote = not node.realm or end.realm != node.realm
    lose_link(node, end.peer, trees)
    lose_branches(node, end.peer)
    lose_replies(node, end.peer)
    node.tell(PartitionSuspected(end.peer))
    recolour_after_loss(node, was_remote=was_remote)
