"""Recovery: who hosts this role? A flood, answered by hosts, ended by its echo.

It begins when a message needs a role whose map is not certain, never when a link fails. Only
the node where it began may trust the result, and only if nothing was lost meanwhile.
Spec: tree_layer 5.7, 5.8, 5.10 (H1, H4-H8, H11).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.tree_apps import RouteReason
from mesh.model.tree_frames import RecoveryAnswer, RecoveryDone, RecoveryRequest
from mesh.model.tree_nodes import SILENT
from mesh.model.trees import Address, Extent, InstanceId, MessageId
from mesh.trees.colours import need_colour
from mesh.trees.directing import heals_to_ask, way_to
from mesh.trees.exclusives import heed_holder, is_beaten
from mesh.trees.holders import reach_of
from mesh.trees.hop_times import believable, expected_hop, hear_of_far, slowest_own
from mesh.trees.installing import install, role_routes
from mesh.trees.node import TOO_FAR, TreeState
from mesh.trees.profiles import flooding
from mesh.trees.records import RECOVERY, Recovery, Session, SharedRecovery
from mesh.trees.routes import InstanceRoute, RoleRoutes


def is_built(node: TreeState, address: Address, scope: Extent) -> bool:
    """Return whether messages may follow the map as it is.

    An empty map is never certain: an instance published since may have been missed. H1.
    Who holds a role alone at this node is all that there is within NODE.
    """
    if scope is Extent.NODE:
        return True
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    if role is None:
        return False
    table = role.map(scope)
    is_current = scope is Extent.REALM or role.heals == node.heals_known
    has_any = bool(table.routes) or bool(node.instances(address))
    is_enough = has_any or flooding(node).trusts_empty_maps
    return table.is_certified and is_current and is_enough


def recover(node: TreeState, session: Session) -> None:
    """Let a message wait for a recovery of its role; several wait for the same one.

    Where nobody publishes, one that has begun may have missed who has come since.
    """
    session.recoveries += 1
    session.owed[RECOVERY] = None
    key = _key(node, session)
    join = node.joins.get(key)
    if join is None:
        join = node.joins[key] = SharedRecovery(*key, [session])
        _begin(node, join)
    elif session.came_by is None and session.address.tree in SILENT:
        join.late.append(session)
    else:
        join.waiters.append(session)


def waits_behind(node: TreeState, session: Session) -> bool:
    """Let a message wait where an earlier one of its sender does; return whether there is one.

    It could go on, and would overtake that one on the way to the same instance. The recovery is
    none of its own: how that ends means nothing to it. Spec: tree_layer 10 (Q11), 13.
    """
    for scope in (Extent.CLOUD, Extent.REALM):
        join = node.joins.get((session.address, scope))
        for waiting in () if join is None else (join.late, join.waiters):
            if any(_is_ahead(one, session) for one in waiting):
                session.owed[RECOVERY] = None
                waiting.append(session)
                return True
    return False


def _is_ahead(one: Session, other: Session) -> bool:
    return one.sender == other.sender and one.number < other.number


def is_recovering(node: TreeState, session: Session) -> bool:
    """Return whether a recovery of this session's role and map runs here."""
    return _key(node, session) in node.joins


def _key(node: TreeState, session: Session) -> tuple[Address, Extent]:
    """Return what a session recovers here: the map that it follows, or where it may go at all."""
    scope = reach_of(node, session)
    return session.address, session.scope if scope is Extent.NODE else scope


def read_request(node: TreeState, link: str, asked: RecoveryRequest) -> None:
    """Answer for instances here, hand the question on, echo when all have.

    Args:
        node: Who is asked.
        link: By which the question came, and by which the echo goes back.
        asked: The question. One that was read before, or has come too far, is echoed at once.
    """
    if asked.hops > node.settings.hops_max:
        node.count(TOO_FAR)
        node.transmit(link, RecoveryDone(asked.id, ok=False))
        return
    if not node.remember_if_new(asked.id):
        node.transmit(link, RecoveryDone(asked.id, ok=True))
        return
    address = Address(asked.tree, asked.role)
    own = Recovery(
        id=asked.id,
        address=address,
        scope=asked.scope,
        parent=link,
        join=None,
        hops=asked.hops,
        began_ms=node.now_ms,
        known=asked.known,
    )
    if asked.heal:
        _direct(node, own, asked.batch, asked.heal)
        return
    _answer_for_own(node, link, asked)
    _spread(node, own, asked.batch, asked.spew)
    if not own.waiting:
        _end(node, own)


def _answer_for_own(node: TreeState, link: str, asked: RecoveryRequest) -> None:
    for one in node.instances(Address(asked.tree, asked.role)).values():
        reaches = one.extent is Extent.CLOUD or one.extent is asked.scope
        if reaches and one.iid not in asked.known:
            if one.batch != asked.batch:
                one.batch = asked.batch
                one.seq += 1
            answer = RecoveryAnswer(asked.id, one.iid, one.is_exclusive, one.seq, 1, one.extent)
            node.transmit(link, answer)


