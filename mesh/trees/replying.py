"""Replies: back on the way that the message came, counted at each hop, one of them the last.

Spec: tree_layer 6.4, 6.5, 6.9, 6.10.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.model.tree_apps import AnswerGiven, Refused
from mesh.model.tree_frames import Cause, Grant, Reply, ReplyKind
from mesh.model.trees import Address, InstanceId, MessageId
from mesh.trees.moving import give, grant_fault, had, lose_grant, repoint, take
from mesh.trees.node import TreeState
from mesh.trees.records import LocalRole, Session, Source
from mesh.trees.sending import forward
from mesh.trees.settling import close, say, settle
from mesh.trees.snooping import (
    has_room_behind,
    let_go,
    next_behind,
    show_reply,
    wait_behind,
)

NOBODY_YET = (ReplyKind.NOT_FOUND, ReplyKind.DUPLICATE, ReplyKind.STALE)
"""What leaves a message for one instance without any: the next way is tried. H18."""


ITEM_BYTES = 16
"""What an answer among others takes beside its own bytes: there is no end of empty ones."""


def answer(node: TreeState, given: AnswerGiven) -> None:
    """Take an application's answer to what was delivered to it."""
    session = node.sessions.open.get(given.mid)
    iid = None if session is None else _owing(session, given.app)
    if session is None or iid is None:
        _refuse(node, given, *_why_unknown(session, given))
        return
    if not given.grants:
        _count(node, session, iid, _said(given))
        return
    role = given.granted or session.address.role
    address = Address(session.address.tree, role)
    one = _held(node, address, given.app, iid)
    if fault := grant_fault(session, one, given):
        _refuse(node, given, *fault)
    elif one is not None:
        grant = give(node, one, given)
        said = replace(_said(given, grant), had=had(node, grant))
        _count(node, session, iid, said)


def read_reply(node: TreeState, link: str, said: Reply) -> None:
    """Take a reply from a neighbour; what nobody waits for is dropped."""
    session = node.sessions.open.get(said.mid)
    if session is None or link not in session.owed:
        node.count("replies to nothing")
        if said.grant is not None and said.grant.give_up:
            lose_grant(node, link, said.grant)
        return
    _count(node, session, link, said)


def lose_replies(node: TreeState, link: str) -> None:
    """A link is down: what was owed over it is a null, what came by it has nobody to tell."""
    for session in list(node.sessions.closed.values()):
        if session.came_by == link:
            node.sessions.forget(session)
        else:
            session.sent.pop(link, None)
    for session in list(node.sessions.open.values()):
        session.is_orphan |= session.came_by == link
        if link in session.owed:
            _count(node, session, link, _null(session, Cause.LINK_DOWN))
        session.sent.pop(link, None)


def lose_application(node: TreeState, app: str) -> None:
    """An application is gone: nobody waits for its answers, nobody hears what it asked.

    Another life of that name may call its messages as this one did.
    """
    for session in list(node.sessions.concern.get(app, {}).values()):
        if session.came_by is None and session.app == app:
            close(node, session)
        for iid, held_by in session.offered.items():
            if held_by == app and iid in session.owed:
                _count(node, session, iid, _null(session, Cause.APPLICATION_GONE))


def sweep_sessions(node: TreeState) -> None:
    """End what is older than anything should be: somebody never answered."""
    for session in list(node.sessions.open.values()):
        if node.now_ms - session.began_ms >= node.settings.record_ms:
            node.count("sessions swept")
            _give_up(node, session)


def end_oldest(node: TreeState) -> None:
    """End the sessions that have waited for longest, down to what may be kept.

    Who sends without end to somebody who never answers would fill the memory of all on the way.
    """
    while node.sessions.bytes_kept > node.settings.sessions_bytes_max:
        oldest = next(iter(node.sessions.open.values()))
        node.count("sessions beyond room")
        _give_up(node, oldest)


def _give_up(node: TreeState, session: Session) -> None:
    """End a session that waits for somebody; of a one-way message nobody is told."""
    if session.options.one_way:
        settle(node, session)
    else:
        say(node, session, ReplyKind.NULL, is_last=True, cause=Cause.SWEPT)


def forget_closed(node: TreeState) -> None:
    """Forget sessions that ended too long ago to begin again, the oldest first."""
    while node.sessions.closed:
        session = next(iter(node.sessions.closed.values()))
        if node.now_ms - session.closed_ms < node.settings.reopen_ms:
            return
        node.sessions.forget(session)


