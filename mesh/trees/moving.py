"""A role that moves with a reply: the nodes on its way point to where it goes, nobody else.

While the reply is on its way nobody hosts the role. If a link dies under it the sender gets a
null and must treat the role as lost. Spec: tree_layer 5.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mesh.model.tree_apps import AnswerGiven, RoleLoss, RoleLost, RouteReason
from mesh.model.tree_frames import Grant, RouteBreak
from mesh.model.trees import Extent, MessageId
from mesh.trees.colours import need_colour
from mesh.trees.exclusives import drop_local, is_beaten
from mesh.trees.installing import install, remove_instance, remove_routes_over, role_routes
from mesh.trees.node import RESERVED, TreeState
from mesh.trees.publishing import Parcel, host, publish, taken, unpublish
from mesh.trees.records import LocalRole, Session
from mesh.trees.routes import InstanceRoute
from mesh.trees.utility import is_reserved


def grant_fault(
    session: Session, one: LocalRole | None, given: AnswerGiven
) -> tuple[str, str] | None:
    """Return why an answer may not grant what it does."""
    if one is None:
        return "NOT_HELD", f"application {given.app!r} does not hold the role that it grants"
    if session.options.one_way or session.options.one_response:
        return "NOT_GRANTED", "a grant goes with a reply of its own; send without one_response"
    if one.is_exclusive and not given.gives_up:
        return "EXCLUSIVE_NEEDS_GIVE_UP", "one alone may hold this role: give it up with the grant"
    is_inside = one.extent is Extent.REALM and not session.left_realm
    if one.extent is not Extent.CLOUD and not is_inside:
        return "OUT_OF_EXTENT", f"the role reaches no further than its {one.extent}"
    if session.is_orphan:
        return "SENDER_GONE", "the way to the sender is cut: the role stays here"
    if session.came_by is None:
        return "NOT_GRANTED", "the sender is at this node: let it take the role itself"
    return None


HAD_MAX = 1_000
"""Messages that are told of an instance that moves, the newest first: older ones are under way no
more, or their copies come one by one."""


def had(node: TreeState, grant: Grant) -> tuple[MessageId, ...]:
    """Return what an instance takes along that moves: messages of which no copy is for it. I1.

    Routes of its new place reach nodes to which nobody tells that it has moved, so they may send
    there once more what they sent to its old one. Only the instance itself knows what it had.
    """
    if not grant.give_up:
        return ()
    found = (mid for mid, iid in reversed(node.given) if iid == grant.iid)
    return tuple(islice(found, HAD_MAX))


def give(node: TreeState, one: LocalRole, given: AnswerGiven) -> Grant:
    """Make the grant that an answer carries; with `gives_up` the instance leaves this node."""
    seq = one.seq + 1 if given.gives_up else 0
    grant = Grant(
        one.address, one.iid, one.is_exclusive, given.gives_up, seq, one.extent, one.protocol
    )
    if given.gives_up:
        drop_local(node, one, RoleLoss.GRANTED)
    return grant


def repoint(node: TreeState, session: Session, grant: Grant) -> None:
    """Point to where the role goes, before the reply is sent there.

    Args:
        node: On the way from the former holder to the sender.
        session: The send that the reply answers: it came by the link where the role goes.
        grant: What the reply brings; if its giver keeps the role, nothing changes here.
    """
    if not grant.give_up or session.came_by is None:
        return
    address = grant.address
    route = InstanceRoute(
        link=session.came_by,
        seq=grant.seq,
        hops=session.hops,
        reason=RouteReason.MOVED,
        since_ms=node.now_ms,
        extent=grant.extent,
    )
    _, role = role_routes(node, address)
    scopes = [Extent.CLOUD]
    if not session.left_realm and node.realm:
        scopes.append(Extent.REALM)
    if grant.is_exclusive and grant.extent is Extent.CLOUD:
        role.exclusive = grant.iid
    elif grant.is_exclusive:
        role.exclusive_inside = grant.iid
        del scopes[0]
    for scope in scopes:
        is_new = install(node, address, scope, grant.iid, route, has_moved=True)
        is_widest = scope is scopes[0]
        role.map(scope).is_certified |= is_new and is_widest and grant.is_exclusive


def lose_grant(node: TreeState, link: str, grant: Grant) -> None:
    """A grant that came by this link cannot go on: nobody has the role, and no route may say so."""
    node.count("roles lost on their way")
    for scope in (Extent.CLOUD, Extent.REALM):
        remove_routes_over(node, grant.address, scope, link, grant.iid)
        node.transmit(link, RouteBreak(*grant.address, scope, grant.iid))


def take(node: TreeState, session: Session, grant: Grant, had: Sequence[MessageId]) -> None:
    """Hold, at the sender, what a reply has brought. A move is not published; a share is.

    An application has one instance of a role: whoever has it already needs no share of it, and
    what moves there takes the place of what it had.
    No node has granted one to the mesh itself, or one that every node has by itself.

    Args:
        node: The sender's.
        session: The send that is answered; it names the application.
        grant: What the reply brings.
        had: What the instance has had where it was, the newest first: no copy of that is for it.
    """
    address, iid = grant.address, grant.iid
    if not session.app or is_reserved(node, address.tree):
        node.count(RESERVED)
        return
    held = [one for one in node.instances(address).values() if one.app == session.app]
    if held and not grant.give_up:
        return
    if not grant.give_up:
        iid = node.ids.instance(node.clock.advance())
    one = LocalRole(
        session.app, address, iid, grant.is_exclusive, grant.extent, grant.protocol, grant.seq
    )
    for scope in (Extent.CLOUD, Extent.REALM):
        remove_instance(node, address, scope, iid, grant.seq)
    if is_beaten(node, address, iid, is_exclusive=grant.is_exclusive):
        node.tell(RoleLost(session.app, address, iid, RoleLoss.HIGHER_HOLDER))
        return
    need_colour(node)
    parcel = Parcel()
    for former in held:
        unpublish(node, former, parcel)
    host(node, one)
    for mid in reversed(had[:HAD_MAX]):
        node.note_given(mid, iid)
    node.tell(taken(one, is_granted=True))
    if not grant.give_up:
        publish(node, one, parcel)
    parcel.send(node)
