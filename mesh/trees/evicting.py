"""Forgetting trees: routes and edges go, own roles and the order of routes stay.

Neighbours are not told: they may still route to here. Spec: tree_layer 5.15 (H2).
"""

from __future__ import annotations

from mesh.model.trees import Extent, TreeId
from mesh.trees.node import Node


def evict(node: Node, id_: TreeId) -> bool:
    """Forget a tree unless something is under way on it; return whether it is forgotten."""
    tree = node.trees.get(id_)
    if tree is None or _is_pinned(node, id_):
        return False
    for role in tree.roles.values():
        for scope in (Extent.CLOUD, Extent.REALM):
            table = role.map(scope)
            values = {iid: route.value for iid, route in table.routes.items()} | table.lost
            for iid, value in values.items():
                node.remembered[(id_, role.name, scope, iid)] = value
    for link in tree.edges:
        node.links[link].trees.pop(id_, None)
    del node.trees[id_]
    while len(node.remembered) > node.settings.remembered_max:
        node.remembered.popitem(last=False)
    return True


def make_room(node: Node) -> None:
    """Forget the trees that were not used for longest, down to as many as may be kept."""
    most = node.settings.trees_max
    if most is None or len(node.trees) <= most:
        return
    for id_ in list(node.trees):
        if len(node.trees) <= most:
            return
        evict(node, id_)


def _is_pinned(node: Node, id_: TreeId) -> bool:
    return any(
        one.address.tree == id_
        for kind in (node.sessions, node.closed, node.recoveries, node.joins)
        for one in kind.values()
    )
