"""Sending a message on, and doing so again when another way appears while it is under way.

Spec: tree_layer 6.6 (H9).
"""

from __future__ import annotations

from mesh.model.tree_frames import Reopen, Send
from mesh.model.trees import Address, Extent, InstanceId
from mesh.trees.holders import reach_of
from mesh.trees.node import TreeState
from mesh.trees.records import Session
from mesh.trees.routes import InstanceRoute
from mesh.trees.snooping import expect_more


def pass_on(node: TreeState, session: Session, link: str) -> None:
    """Send a message over a link that it was not sent on yet."""
    session.sent[link] = None
    if not session.options.one_way:
        session.owed[link] = None
    node.transmit(
        link,
        Send(
            session.mid,
            session.address.tree,
            session.address.role,
            session.iid,
            session.protocol,
            session.options,
            session.header,
            session.payload,
            session.is_delivered or session.upstream_delivered,
            session.left_realm or node.is_remote(link),
            session.hops + 1,
            session.toward,
        ),
    )


def route_added(
    node: TreeState,
    address: Address,
    scope: Extent,
    iid: InstanceId,
    route: InstanceRoute,
    reopens: bool,
) -> None:
    """Use a new route for what was forwarded before it was known.

    With `reopens`, which a recovery's answer has, also for what has just ended; all of it in the
    order in which it came, for that of one sender counts (Q11).
    A session that ended just now begins again: upstream is told before anything else that
    could close its record there, because it goes the same way, in order.
    """
    found = [one for one in node.sessions.by_address.get(address, {}).values() if one.is_forwarded]
    if reopens:
        found += [one for one in node.sessions.closed.values() if one.address == address]
    found = [one for one in found if _is_for(node, one, scope, iid, route)]
    for session in sorted(found, key=lambda one: one.number):
        if session.is_closed and not session.options.one_way:  # of which nobody keeps an account
            reopen(node, session)
        pass_on(node, session, route.link)


def reopen(node: TreeState, session: Session) -> None:
    """Let a session that has ended wait once more, here and towards the sender."""
    renew(node, session)
    if session.came_by is not None:
        node.transmit(session.came_by, Reopen(session.mid))


def renew(node: TreeState, session: Session) -> None:
    """Let a session that has ended wait once more; it can end in END only, never in not found."""
    node.sessions.reopen(session)
    node.begin_on(session.address.tree)
    session.has_data = session.is_delivered = True
    session.has_null = False
    session.items, session.items_bytes = [], 0


def read_reopen(node: TreeState, link: str, said: Reopen) -> None:
    """Count on a branch again: it has said its last word, or that waits here for a watcher."""
    session = node.sessions.known(said.mid)
    if session is None or session.options.one_way or link not in session.sent:
        node.count("reopened in vain")
        return
    if session.is_closed:
        reopen(node, session)
    session.owed[link] = None
    expect_more(node, session, link)


def enter(node: TreeState, session: Session) -> None:
    """Take a session among the open ones, and keep its tree for it."""
    node.sessions.enter(session)
    node.begin_on(session.address.tree)


def _is_for(
    node: TreeState, session: Session, scope: Extent, iid: InstanceId, route: InstanceRoute
) -> bool:
    """Return whether a message is to follow a route: who is known in the realm is in either map."""
    reach = reach_of(node, session)
    is_in_map = scope is reach or (route.extent is Extent.REALM and reach is not Extent.NODE)
    return (
        is_in_map
        and session.iid in (0, iid)
        and iid not in session.offered
        and not session.options.one_instance
        and route.link != session.came_by
        and route.link not in session.sent
        and route.is_open(from_outside=session.left_realm)
    )
