"""Breaking cycles, as the profile PATENT does.

HARD answers the second copy and leaves tables alone. A message that comes twice shows that routes
go round. The edge that the second copy came over goes; whoever sent it there points its routes
back to where it had the message from, and so on, until a node that has another way, or the
sender. Spec: tree_layer 5.12. PAT-3.
"""

from __future__ import annotations

from mesh.model.tree_frames import BreakReason, RouteBreak, Send
from mesh.model.trees import NO_INSTANCE, Address, Extent
from mesh.trees.edges import leave_edge, use_edge
from mesh.trees.installing import remove_routes_over, role_routes
from mesh.trees.node import TreeState


def break_cycle(node: TreeState, link: str, said: Send) -> None:
    """Take the edge out that a second copy came over, if it is for this node to do so."""
    scope = _scope(said)
    if not _may_break(node, link, said):
        return
    tree = node.tree(said.tree)
    for name in list(tree.roles):
        remove_routes_over(node, Address(said.tree, name), scope, link, NO_INSTANCE)
    _tell(node, link, Address(said.tree, said.role), said)


def read_cycle(node: TreeState, link: str, said: RouteBreak) -> None:
    """Take routes over a broken edge out, or turn them round."""
    address = Address(said.tree, said.role)
    tree, role = role_routes(node, address)
    for name in [one for one in tree.roles if one != said.role]:
        remove_routes_over(node, Address(said.tree, name), said.scope, link, NO_INSTANCE)
    table = role.map(said.scope)
    has_others = any(route.link != link for route in table.routes.values())
    session = node.sessions.known(said.mid)
    came_by = session.came_by if session is not None and not session.is_orphan else None
    if has_others or came_by is None or came_by == link:
        remove_routes_over(node, address, said.scope, link, NO_INSTANCE)
        return
    if _reverse_routes(node, address, said.scope, link, came_by):
        node.transmit(came_by, said)


def _may_break(node: TreeState, link: str, said: Send) -> bool:
    """Never cut an edge that holds the realm's part together: the far side breaks it there."""
    first = node.sessions.known(said.mid)
    has_left = said.left_realm or (first is not None and first.left_realm)
    return node.is_up(link) and (node.is_remote(link) or not has_left)


def _reverse_routes(
    node: TreeState, address: Address, scope: Extent, link: str, towards: str
) -> bool:
    """Point the routes of a role over one link to another; return whether there were any.

    It breaks the rule by which nothing loops. Spec: tree_layer 5.12.
    """
    tree, role = role_routes(node, address)
    table = role.map(scope)
    over = [one for one, route in table.routes.items() if route.link == link]
    for iid in over:
        table.routes[iid] = table.routes[iid]._replace(link=towards)
        use_edge(node, tree, towards)
        leave_edge(node, tree, link)
    return bool(over)


def _tell(node: TreeState, link: str, address: Address, said: Send) -> None:
    told = RouteBreak(*address, _scope(said), NO_INSTANCE, BreakReason.CYCLE, said.mid)
    node.transmit(link, told)


def _scope(said: Send) -> Extent:
    return Extent.REALM if said.options.local_realm else Extent.CLOUD
