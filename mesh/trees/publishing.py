"""Publishing and unpublishing roles: floods that reach everybody, whatever tables say.

A pruned publish has no feedback and dies where the way onward was lost, so HARD never prunes.
Copies that stayed inside the origin's realm are counted apart: the first of them is taken even
if one from outside was faster, because it alone may fill the realm's map.
Spec: tree_layer 5.2-5.5, 5.14 (H3, H15, H16).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mesh.model.tree_apps import (
    ExclusiveCleared,
    Refused,
    RoleLoss,
    RoleRequest,
    RoleTaken,
    RouteReason,
)
from mesh.model.tree_frames import Bulk, Heal, Publish
from mesh.model.trees import Address, Extent, InstanceId, MessageId, clock_of, name_fault
from mesh.trees.colours import need_colour
from mesh.trees.exclusives import drop_local, give_way, heed_holder, is_beaten, take_beaten
from mesh.trees.holders import holder
from mesh.trees.inputs import RolesAdded, RolesRemoved
from mesh.trees.installing import install, remove_instance, role_routes, wipe
from mesh.trees.node import RESERVED, TOO_FAR, TreeState
from mesh.trees.profiles import flooding
from mesh.trees.records import LocalRole
from mesh.trees.routes import InstanceRoute
from mesh.trees.utility import is_reserved

AHEAD_MAX = 1 << 16
"""How far ahead of this node's clock an instance may be that an application names. All clocks
follow it, and they end at 2^31: a random number would have the mesh's run out."""

ON_EVERY_NODE = "every node is on this tree by itself; take another"

FLOODS_MS = 30_000
"""Longer than anything is under way before its link is taken for down, on a few links in a row."""

BULK_MAX = 300
"""Publishes in one frame: with the longest names it stays below what topics allow beyond messages,
however small those are in this mesh."""


@dataclass(slots=True)
class Parcel:
    """What goes out over each link, gathered so that one frame carries it. Spec: tree_layer 5.5."""

    publishes: dict[str, list[Publish]] = field(default_factory=dict)

    def send(self, node: TreeState) -> None:
        """Write one frame per link."""
        for link, several in self.publishes.items():
            for first in range(0, len(several), BULK_MAX):
                part = several[first : first + BULK_MAX]
                node.transmit(link, part[0] if len(part) == 1 else Bulk(tuple(part)))


def add_roles(node: TreeState, wanted: RolesAdded) -> None:
    """Take roles for an application; what cannot be is refused, one by one."""
    parcel = Parcel()
    for request in wanted.requests:
        if fault := _fault(node, wanted.app, request):
            code, text = fault
            node.tell(Refused(wanted.app, request.address.role, code, text, request.address))
            continue
        need_colour(node)
        clock = node.clock.advance()
        iid = request.iid or node.ids.instance(clock)
        one = LocalRole(
            wanted.app, request.address, iid, request.is_exclusive, request.extent, request.protocol
        )
        host(node, one)
        node.tell(taken(one, is_granted=False))
        publish(node, one, parcel)
    parcel.send(node)


def remove_roles(node: TreeState, wanted: RolesRemoved) -> None:
    """Give up roles of an application."""
    parcel = Parcel()
    for address in wanted.addresses:
        held = [one for one in node.instances(address).values() if one.app == wanted.app]
        if not held:
            text = f"application {wanted.app!r} does not hold {address.role!r}; nothing was done"
            node.tell(Refused(wanted.app, address.role, "NOT_HELD", text, address))
        for one in held:
            unpublish(node, one, parcel)
    parcel.send(node)


def taken(one: LocalRole, *, is_granted: bool) -> RoleTaken:
    """Return what the application is told of a role that it holds."""
    kept = (one.is_exclusive, one.extent, one.protocol)
    return RoleTaken(one.app, one.address, one.iid, is_granted, *kept)


def host(node: TreeState, one: LocalRole) -> None:
    """Keep an instance here; an exclusive one ends all others of its role, as far as it reaches."""
    if one.is_exclusive:
        give_way(node, one.address, one.iid, one.extent)
        _, role = role_routes(node, one.address)
        for scope in (Extent.CLOUD, Extent.REALM):
            role.map(scope).is_certified |= one.extent.covers(scope)
    node.hosts.keep(one)


def publish(node: TreeState, one: LocalRole, parcel: Parcel) -> None:
    """Announce to the mesh that an instance is here, with a seq newer than any before."""
    one.seq += 1
    _flood(node, _told(node, one, is_published=True), None, one.extent, parcel)


