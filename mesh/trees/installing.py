"""Who may change a map of routes, and by which rule: the newest wins, and nothing loops.

Per role, map and instance the value (seq, -hops) is kept, also after the route has gone. A new
route is taken only if its value is greater. Along a chain of routes the value then never falls
towards the instance, and rises where seq stays the same: no loop, in any order of frames.

One thing overrules that. What a host says in a recovery it says after it was asked, so it exceeds
whatever was known here before; if it does not, somebody has made up what was known, and a number
that no host has had would keep the instance out for ever.
Spec: tree_layer 5.2 (H2, H17), 5.9.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.model.trees import Address, Extent, InstanceId
from mesh.trees.edges import drop_edge, leave_edge, use_edge
from mesh.trees.late_routes import route_added
from mesh.trees.node import MADE_UP, TreeState
from mesh.trees.routes import InstanceRoute, LastHeard, RoleRoutes, RouteMap, Tree


def role_routes(node: TreeState, address: Address, protocol: str = "") -> tuple[Tree, RoleRoutes]:
    """Look a role up, with what is remembered of it if its tree was forgotten."""
    tree = node.tree(address.tree, protocol)
    if address.role in tree.roles:
        return tree, tree.roles[address.role]
    return tree, tree.role(address.role)


def install(
    node: TreeState,
    address: Address,
    scope: Extent,
    iid: InstanceId,
    route: InstanceRoute,
    *,
    has_moved: bool = False,
    is_published: bool = False,
    asked_ms: int | None = None,
) -> bool:
    """Take a route if it is newer than what is known; return whether it was taken.

    Of a host's answer `asked_ms` says when the question came here.
    Where the instance itself has moved, what went to its old place has reached it there: a message
    that is under way, or has just ended, must not reach it again. I1.
    """
    if iid in node.instances(address) or not node.is_up(route.link):
        return False
    tree, role = role_routes(node, address)
    table = role.map(scope)
    known = table.known(iid) or node.remembered.get((address.tree, address.role, scope, iid))
    if known is not None and route.value <= known.value:
        if not _is_made_up(known, route, asked_ms):
            return False
        node.count(MADE_UP)
    old = table.routes.get(iid)
    table.routes[iid] = route
    table.lost.pop(iid, None)
    if old is None or old.link != route.link:
        use_edge(node, tree, route.link)
        if old is not None:
            leave_edge(node, tree, old.link)
        if not has_moved:
            route_added(node, address, scope, iid, route, not is_published)
    return True


def _is_made_up(known: LastHeard, route: InstanceRoute, asked_ms: int | None) -> bool:
    """Return whether a host that was asked since shows that it has never said what is known."""
    return asked_ms is not None and known.since_ms < asked_ms and known.value[0] > route.seq


def has_ended(node: TreeState, address: Address, scope: Extent, iid: InstanceId) -> bool:
    """Return whether the last that was heard of an instance is its end. H2."""
    table = role_routes(node, address)[1].map(scope)
    known = table.known(iid) or node.remembered.get((*address, scope, iid))
    return known is not None and known.has_ended


def remove_instance(
    node: TreeState, address: Address, scope: Extent, iid: InstanceId, seq: int = 0
) -> None:
    """Forget the route to an instance; what is not newer than `seq` will not bring it back."""
    tree, role = role_routes(node, address)
    table = role.map(scope)
    known = table.known(iid)
    if table.routes.get(iid) is not None:
        _lose(node, tree, role, table, iid)
    if known is None or known.value < (seq, 0):
        table.remember(iid, LastHeard.ended(seq, node.now_ms))


def remove_routes_over(
    node: TreeState, address: Address, scope: Extent, link: str, iid: InstanceId
) -> None:
    """Forget the routes of a role over a link, of one instance or for 0 of all."""
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    if tree is None or role is None:
        return
    table = role.map(scope)
    for one in [one for one, route in table.routes.items() if route.link == link]:
        if iid in (0, one):
            _lose(node, tree, role, table, one)
    table.doubt()


def lose_link(node: TreeState, link: str, trees: list[Tree]) -> None:
    """Forget every route over a link that is down; nothing is repaired until it is needed."""
    for tree in trees:
        for role in tree.roles.values():
            for table in role.maps():
                over = [one for one, route in table.routes.items() if route.link == link]
                for iid in over:
                    _lose(node, tree, role, table, iid)
                if over:
                    table.doubt()
        drop_edge(node, tree, link)


def wipe(node: TreeState, address: Address, scope: Extent, iids: Iterable[InstanceId]) -> None:
    """Forget the routes of a role to these instances."""
    tree, role = role_routes(node, address)
    table = role.map(scope)
    for iid in iids:
        if iid in table.routes:
            _lose(node, tree, role, table, iid)


def _lose(node: TreeState, tree: Tree, role: RoleRoutes, table: RouteMap, iid: InstanceId) -> None:
    """Forget a route; who sends in a realm that has lost its holder asks everybody who is there."""
    if iid == role.exclusive_inside:
        role.everywhere.doubt()
    route = table.routes.pop(iid)
    table.remember(iid, route.known)
    leave_edge(node, tree, route.link)
