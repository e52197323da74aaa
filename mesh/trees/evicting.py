"""Forgetting trees: routes and edges go, own roles and the order of routes stay.

Neighbours are not told: they may still route to here. Spec: tree_layer 5.15 (H2).
"""

from __future__ import annotations

from mesh.model.trees import Address, Extent, TreeId
from mesh.trees.edges import drop_edge
from mesh.trees.node import TreeState
from mesh.trees.routes import RoleRoutes


def evict(node: TreeState, id_: TreeId) -> bool:
    """Forget a tree unless something is under way on it; return whether it is forgotten."""
    tree = node.trees.get(id_)
    if tree is None or id_ in node.under_way:
        return False
    for role in tree.roles.values():
        _remember(node, id_, role)
    for link in list(tree.edges):
        drop_edge(node, tree, link)
    del node.trees[id_]
    return True


def forget_unused(node: TreeState) -> None:
    """Forget roles that nobody holds, as far as is known here, and trees without roles.

    Asking for a role that does not exist leaves a trace of it at every node; unless those were
    forgotten, made-up names would fill the memory.
    """
    open_ = {one.address for one in node.recoveries.values()} | {*node.sessions.by_address}
    for id_, tree in list(node.trees.items()):
        for role in list(tree.roles.values()):
            address = Address(id_, role.name)
            has_routes = any(table.routes for table in role.maps())
            if not (has_routes or node.instances(address) or address in open_):
                _remember(node, id_, role)
                del tree.roles[role.name]
        if not (tree.roles or tree.edges):
            evict(node, id_)


def _remember(node: TreeState, id_: TreeId, role: RoleRoutes) -> None:
    """Keep the order of a role's routes against loops; the oldest are forgotten."""
    for scope in (Extent.CLOUD, Extent.REALM):
        table = role.map(scope)
        known = {iid: route.known for iid, route in table.routes.items()} | table.lost
        for iid, one in known.items():
            node.remembered[(id_, role.name, scope, iid)] = one
    while len(node.remembered) > node.settings.remembered_max:
        node.remembered.popitem(last=False)


KEPT_MAX = 100
"""Trees that are found to be in use in one step: messages may wait on more than may be kept."""


def make_room(node: TreeState) -> None:
    """Forget the trees that were not used for longest, down to as many as may be kept.

    One on which something is under way is in use, so its turn comes behind all others again.
    """
    most, kept = node.settings.trees_max, 0
    while most is not None and len(node.trees) > most and kept < KEPT_MAX:
        id_ = next(iter(node.trees))
        if not evict(node, id_):
            node.trees.move_to_end(id_)
            kept += 1
