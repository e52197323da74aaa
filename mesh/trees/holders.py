"""Who holds a role alone, and for whom: beyond the extent of a holder it keeps nobody out.

So a message looks no further than where one alone holds its role for the sender, and passes by
holders that are none of its sender's. Spec: tree_layer 5.2, 5.4.
"""

from __future__ import annotations

from mesh.model.trees import Address, Extent, InstanceId
from mesh.trees.node import TreeState
from mesh.trees.records import Session
from mesh.trees.routes import RoleRoutes


def holder(node: TreeState, address: Address, standing: Extent = Extent.NODE) -> InstanceId:
    """Return the exclusive instance that is known to hold a role, here or elsewhere, or 0.

    Args:
        node: Who knows.
        address: The role.
        standing: For whom: whoever is at this node, in its realm, or anywhere.
    """
    held = [
        one.iid
        for one in node.instances(address).values()
        if one.is_exclusive and one.extent.covers(standing)
    ]
    role = _known(node, address)
    if role is not None:
        if any(role.exclusive in table.routes for table in role.maps()):
            held.append(role.exclusive)
        if standing is not Extent.CLOUD and role.exclusive_inside in role.realm.routes:
            held.append(role.exclusive_inside)
    return max(held, default=InstanceId(0))


def reach(node: TreeState, address: Address, *, is_from_here: bool, left_realm: bool) -> Extent:
    """Return how far a message to everybody looks from here.

    No further than where one alone holds the role for its sender: at this node, or in the realm.
    """
    extents = [one.extent for one in node.instances(address).values() if one.is_exclusive]
    if is_from_here and Extent.NODE in extents:
        return Extent.NODE
    if left_realm:
        return Extent.CLOUD
    role = _known(node, address)
    is_inside = role is not None and role.exclusive_inside in role.realm.routes
    return Extent.REALM if is_inside or Extent.REALM in extents else Extent.CLOUD


def reach_of(node: TreeState, session: Session) -> Extent:
    """Return how far a message looks from here, and so which map it follows; NODE: none."""
    found = reach(
        node,
        session.address,
        is_from_here=session.came_by is None,
        left_realm=session.left_realm,
    )
    return found if session.scope.covers(found) else session.scope


def holder_over(node: TreeState, address: Address, link: str) -> InstanceId:
    """Return who holds a role alone in the realm and is reached by a link, or 0."""
    role = _known(node, address)
    route = role.realm.routes.get(role.exclusive_inside) if role is not None else None
    if role is None or route is None or route.link != link:
        return InstanceId(0)
    return role.exclusive_inside


def _known(node: TreeState, address: Address) -> RoleRoutes | None:
    tree = node.trees.get(address.tree)
    return tree.roles.get(address.role) if tree is not None else None