def unpublish(node: TreeState, one: LocalRole, parcel: Parcel) -> None:
    """Give up an instance and tell the mesh."""
    one.seq += 1
    told = _told(node, one, is_published=False)
    drop_local(node, one, None)
    _flood(node, told, None, one.extent, parcel)


def unpublish_beaten(node: TreeState) -> None:
    """Tell of what gave way here where nobody hears of whom it gave way to."""
    parcel = Parcel()
    for one in take_beaten(node):
        one.seq += 1
        _flood(node, _told(node, one, is_published=False), None, one.extent, parcel)
    parcel.send(node)


def clear_exclusive(node: TreeState, wanted: ExclusiveCleared) -> None:
    """End the exclusive holder of a role, dead or alive, as far as anything is known of it."""
    address = wanted.address
    if is_reserved(node, address.tree):
        node.tell(Refused(wanted.app, address.role, "RESERVED", ON_EVERY_NODE))
        return
    need_colour(node)
    iid = max(node.ids.instance(node.clock.advance()), holder(node, address))
    id_ = node.ids.fresh()
    told = Publish(
        id_, *address, iid, True, False, 0, 1, local_only=bool(node.realm), extent=Extent.CLOUD
    )
    _remember(node, told)
    _clear(node, address, iid)
    parcel = Parcel()
    _flood(node, told, None, Extent.CLOUD, parcel)
    parcel.send(node)


def publish_exclusives(node: TreeState) -> None:
    """Announce again who holds what alone: two parts may both have a holder. H15."""
    parcel = Parcel()
    for one in node.hosts:
        if one.is_exclusive:
            publish(node, one, parcel)
    parcel.send(node)


def keep_told(node: TreeState, reach: Extent, told: Publish | Heal) -> None:
    """Keep what everybody is told, or the realm, for links that come up. Spec: tree_layer 5.2."""
    node.floods.append((node.now_ms, reach, told))


def forget_told(node: TreeState) -> None:
    """Tell none of it again: it is none of another realm's business."""
    node.floods.clear()


def tell_again(node: TreeState, link: str) -> None:
    """Tell over a link that has come up what was told to everybody just before.

    A flood goes over the links that there are. Its copy for this neighbour may be under way on
    another one, and lost with it once this one is there: nothing would have been apart then, so
    that no heal repairs the tables.
    """
    parcel = Parcel()
    for at_ms, reach, told in node.floods:
        if node.now_ms - at_ms > FLOODS_MS or (reach is Extent.REALM and node.is_remote(link)):
            continue
        if isinstance(told, Heal):
            node.transmit(link, told)
        else:
            _put(node, told, link, parcel)
    parcel.send(node)


def read_publishes(node: TreeState, link: str, publishes: Iterable[Publish]) -> None:
    """Act on publishes that came in one frame, each by itself; what goes on goes together."""
    parcel = Parcel()
    for told in publishes:
        if told.hops > node.settings.hops_max:
            node.count(TOO_FAR)
        else:
            _read(node, link, told, parcel)
    parcel.send(node)


def _read(node: TreeState, link: str, told: Publish, parcel: Parcel) -> None:
    if is_reserved(node, told.tree):
        node.count(RESERVED)
        return
    is_inside = told.local_only and not node.is_remote(link)
    is_first = node.remember_if_new(told.id)
    is_first_inside = is_inside and node.remember_if_new(_inside(told.id))
    if not is_first and not is_first_inside:
        return
    node.clock.follow(clock_of(told.iid))
    address = Address(told.tree, told.role)
    if told.is_published:
        standing = Extent.REALM if is_inside else Extent.CLOUD
        if is_beaten(node, address, told.iid, is_exclusive=told.is_exclusive, standing=standing):
            _answer_with_holder(node, link, address, standing, parcel)
            return
        _install(node, link, address, told, is_inside=is_inside)
    elif told.is_exclusive and not told.seq:
        _clear(node, address, told.iid)
    else:
        for scope in (Extent.CLOUD, Extent.REALM):
            remove_instance(node, address, scope, told.iid, told.seq)
    extent = told.extent if is_first else Extent.REALM
    onward = replace(told, hops=told.hops + 1, local_only=is_inside)
    _flood(node, onward, link, extent, parcel)


def _install(
    node: TreeState, link: str, address: Address, told: Publish, *, is_inside: bool
) -> None:
    route = InstanceRoute(
        link, told.seq, told.hops, RouteReason.PUBLISHED, node.now_ms, told.extent
    )
    scopes = [Extent.CLOUD, Extent.REALM] if is_inside else [Extent.CLOUD]
    if told.is_exclusive and told.extent is not Extent.CLOUD:
        del scopes[0]
    taken_by = [
        scope
        for scope in scopes
        if install(node, address, scope, told.iid, route, is_published=True)
    ]
    if told.is_exclusive and scopes:
        heed_holder(node, address, scopes[0], told.iid, told.extent)
        for scope in taken_by:
            role_routes(node, address)[1].map(scope).is_certified = True


