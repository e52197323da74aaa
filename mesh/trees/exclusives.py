"""Roles that one instance holds alone: the higher instance wins, everywhere, and losers are told.

Spec: tree_layer 5.4 (H15).
"""

from __future__ import annotations

from mesh.model.tree_apps import RoleLoss, RoleLost
from mesh.model.trees import Address, Extent, InstanceId
from mesh.trees.installing import has_ended, remove_instance, role_routes, wipe
from mesh.trees.node import Node
from mesh.trees.records import LocalRole
from mesh.trees.utility import is_reserved


def holder(node: Node, address: Address) -> InstanceId:
    """Return the exclusive instance that is known to hold a role, here or elsewhere, or 0."""
    held = [one.iid for one in node.instances(address).values() if one.is_exclusive]
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    if role is not None and any(role.exclusive in table.routes for table in role.maps()):
        held.append(role.exclusive)
    return max(held, default=InstanceId(0))


def is_beaten(node: Node, address: Address, iid: InstanceId, *, is_exclusive: bool) -> bool:
    """Return whether an instance is kept out: by another, or where every node has its own place."""
    if is_exclusive and is_reserved(node, address.tree):
        return True
    known = holder(node, address)
    return bool(known) and known != iid and (not is_exclusive or known > iid)


def give_way(node: Node, address: Address, iid: InstanceId) -> None:
    """Drop every other instance of a role: this one holds it alone. The losers here are told."""
    for one in list(node.instances(address).values()):
        if one.iid != iid:
            drop_local(node, one, RoleLoss.HIGHER_HOLDER)
    wipe(node, address, iid)
    _, role = role_routes(node, address)
    role.exclusive = iid


def heed_holder(node: Node, address: Address, scope: Extent, iid: InstanceId) -> None:
    """Let all others give way to a holder elsewhere, unless it was heard of too late.

    To be called when the map has been given the way to it, which it takes only if that is news.
    """
    if not has_ended(node, address, scope, iid):
        give_way(node, address, iid)


def drop_local(node: Node, one: LocalRole, why: RoleLoss | None) -> None:
    """Stop hosting an instance; tell its application unless it asked for it."""
    node.drop(one)
    for scope in (Extent.CLOUD, Extent.REALM):
        remove_instance(node, one.address, scope, one.iid, one.seq)
    if why is not None:
        node.outputs.append(RoleLost(one.app, one.address, one.iid, why))
