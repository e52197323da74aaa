"""Sending a message on: to instances here, over the links that lead to others, once each.

Spec: tree_layer 6.1-6.3, 5.11 (H10, H18).
"""

from __future__ import annotations

from mesh.model.tree_apps import PROBE, Delivered, Refused, SendWanted
from mesh.model.tree_frames import BreakReason, Cause, Reply, ReplyKind, RouteBreak, Send
from mesh.model.tree_nodes import MESH_APP
from mesh.model.trees import Address, Extent, InstanceId, name_fault
from mesh.trees.holders import holder_over, reach_of
from mesh.trees.installing import remove_routes_over, role_routes
from mesh.trees.late_routes import enter, pass_on, renew
from mesh.trees.node import TOO_FAR, TreeState
from mesh.trees.profiles import flooding
from mesh.trees.records import LocalRole, Session
from mesh.trees.recovery import is_built, is_recovering, recover, waits_behind
from mesh.trees.settling import say, settle
from mesh.trees.snooping import show_message, waits
from mesh.trees.utility import forget_certainty


def send(node: TreeState, wanted: SendWanted) -> None:
    """Send for an application here."""
    if fault := _fault(node, wanted):
        code, text = fault
        node.tell(Refused(wanted.app, wanted.call, code, text))
        return
    options = wanted.options
    if options.one_instance and options.one_response:
        options = type(options)(one_instance=True, local_realm=options.local_realm)
    session = Session(
        node.ids.fresh(), wanted.address, wanted.iid, wanted.protocol, options,
        wanted.header, wanted.payload, None, node.now_ms, app=wanted.app, call=wanted.call,
    )  # fmt: skip
    node.remember_if_new(session.mid)
    if not options.one_way:
        node.sessions.call(session)
    enter(node, session)
    forget_certainty(node, session.address)
    if not show_message(node, session):
        forward(node, session)


def read_send(node: TreeState, link: str, said: Send) -> None:
    """Take a message from a neighbour; a second copy is answered at once, so that counts agree."""
    if said.hops > node.settings.hops_max:
        node.count(TOO_FAR)
        _answer_copy(node, link, said)
        return
    if not node.remember_if_new(said.mid):
        if not _replace_if_faster(node, link, said):
            _answer_copy(node, link, said)
        return
    session = Session(
        said.mid, Address(said.tree, said.role), said.iid, said.protocol, said.options,
        said.header, said.payload, link, node.now_ms, said.hops,
        upstream_delivered=said.delivered, left_realm=said.left_realm, toward=said.toward,
    )  # fmt: skip
    enter(node, session)
    if not show_message(node, session):
        forward(node, session)


def resume(node: TreeState, session: Session) -> None:
    """Go on with a message whose recovery has ended."""
    if session.is_closed:
        return
    if session.is_incomplete:
        session.is_incomplete = False
        session.has_null = True
        session.cause = Cause.RECOVERY_INCOMPLETE
        if not session.options.one_response and not session.options.one_way:
            say(node, session, ReplyKind.NULL, is_last=False, cause=session.cause)
    forward(node, session)


def forward(node: TreeState, session: Session) -> None:
    """Give a message to instances here and to the links that lead to others.

    Where the node does not know all routes to the role it recovers them first, and is called again
    once that has ended.

    Args:
        node: Where the message is.
        session: The send, with all that is known of its way so far.
    """
    one_instance = session.options.one_instance
    candidates = _candidates(node, session)
    is_sure = is_built(node, session.address, reach_of(node, session))
    is_kept_out = _deliver(node, session, is_endpoint=is_sure and not candidates)
    if one_instance and session.is_delivered:
        _end_if_idle(node, session)
        return
    must_wait = not is_sure or is_recovering(node, session)
    if must_wait and not session.recoveries and not (one_instance and candidates):
        recover(node, session)
        return
    if not session.recoveries and waits_behind(node, session):
        return
    is_dead_end = not (candidates or session.owed or session.offered or is_kept_out)
    if is_dead_end and (one_instance or not session.sent):
        if not session.recoveries:
            recover(node, session)
            return
        _break_off(node, session)
        return
    session.is_forwarded = True
    for link in candidates[:1] if one_instance else candidates:
        pass_on(node, session, link)
    _end_if_idle(node, session)


def _candidates(node: TreeState, session: Session) -> list[str]:
    """Return links towards instances that the message was not sent on; the nearest first.

    One that was here and has it may have moved meanwhile: it is not given it there again. I1.
    """
    _, role = role_routes(node, session.address, session.protocol)
    scope = reach_of(node, session)
    if scope is Extent.NODE:
        return []
    ways = role.map(scope).links(session.iid, from_outside=session.left_realm, but=session.offered)
    found = [link for link in ways if link != session.came_by and link not in session.sent]
    if session.options.one_instance and not session.iid:
        return _nearest_first(node, session, found)
    return found