def _clear(node: TreeState, address: Address, iid: InstanceId) -> None:
    for one in list(node.instances(address).values()):
        if one.iid <= iid:
            drop_local(node, one, RoleLoss.CLEARED)
    _, role = role_routes(node, address)
    for scope in (Extent.CLOUD, Extent.REALM):
        wipe(node, address, scope, [one for one in role.map(scope).routes if one <= iid])
    if role.exclusive <= iid:
        role.exclusive = InstanceId(0)
    if role.exclusive_inside <= iid:
        role.exclusive_inside = InstanceId(0)


def _answer_with_holder(
    node: TreeState, link: str, address: Address, standing: Extent, parcel: Parcel
) -> None:
    """Announce the holder to those who do not know of it; a loser among them gives way. H15.

    It is the one for who stands there: where a holder's extent ends it keeps nobody out.
    """
    iid = holder(node, address, standing)
    id_ = node.ids.fresh()
    own = node.instances(address).get(iid)
    if own is not None:
        own.seq += 1
        told = _told(node, own, is_published=True, id_=id_)
    else:
        _, role = role_routes(node, address)
        scope = Extent.REALM if iid in role.realm.routes else Extent.CLOUD
        route = role.map(scope).routes[iid]
        told = Publish(
            id_, *address, iid, True, True, route.seq, route.hops + 1,
            local_only=scope is Extent.REALM, extent=route.extent,
        )  # fmt: skip
        _remember(node, told)
    _put(node, told, link, parcel)


def _flood(
    node: TreeState, told: Publish, came_by: str | None, extent: Extent, parcel: Parcel
) -> None:
    """Tell of a role on all links where that is to be known, but the one it came by. Spec: PAT-1.

    A role that only its node may know goes nowhere; how far others go is the profile's to say.
    """
    if extent is Extent.NODE:
        return
    keep_told(node, extent, told)
    address = Address(told.tree, told.role)
    ways = node.ways(extent, but=came_by)
    links, spew = flooding(node).publish_onward(node, address, told.iid, ways, told.spew)
    if spew != told.spew:
        told = replace(told, spew=spew)
    for link in links:
        _put(node, told, link, parcel)


def _put(node: TreeState, told: Publish, link: str, parcel: Parcel) -> None:
    """Leave what is told for a link; behind one to another realm it is no longer of one realm."""
    if told.local_only and node.is_remote(link):
        told = replace(told, local_only=False)
    parcel.publishes.setdefault(link, []).append(told)


def _told(
    node: TreeState, one: LocalRole, *, is_published: bool, id_: MessageId | None = None
) -> Publish:
    """Return what others are told of a role at this node, and remember that it began here."""
    told = Publish(
        id_ or node.ids.fresh(), *one.address, one.iid, one.is_exclusive, is_published,
        one.seq, 1, local_only=bool(node.realm), extent=one.extent,
    )  # fmt: skip
    _remember(node, told)
    return told


def _remember(node: TreeState, told: Publish) -> None:
    node.remember_if_new(told.id)
    node.remember_if_new(_inside(told.id))


def _inside(id_: MessageId) -> MessageId:
    """Return under which id copies are remembered that never left the realm."""
    return MessageId(-id_)


def _fault(node: TreeState, app: str, request: RoleRequest) -> tuple[str, str] | None:
    if fault := name_fault(request.address.role):
        return "BAD_NAME", f"role: {fault}"
    if is_reserved(node, request.address.tree):
        return "RESERVED", ON_EVERY_NODE
    if request.extent is Extent.REALM and not node.realm:
        return "NO_REALM", f"node {node.name!r} is in no realm; give it one, or extent cloud"
    if any(one.app == app for one in node.instances(request.address).values()):
        return "ROLE_HELD", f"application {app!r} holds {request.address.role!r} already"
    if request.iid and clock_of(request.iid) > node.clock.value + AHEAD_MAX:
        return "BAD_INSTANCE", "this iid is of a time to come; leave it out for a fresh one"
    if request.iid in node.instances(request.address):
        return "BAD_INSTANCE", "another application here has this iid; leave it out for a fresh one"
    iid = request.iid or InstanceId(1 << 127)
    if is_beaten(node, request.address, iid, is_exclusive=request.is_exclusive):
        return (
            "EXCLUSIVE_HELD",
            f"{request.address.role!r} is exclusive and held elsewhere; ask its holder",
        )
    return None
