"""A node that joins copies what a neighbour knows, so that its first sends need no recovery.

A copied map is certain only if it was certain there and nothing has happened since that only one
of the two has seen: both have one colour, and heals told here since the question count as news.
Spec: tree_layer 5.7 (c), 5.16.
"""

from __future__ import annotations

from mesh.model.tree_apps import RouteReason
from mesh.model.tree_frames import GetTrees, KnownInstance, KnownRole, Trees
from mesh.model.trees import Address, Extent
from mesh.trees.exclusives import heed_holder, is_beaten
from mesh.trees.holders import holder
from mesh.trees.installing import install, role_routes
from mesh.trees.node import TOO_FAR, TreeState
from mesh.trees.recovery import is_built
from mesh.trees.routes import InstanceRoute
from mesh.trees.utility import is_reserved

FRAME_BYTES = 90_000
"""Of one frame: less than what topics allow beyond messages. A role that comes to more is left out,
and found by recovery."""

ROLE_BYTES, INSTANCE_BYTES = 250, 30
"""What they come to at most, with the longest names."""


def ask_for_trees(node: TreeState, link: str) -> None:
    """Ask a neighbour what it knows, unless another has told already."""
    if node.settings.copies_trees and not node.has_copied:
        id_ = node.ids.fresh()
        node.asked_trees[link] = (id_, node.heals_known)
        node.transmit(link, GetTrees(id_))


def forget_questions(node: TreeState) -> None:
    """Take no answer to what was asked until now."""
    node.asked_trees.clear()


def read_question(node: TreeState, link: str, said: GetTrees) -> None:
    """Tell a neighbour what is known here, if that may leave the realm."""
    roles: list[KnownRole] = []
    size = 0
    for one in _known(node, link):
        if size + _bytes(one) > FRAME_BYTES:
            node.transmit(link, Trees(said.id, node.colour, tuple(roles)))
            roles, size = [], 0
        roles.append(one)
        size += _bytes(one)
    if roles:
        node.transmit(link, Trees(said.id, node.colour, tuple(roles)))


def read_trees(node: TreeState, link: str, said: Trees) -> None:
    """Take what a neighbour knows; what is newer here stays."""
    asked = node.asked_trees.get(link)
    if asked is None or asked[0] != said.id:
        node.count("answers to nothing")
        return
    heals = asked[1]
    node.has_copied = True
    is_one_part = said.colour is not None and said.colour == node.colour
    for one in said.roles:
        address = Address(one.tree, one.role)
        copied = [_copy(node, link, address, known) for known in one.instances]
        is_whole = bool(copied) and all(copied)
        _, role = role_routes(node, address)
        if one.is_certain and is_whole and is_one_part and not role.everywhere.is_certified:
            role.everywhere.is_certified = True
            role.heals = min(heals, node.heals_known)


def _known(node: TreeState, link: str) -> list[KnownRole]:
    """Return the roles that a neighbour may hear of; nothing leaves the realm unless all may."""
    if node.realm and node.is_remote(link):
        return []
    addresses = {
        Address(id_, name): None for id_, tree in node.trees.items() for name in tree.roles
    }
    addresses |= {
        Address(id_, name): None for id_, roles in node.hosts.by_tree.items() for name in roles
    }
    found = [_known_role(node, link, one) for one in addresses if not is_reserved(node, one.tree)]
    return [one for one in found if one is not None and _bytes(one) <= FRAME_BYTES]


def _bytes(one: KnownRole) -> int:
    return ROLE_BYTES + INSTANCE_BYTES * len(one.instances)


def _known_role(node: TreeState, link: str, address: Address) -> KnownRole | None:
    """Return what may be copied of a role: a copy does not say how far an instance is known."""
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    routes = role.everywhere.routes if role is not None else {}
    own = node.instances(address).values()
    alone = holder(node, address, Extent.CLOUD)
    instances = [
        KnownInstance(iid, iid == alone, route.seq, route.hops + 1)
        for iid, route in routes.items()
        if route.link != link and route.extent is Extent.CLOUD
    ]
    instances += [
        KnownInstance(one.iid, one.is_exclusive, one.seq, 1)
        for one in own
        if one.extent is Extent.CLOUD
    ]
    is_all = len(instances) == len(routes) + sum(one.extent is not Extent.NODE for one in own)
    is_all = is_all and alone == holder(node, address, Extent.REALM)
    is_certain = is_all and is_built(node, address, Extent.CLOUD)
    return KnownRole(*address, is_certain, tuple(instances)) if instances else None


def _copy(node: TreeState, link: str, address: Address, known: KnownInstance) -> bool:
    """Install a route as a host's answer would; return whether the instance is known now."""
    if known.hops > node.settings.hops_max:
        node.count(TOO_FAR)
        return False
    standing = Extent.CLOUD
    if is_beaten(node, address, known.iid, is_exclusive=known.is_exclusive, standing=standing):
        return False
    route = InstanceRoute(link, known.seq, known.hops, RouteReason.COPIED, node.now_ms)
    install(node, address, Extent.CLOUD, known.iid, route)
    if known.is_exclusive:
        heed_holder(node, address, standing, known.iid, standing)
    _, role = role_routes(node, address)
    return known.iid in role.everywhere.routes or known.iid in node.instances(address)
