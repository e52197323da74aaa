"""Applications that watch what passes their node, and may hold it, change it or take it out.

Whatever is held goes on when its application says so, and at the latest when that application
ends or the record is old. What is taken out still settles: a message ends as if nobody had
anything to say, and the place of a last reply is taken by a bare end. Spec: tree_layer 6.7, 6.8.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.model.tree_apps import Refused, Resumed, Snooped, SnoopEnded, SnoopWanted
from mesh.model.tree_frames import Reply, ReplyKind
from mesh.model.trees import NO_MESSAGE, MessageId
from mesh.trees.node import Node
from mesh.trees.records import Held, Session, Source

HELD_MAX = 10_000
"""Messages and replies of one node that wait; what comes beyond them is shown and goes on."""

OWN = "$"
"""Protocols of the mesh itself begin so; nobody watches them."""


def watch(node: Node, wanted: SnoopWanted) -> None:
    """Show an application what passes from now on."""
    node.watchers[(wanted.app, wanted.tree, wanted.protocol)] = wanted


def unwatch(node: Node, ended: SnoopEnded) -> list[Held]:
    """Show an application nothing more; return what no longer waits, in order."""
    node.watchers.pop((ended.app, ended.tree, ended.protocol), None)
    if any(app == ended.app for app, _, _ in node.watchers):
        return []
    return _release(node, ended.app)


def stop_watching(node: Node, app: str) -> list[Held]:
    """An application is gone; return what no longer waits for it, in order."""
    for key in [key for key in node.watchers if key[0] == app]:
        del node.watchers[key]
    return _release(node, app)


def is_message_held(node: Node, session: Session) -> bool:
    """Show a message to those who watch; return whether it waits for one of them."""
    watching = _watching(node, session)
    return bool(watching) and show(node, Held(session, watching, node.now_ms))


def is_reply_held(node: Node, session: Session, source: Source, said: Reply) -> bool:
    """Show a reply to those who watch; return whether it waits for one of them.

    A grant never waits: routes already lead where it goes.
    """
    watching = _watching(node, session)
    is_shown = said.kind in (ReplyKind.DATA, ReplyKind.NULL) and said.grant is None
    if not (watching and is_shown):
        return False
    session.is_held = show(node, Held(session, watching, node.now_ms, said, source))
    return session.is_held


def show(node: Node, held: Held) -> bool:
    """Go on along those who watch; return whether one of them keeps it."""
    while held.watching:
        one = held.watching.pop(0)
        holds = one.holds and len(node.held) < HELD_MAX
        token = node.ids.fresh() if holds else NO_MESSAGE
        held.app = one.app
        node.outputs.append(_shown(node, held, token))
        if holds:
            node.held[token] = held
            return True
    return False


def word(node: Node, said: Resumed) -> Held | None:
    """Take an application's word; return what it is about, None if nothing waits for it."""
    held = node.held.get(said.token)
    if held is None or held.app != said.app:
        text = "nothing waits for this application's word under this token"
        node.outputs.append(Refused(said.app, f"{said.token:032x}", "UNKNOWN_TOKEN", text))
        return None
    del node.held[said.token]
    if held.session.is_closed:
        return None
    if said.payload is None:
        return held
    if held.said is None:
        held.session.payload = said.payload
    else:
        held.said = replace(held.said, items=(said.payload,))
    return held


def expire_held(node: Node) -> list[Held]:
    """Forget what waits for a session that has ended; return what has waited for too long."""
    old = []
    for token, held in list(node.held.items()):
        is_old = node.now_ms - held.began_ms >= node.settings.record_ms
        if held.session.is_closed or is_old:
            del node.held[token]
        if is_old and not held.session.is_closed:
            node.counts["held for too long"] += 1
            old.append(held)
    return old


def _watching(node: Node, session: Session) -> list[SnoopWanted]:
    if not node.watchers or session.protocol.startswith(OWN):
        return []
    return [
        one
        for one in node.watchers.values()
        if one.tree in (None, session.address.tree) and one.protocol in ("", session.protocol)
    ]


def _release(node: Node, app: str) -> list[Held]:
    tokens = [token for token, held in node.held.items() if held.app == app]
    released = [node.held.pop(token) for token in tokens]
    return [held for held in released if not held.session.is_closed]


def _shown(node: Node, held: Held, token: MessageId) -> Snooped:
    session, said = held.session, held.said
    came_by = session.came_by or ""
    shown = Snooped(
        held.app, token, session.mid, session.address, session.iid, session.protocol,
        session.options, session.header, (session.payload,), came_by, session.hops,
        bool(node.instances(session.address)),
    )  # fmt: skip
    if said is None:
        return shown
    return replace(
        shown,
        header=b"",
        items=said.items,
        link=held.source if isinstance(held.source, str) else "",
        kind=said.kind,
        is_last=said.is_last and not (session.owed.keys() - {held.source}),
        is_endpoint=session.came_by is None,
    )