def read_answer(node: TreeState, link: str, said: RecoveryAnswer) -> None:
    """Install a host's answer and hand it on, even if something newer is known here."""
    own = node.recoveries.get(said.id)
    if own is None or link not in own.waiting:
        node.count("answers to nothing")
        return
    if said.hops > node.settings.hops_max:
        node.count(TOO_FAR)
        return
    _rearm(node, own)
    _install(node, link, own, said)
    if own.join is not None:
        _release_searchers(node, own.join)
    if own.parent is not None:
        onward = RecoveryAnswer(
            said.id, said.iid, said.is_exclusive, said.seq, said.hops + 1, said.extent
        )
        node.transmit(own.parent, onward)


def _release_searchers(node: TreeState, join: SharedRecovery) -> None:
    """Let messages for one instance go on that have a way by now; it need not be the only one.

    Where it leads nowhere they wait once more, for as long as the recovery still runs; and none
    goes before an earlier message of its sender. Spec: tree_layer 5.8, 10 (Q11).
    """
    _, role = role_routes(node, join.address)
    waiting: list[Session] = []
    senders: dict[tuple[str | None, str], None] = {}
    for session in join.waiters:
        is_first = session.options.one_instance and session.sender not in senders
        if is_first and _has_way(node, role, session):
            session.owed.pop(RECOVERY, None)
            session.recoveries = 0
            node.ready.append(session)
        else:
            senders[session.sender] = None
            waiting.append(session)
    join.waiters = waiting


def _has_way(node: TreeState, role: RoleRoutes, session: Session) -> bool:
    table = role.map(reach_of(node, session))
    ways = table.links(session.iid, from_outside=session.left_realm, but=session.offered)
    return any(link != session.came_by and link not in session.sent for link in ways)


def read_done(node: TreeState, link: str, said: RecoveryDone) -> None:
    """Count an echo; the last one ends the flood here."""
    own = node.recoveries.get(said.id)
    told_ms = believable(node, said.hop_ms)
    if own is None or link not in own.waiting:
        hear_of_far(node, told_ms)  # it came too late, as that may be why
        node.count("echoes to nothing")
        return
    own.hop_ms = max(own.hop_ms, told_ms)
    _rearm(node, own)
    _settle_branch(node, own, link, ok=said.ok)


def lose_branches(node: TreeState, link: str) -> None:
    """A link is down: what was expected over it may be missing; what came over it is moot."""
    for own in list(node.recoveries.values()):
        if own.parent == link:
            _leave(node, own)
        elif link in own.waiting:
            _settle_branch(node, own, link, ok=False)


def expire_recoveries(node: TreeState) -> None:
    """End floods that wait for too long, as incomplete: somebody does not answer."""
    for own in list(node.recoveries.values()):
        if own.id in node.recoveries and node.now_ms >= own.deadline_ms:
            node.count("recoveries that timed out")
            own.ok = False
            own.waiting.clear()
            _end(node, own)


def _begin(node: TreeState, join: SharedRecovery) -> None:
    """Flood the realm and, for a message to everywhere, the whole mesh, in one batch."""
    _, role = role_routes(node, join.address)
    join.attempts += 1
    join.ok = True
    join.generations = (role.everywhere.generation, role.realm.generation)
    heals: Sequence[MessageId] = ()
    if join.scope is Extent.CLOUD and join.attempts == 1:
        heals = heals_to_ask(node, join.address, role)
    join.is_directed = bool(heals)
    join.heals = node.heals_known
    batch = node.ids.fresh()
    if heals:
        _ask_behind(node, join, batch, heals)
        return
    floods = []
    for scope in (Extent.REALM, Extent.CLOUD):
        if scope is Extent.REALM and not node.realm:
            continue
        if scope is Extent.CLOUD and join.scope is Extent.REALM:
            continue
        flood = _begun_here(node, join, scope)
        node.remember_if_new(flood.id)
        join.running[flood.id] = None
        floods.append(flood)
    for flood in floods:
        _spread(node, flood, batch)
    for flood in floods:
        if not flood.waiting:
            _end(node, flood)


def _begun_here(
    node: TreeState, join: SharedRecovery, scope: Extent, known: tuple[InstanceId, ...] = ()
) -> Recovery:
    return Recovery(
        id=node.ids.fresh(),
        address=join.address,
        scope=scope,
        parent=None,
        join=join,
        hops=0,
        began_ms=node.now_ms,
        known=known,
    )


