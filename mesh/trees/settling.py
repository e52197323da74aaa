"""How a session says something upstream, and how it ends: exactly one reply is the last.

Spec: tree_layer 6.4 (H12).
"""

from __future__ import annotations

from mesh.model.tree_apps import Answered
from mesh.model.tree_frames import Cause, Grant, Reply, ReplyKind
from mesh.model.trees import MessageId
from mesh.trees.node import TreeState
from mesh.trees.records import Session
from mesh.trees.snooping import forget_behind


def settle(node: TreeState, session: Session) -> None:
    """End a session from which nothing more is expected."""
    if session.options.one_way:
        _forget_soon(node, session)
        return
    if session.options.one_response and session.has_null:
        is_last = not session.items
        say(node, session, ReplyKind.NULL, is_last=is_last, cause=session.cause)
    if session.options.one_response and session.items:
        items = tuple(session.items)
        say(node, session, ReplyKind.DATA, is_last=True, items=items)
    if session.is_closed:
        return
    say(node, session, _closing_kind(session), is_last=True)


def say(
    node: TreeState,
    session: Session,
    kind: ReplyKind,
    *,
    is_last: bool,
    items: tuple[bytes, ...] = (),
    cause: Cause | None = None,
    grant: Grant | None = None,
    had: tuple[MessageId, ...] = (),
) -> None:
    """Pass something on towards the sender; the last reply closes the breadcrumb."""
    if is_last:
        close(node, session)
    if session.came_by is None:
        kind = _as_the_sender_sees_it(kind)
        node.tell(Answered(session.app, session.call, kind, is_last, items, cause))
    elif not session.is_orphan:
        node.transmit(session.came_by, Reply(session.mid, kind, is_last, items, cause, grant, had))


def close(node: TreeState, session: Session) -> None:
    """Close a breadcrumb; for a while the session may still learn of a new route."""
    session.owed.clear()
    forget_behind(node, session)
    node.sessions.end_call(session)
    if session.came_by is not None and not session.is_orphan:
        _forget_soon(node, session)
    else:
        _leave(node, session)


def _forget_soon(node: TreeState, session: Session) -> None:
    """Keep a session that has ended for as long as a new route may still be used for it. H9."""
    _leave(node, session)
    if session.is_forwarded:
        node.sessions.keep_closed(session, node.now_ms)


def _leave(node: TreeState, session: Session) -> None:
    if node.sessions.leave(session):
        node.end_on(session.address.tree)


def _closing_kind(session: Session) -> ReplyKind:
    """Return how a session ends whose last word is not an application's.

    Behind a null nobody is said to be not found; and that nobody has got it is for the nodes on the
    way alone: a message for one instance is tried elsewhere.
    """
    if session.has_data or session.is_delivered or session.has_end:
        return ReplyKind.END
    if session.has_null:
        return ReplyKind.END if session.came_by is None else ReplyKind.STALE
    if session.has_not_found:
        return ReplyKind.NOT_FOUND
    return ReplyKind.STALE


def _as_the_sender_sees_it(kind: ReplyKind) -> ReplyKind:
    """A message about which nobody has said anything has found nobody."""
    if kind in (ReplyKind.DUPLICATE, ReplyKind.STALE):
        return ReplyKind.NOT_FOUND
    return kind
