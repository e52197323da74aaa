"""Roles that one instance holds alone: the higher instance wins, everywhere, and losers are told.

Spec: tree_layer 5.4 (H15).
"""

from __future__ import annotations

from mesh.model.tree_apps import RoleLoss, RoleLost
from mesh.model.trees import Address, Extent, InstanceId
from mesh.trees.holders import holder
from mesh.trees.installing import has_ended, remove_instance, role_routes, wipe
from mesh.trees.node import TreeState
from mesh.trees.records import LocalRole
from mesh.trees.utility import is_reserved


def is_beaten(
    node: TreeState,
    address: Address,
    iid: InstanceId,
    *,
    is_exclusive: bool,
    standing: Extent = Extent.NODE,
) -> bool:
    """Return whether an instance is kept out: by another, or where every node has its own place.

    `standing` says where the instance is, as far as that is known: see `holder`.
    """
    if is_exclusive and is_reserved(node, address.tree):
        return True
    known = holder(node, address, standing)
    return bool(known) and known != iid and (not is_exclusive or known > iid)


def give_way(node: TreeState, address: Address, iid: InstanceId, extent: Extent) -> None:
    """Drop every other instance of a role as far as this one is known, which holds it alone there.

    The losers here are told. Where a higher one is known that holds the role in less than that, in
    the realm or at this node, it stays, and what it keeps out stays out.

    Args:
        node: Whose routes and instances they are.
        address: The role.
        iid: The instance that holds it.
        extent: Where it holds it alone: in the cloud, in this realm, or at this node.
    """
    for one in list(node.instances(address).values()):
        if one.iid != iid and not (one.is_exclusive and one.iid > iid):
            drop_local(node, one, RoleLoss.HIGHER_HOLDER)
            if not extent.covers(one.extent):
                node.beaten.append(one)
    _, role = role_routes(node, address)
    if extent is Extent.CLOUD:
        role.exclusive = iid
        wipe(node, address, extent, [one for one in role.everywhere.routes if one != iid])
        if holder(node, address, Extent.REALM) > iid:
            return
    elif extent is Extent.REALM:
        role.exclusive_inside = iid
        inside = [
            one
            for one, route in role.everywhere.routes.items()
            if one in role.realm.routes or route.extent is extent
        ]
        wipe(node, address, Extent.CLOUD, inside)
    else:
        return
    wipe(node, address, Extent.REALM, [one for one in role.realm.routes if one != iid])


def heed_holder(
    node: TreeState, address: Address, scope: Extent, iid: InstanceId, extent: Extent
) -> None:
    """Let all others give way to a holder elsewhere, unless it was heard of too late.

    To be called when the map has been given the way to it, which it takes only if that is news.
    """
    if not has_ended(node, address, scope, iid):
        give_way(node, address, iid, extent)


def take_beaten(node: TreeState) -> list[LocalRole]:
    """Return what gave way here to one that is known less far than it was; it is returned once."""
    beaten, node.beaten = node.beaten, []
    return beaten


def drop_local(node: TreeState, one: LocalRole, why: RoleLoss | None) -> None:
    """Stop hosting an instance; tell its application unless it asked for it."""
    node.hosts.drop(one)
    for scope in (Extent.CLOUD, Extent.REALM):
        remove_instance(node, one.address, scope, one.iid, one.seq)
    if why is not None:
        node.tell(RoleLost(one.app, one.address, one.iid, why))