def _nearest_first(node: TreeState, session: Session, found: list[str]) -> list[str]:
    """Put the link first that the hop before meant, else the nearest instance's.

    Spec: tree_layer 6.2.
    """
    table = role_routes(node, session.address)[1].map(reach_of(node, session))
    ranked = sorted(
        (iid != session.toward, route.hops, iid, route.link)
        for iid, route in table.routes.items()
        if route.link in found and route.is_open(from_outside=session.left_realm)
    )
    if ranked:
        session.toward = InstanceId(ranked[0][2])
    return list(dict.fromkeys(link for _, _, _, link in ranked))


def _deliver(node: TreeState, session: Session, *, is_endpoint: bool) -> bool:
    """Give a message to instances here; return whether there are any that it does not reach."""
    is_kept_out = False
    for one in list(node.instances(session.address).values()):
        if one.iid in session.offered or session.iid not in (0, one.iid):
            continue
        if session.options.one_instance and session.is_delivered:
            break
        if not _reaches(session, one):
            is_kept_out = True
            continue
        session.offered[one.iid] = one.app
        node.sessions.concerns(session, one.app)
        if (session.mid, one.iid) in node.given:
            session.has_end = True  # it came to where the instance was before. I1
            continue
        if not _is_open(node, one, session.protocol):
            continue
        session.is_delivered = True
        node.note_given(session.mid, one.iid)
        if not session.options.one_way:
            session.owed[one.iid] = None
        _give(
            node,
            Delivered(
                one.app,
                session.mid,
                session.address,
                one.iid,
                session.protocol,
                session.header,
                session.payload,
                not session.options.one_way,
                is_endpoint,
                session.hops,
            ),
        )
    return is_kept_out


def _reaches(session: Session, one: LocalRole) -> bool:
    """Return whether a message may be given to an instance: how far that is known.

    Spec: tree_layer 5.2.
    """
    if one.extent is Extent.NODE:
        return session.came_by is None
    return one.extent is Extent.CLOUD or not session.left_realm


def _give(node: TreeState, delivered: Delivered) -> None:
    if delivered.app == MESH_APP:
        node.questions.append(delivered)
    else:
        node.tell(delivered)


def _is_open(node: TreeState, one: LocalRole, protocol: str) -> bool:
    return protocol in ("", one.protocol, PROBE) and one.protocol in node.hosts.ports.get(
        one.app, ()
    )


def _break_off(node: TreeState, session: Session) -> None:
    """Report that the way here leads nowhere, and that nobody was found. Spec: tree_layer 5.11."""
    if session.came_by is not None and not session.is_orphan:
        told = RouteBreak(*session.address, reach_of(node, session), session.iid)
        node.transmit(session.came_by, told)
    session.has_not_found = session.has_not_found or not session.upstream_delivered
    settle(node, session)


def read_break(node: TreeState, link: str, said: RouteBreak) -> None:
    """Forget routes that were found stale, or to go round."""
    if said.reason is BreakReason.CYCLE:
        flooding(node).heard_of_cycle(node, link, said)
        return
    address = Address(said.tree, said.role)
    alone = holder_over(node, address, link)
    remove_routes_over(node, address, said.scope, link, said.iid)
    if alone and said.iid in (0, alone):
        remove_routes_over(node, address, Extent.REALM, link, alone)
        _look_beyond(node, address, link)


def _look_beyond(node: TreeState, address: Address, link: str) -> None:
    """Let what went to the holder of a role, who is no more, go to all whom he kept out. H9."""
    for session in node.sessions.by_address.get(address, {}).values():
        if link in session.owed and not session.left_realm and not session.options.one_instance:
            node.ready.append(session)


def _end_if_idle(node: TreeState, session: Session) -> None:
    if not session.owed:
        settle(node, session)


def _replace_if_faster(node: TreeState, link: str, said: Send) -> bool:
    """Take a copy that stayed in the realm for one that was faster and did not; say whether it is.

    It alone is for roles that are known in the realm alone. What has yet to be answered goes back
    the way of this one; the other branch has nothing more to say. H16.
    """
    session = node.sessions.known(said.mid)
    if session is None or said.left_realm or not session.left_realm:
        return False
    if not any(one.extent is Extent.REALM for one in node.instances(session.address).values()):
        return False
    if session.is_closed:
        renew(node, session)
    elif session.came_by is not None and not (session.is_orphan or session.options.one_way):
        node.transmit(session.came_by, Reply(said.mid, ReplyKind.END, is_last=True))
    session.came_by, session.hops = link, said.hops
    session.left_realm = session.is_orphan = False
    if not waits(node, session):
        forward(node, session)
    return True


def _answer_copy(node: TreeState, link: str, said: Send) -> None:
    flooding(node).came_twice(node, link, said)
    if not said.options.one_way:
        node.transmit(link, Reply(said.mid, ReplyKind.DUPLICATE, is_last=True))


def _fault(node: TreeState, wanted: SendWanted) -> tuple[str, str] | None:
    options = wanted.options
    if fault := name_fault(wanted.address.role):
        return "BAD_NAME", f"role: {fault}"
    if (text := options.fault) is not None:
        return "BAD_OPTIONS", text
    if options.local_realm and not node.realm:
        return "NO_REALM", f"node {node.name!r} is in no realm; send without local_realm"
    if (wanted.app, wanted.call) in node.sessions.calls:
        return "CALL_OPEN", f"call {wanted.call!r} still waits for its last reply; rename it"
    return None