def _count(node: TreeState, session: Session, source: Source, said: Reply) -> None:
    """Take one reply of one branch, in the order of replies, past whoever watches."""
    if said.grant is not None and session.is_held:
        _hand_on_grant(node, session, source, said.grant, said.had)
        said = replace(said, grant=None, had=())
    while session.is_held and not has_room_behind(node, session, said):
        take_replies(node, session, let_go(node, session))
    if source not in session.owed:
        return  # its last reply was among those that waited
    if session.is_held:
        wait_behind(node, session, source, said)
    elif not show_reply(node, session, source, said):
        _account(node, session, source, said)


def take_replies(node: TreeState, session: Session, first: tuple[Source, Reply] | None) -> None:
    """Go on with a reply that was held, and with those that came behind it meanwhile."""
    session.is_held = False
    if first is not None:
        _account(node, session, *first)
    while session.behind and not session.is_held and not session.is_closed:
        source, said = next_behind(node, session)
        if source in session.owed:
            _count(node, session, source, said)


def _account(node: TreeState, session: Session, source: Source, said: Reply) -> None:
    """Take one reply of one branch into account, and pass on what is for the sender."""
    if said.is_last:
        del session.owed[source]
    if said.is_last and said.kind in NOBODY_YET and _tries_on(session):
        session.has_not_found |= said.kind is ReplyKind.NOT_FOUND
        forward(node, session)
        return
    if said.grant is not None:
        _hand_on_grant(node, session, source, said.grant, said.had)
    is_done = not session.owed
    if said.kind is ReplyKind.DATA:
        session.has_data = True
        _pass_data(node, session, said, is_last=is_done)
    elif said.kind is ReplyKind.NULL:
        session.has_null, session.cause = True, said.cause
        if not session.options.one_response:
            say(node, session, ReplyKind.NULL, is_last=is_done, cause=said.cause)
    elif said.kind is ReplyKind.GRANT:
        session.has_data = True
    else:
        session.has_not_found |= said.kind is ReplyKind.NOT_FOUND
        session.has_end |= said.kind is ReplyKind.END
    if is_done and not session.is_closed:
        settle(node, session)


def _tries_on(session: Session) -> bool:
    """Return whether a message for one instance still looks for one.

    Who may have got it answers with a null that is the last; one behind which more comes says only
    that a recovery could not hear everybody.
    """
    return session.options.one_instance and not session.has_data


def _pass_data(node: TreeState, session: Session, said: Reply, *, is_last: bool) -> None:
    if session.options.one_response:
        size = sum(len(item) + ITEM_BYTES for item in said.items)
        # Of one alone the limit is that of any answer.
        if session.items_bytes + size <= node.settings.collected_bytes_max + ITEM_BYTES:
            session.items.extend(said.items)
            session.items_bytes += size
            node.sessions.keep_more(session, size)
        else:
            session.has_null, session.cause = True, Cause.TOO_LARGE
    else:
        say(node, session, ReplyKind.DATA, is_last=is_last, items=said.items)


def _hand_on_grant(
    node: TreeState, session: Session, source: Source, grant: Grant, has_had: tuple[MessageId, ...]
) -> None:
    """Re-point, then tell the next hop; at the sender the role has arrived."""
    if session.came_by is None:
        take(node, session, grant, has_had)
        return
    if session.is_orphan and isinstance(source, str):
        if grant.give_up:
            lose_grant(node, source, grant)
        return
    repoint(node, session, grant)
    say(node, session, ReplyKind.GRANT, is_last=False, grant=grant, had=has_had)


def _said(given: AnswerGiven, grant: Grant | None = None) -> Reply:
    if given.payload is None:
        return Reply(given.mid, ReplyKind.END, given.is_last, grant=grant)
    return Reply(given.mid, ReplyKind.DATA, given.is_last, (given.payload,), grant=grant)


def _null(session: Session, cause: Cause) -> Reply:
    return Reply(session.mid, ReplyKind.NULL, is_last=True, cause=cause)


def _owing(session: Session, app: str) -> InstanceId | None:
    """Return the instance of an application that may still answer."""
    for iid, held_by in session.offered.items():
        if held_by == app and iid in session.owed:
            return iid
    return None


def _held(node: TreeState, address: Address, app: str, iid: InstanceId) -> LocalRole | None:
    """Return the instance that an application would grant: the addressed one if it can be."""
    held = node.instances(address)
    own = [one for one in held.values() if one.app == app]
    return held.get(iid) or (own[0] if own else None)


def _why_unknown(session: Session | None, given: AnswerGiven) -> tuple[str, str]:
    if session is not None and given.app in session.offered.values():
        return "LAST_ALREADY_SENT", "the last reply was given; nothing goes behind it"
    return "UNKNOWN_MESSAGE", "no message that waits for this application's answer has this id"


def _refuse(node: TreeState, given: AnswerGiven, code: str, text: str) -> None:
    node.tell(Refused(given.app, f"{given.mid:032x}", code, text))