def _ask_behind(
    node: TreeState, join: SharedRecovery, batch: MessageId, heals: Sequence[MessageId]
) -> None:
    """Ask behind heals; where nobody on the way can go on, everybody is asked.

    Spec: tree_layer 7.3.
    """
    _, role = role_routes(node, join.address)
    known = tuple(role.everywhere.routes)
    asked = [_begun_here(node, join, join.scope, known) for _ in heals]
    for own in asked:
        node.remember_if_new(own.id)
        join.running[own.id] = None
    for own, heal in zip(asked, heals, strict=True):
        _direct(node, own, batch, heal)


def _direct(node: TreeState, own: Recovery, batch: MessageId, heal: MessageId) -> None:
    """Hand a request on towards a heal, or say that it cannot go on."""
    way = way_to(node, heal)
    _enter(node, own)
    if way is None or way[0] == own.parent:
        own.ok = False
        _end(node, own)
        return
    _rearm(node, own)
    link, behind = way
    own.waiting[link] = None
    place = (*own.address, own.scope)
    node.transmit(link, RecoveryRequest(own.id, *place, batch, own.hops + 1, behind, own.known))


def _spread(node: TreeState, own: Recovery, batch: MessageId, spew: int = 0) -> None:
    _enter(node, own)
    _rearm(node, own)
    ways = node.ways(own.scope, but=own.parent)
    links, spew = flooding(node).recovery_onward(node, own.address, ways, spew)
    place = (*own.address, own.scope)
    request = RecoveryRequest(own.id, *place, batch, own.hops + 1, known=own.known, spew=spew)
    for link in links:
        own.waiting[link] = None
        node.transmit(link, request)


def _install(node: TreeState, link: str, own: Recovery, said: RecoveryAnswer) -> None:
    """Spec: tree_layer 5.4, 5.14: a flood of the realm fills its map; beaten holders fill none."""
    if is_beaten(node, own.address, said.iid, is_exclusive=said.is_exclusive, standing=own.scope):
        return
    route = InstanceRoute(
        link, said.seq, said.hops, RouteReason.RECOVERED, node.now_ms, said.extent
    )
    install(node, own.address, own.scope, said.iid, route, asked_ms=own.began_ms)
    if said.is_exclusive:
        heed_holder(node, own.address, own.scope, said.iid, said.extent)
    elif said.extent is Extent.REALM:
        install(node, own.address, Extent.CLOUD, said.iid, route, asked_ms=own.began_ms)


def _settle_branch(node: TreeState, own: Recovery, link: str, *, ok: bool) -> None:
    del own.waiting[link]
    own.ok = own.ok and ok
    if not own.waiting:
        _end(node, own)


def _enter(node: TreeState, own: Recovery) -> None:
    node.recoveries[own.id] = own
    node.begin_on(own.address.tree)


def _leave(node: TreeState, own: Recovery) -> None:
    del node.recoveries[own.id]
    node.end_on(own.address.tree)


def _end(node: TreeState, own: Recovery) -> None:
    _leave(node, own)
    if own.parent is not None and own.ok:
        flooding(node).took_part(node, own)
    hear_of_far(node, own.hop_ms)
    if own.parent is not None:
        slowest_ms = max(own.hop_ms, slowest_own(node))
        node.transmit(own.parent, RecoveryDone(own.id, own.ok, slowest_ms))
    join = own.join
    if join is not None:
        join.ok = join.ok and own.ok
        del join.running[own.id]
        if not join.running:
            _finish(node, join)


def _finish(node: TreeState, join: SharedRecovery) -> None:
    """Certify what was asked for, start over if it was disturbed, or go on with what there is."""
    _, role = role_routes(node, join.address)
    is_realm = join.scope is Extent.REALM
    now = (role.everywhere.generation, role.realm.generation)
    is_undisturbed = now[1] == join.generations[1] and (is_realm or now[0] == join.generations[0])
    if join.ok and is_undisturbed:
        need_colour(node)
        if not is_realm:
            role.everywhere.is_certified = True
            role.heals = join.heals
        if not join.is_directed:
            role.realm.is_certified = bool(node.realm)
    elif join.attempts < node.settings.recovery_attempts_max:
        _begin(node, join)
        return
    key = (join.address, join.scope)
    del node.joins[key]
    for session in join.waiters:
        session.owed.pop(RECOVERY, None)
        session.is_incomplete = bool(session.recoveries) and not (join.ok and is_undisturbed)
        if not join.scope.covers(reach_of(node, session)):
            session.recoveries = 0  # the holder has gone for whom no further was asked
        node.ready.append(session)
    if join.late:
        node.joins[key] = SharedRecovery(*key, join.late)
        _begin(node, node.joins[key])


def _rearm(node: TreeState, own: Recovery) -> None:
    """Restart the timeout; nodes further from the origin have a shorter one, and answer first."""
    left = max(1, node.settings.hops_max - own.hops)
    expected_ms = node.settings.timeout_factor * 2 * expected_hop(node) * left
    most_ms = node.settings.recovery_ms_min + expected_ms
    own.deadline_ms = node.now_ms + min(most_ms, node.settings.record_ms)
