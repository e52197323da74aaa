"""Applications that watch what passes their node, and may hold it, change it or take it out.

Whatever is held goes on when its application says so, and at the latest when that application
ends or the record is old. What is taken out still settles: a message ends as if nobody had
anything to say, and the place of a last reply is taken by a bare end. Spec: tree_layer 6.7, 6.8.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.model.tree_apps import Refused, Resumed, Snooped, SnoopEnded, SnoopWanted
from mesh.model.tree_frames import Reply, ReplyKind
from mesh.model.tree_nodes import SILENT
from mesh.model.trees import NO_MESSAGE, MessageId, TreeId
from mesh.trees.node import TreeState
from mesh.trees.records import Session, Source, WatchedMessage, size_of

HELD_MAX = 10_000
"""Messages and replies of one node that wait; what comes beyond them is shown and goes on."""

HELD_BYTES_MAX = 64 << 20
"""Bytes of applications in them, and in replies behind them."""

BEHIND_MAX = 1_000
"""Replies of a session that wait behind one that is held; more have that one go on."""

WATCHES_MAX = 100
"""Of one application; all are looked through for each message and reply of the node."""

OWN = "$"
"""Protocols of the mesh itself begin so; nobody watches them, nor the trees of all nodes."""


def watch(node: TreeState, wanted: SnoopWanted) -> list[WatchedMessage]:
    """Show an application what passes from now on; return what no longer waits, in order."""
    if wanted.tree in SILENT:
        text = "nobody watches the trees of all nodes: every node answers there itself"
        node.tell(Refused(wanted.app, "snoop", "RESERVED", text))
        return []
    key = _key(wanted)
    others = sum(app == wanted.app for app, _, _ in node.watching.watchers)
    if key not in node.watching.watchers and others >= WATCHES_MAX:
        text = f"an application has {WATCHES_MAX} watches at most: end one, or watch a whole tree"
        node.tell(Refused(wanted.app, "snoop", "TOO_MANY_WATCHES", text))
        return []
    before = node.watching.watchers.get(key)
    node.watching.watchers[key] = wanted
    return [] if wanted.holds else _release(node, before)


def unwatch(node: TreeState, ended: SnoopEnded) -> list[WatchedMessage]:
    """Show an application nothing more; return what no longer waits, in order."""
    return _release(node, node.watching.watchers.pop(_key(ended), None))


def stop_watching(node: TreeState, app: str) -> list[WatchedMessage]:
    """An application is gone; return what no longer waits for it, in order."""
    ended = [
        node.watching.watchers.pop(key) for key in list(node.watching.watchers) if key[0] == app
    ]
    return _release(node, *ended)


def let_go(node: TreeState, session: Session) -> tuple[Source, Reply] | None:
    """Return the reply of a session that waits, and who gave it; it waits no longer."""
    for token, held in node.watching.held.items():
        if held.session is session and held.said is not None:
            _take(node, token)
            return held.source, held.said
    return None


def has_room_behind(node: TreeState, session: Session, said: Reply) -> bool:
    """Return whether a reply may wait behind the one of its session that is held."""
    return len(session.behind) < BEHIND_MAX and _has_room(node, size_of(said))


def wait_behind(node: TreeState, session: Session, source: Source, said: Reply) -> None:
    """Let a reply wait behind the one of its session that is held."""
    node.watching.held_bytes += size_of(said)
    session.behind.append((source, said))


def next_behind(node: TreeState, session: Session) -> tuple[Source, Reply]:
    """Return the first reply that waited so; it waits no longer."""
    source, said = session.behind.popleft()
    node.watching.held_bytes -= size_of(said)
    return source, said


def forget_behind(node: TreeState, session: Session) -> None:
    """A session has ended: nobody takes what waits behind."""
    while session.behind:
        next_behind(node, session)


def expect_more(node: TreeState, session: Session, source: Source) -> None:
    """A branch has more to say: what waits here of it is not the last any more. H9."""
    for held in node.watching.held.values():
        if held.session is session and held.source == source and held.said is not None:
            held.said = replace(held.said, is_last=False)
    for at, (whose, said) in enumerate(session.behind):
        if whose == source:
            session.behind[at] = (whose, replace(said, is_last=False))


def show_message(node: TreeState, session: Session) -> bool:
    """Show a message to those who watch; return whether it waits for one of them."""
    watching = _watching(node, session)
    return bool(watching) and show(node, WatchedMessage(session, watching, node.now_ms))


def waits(node: TreeState, session: Session) -> bool:
    """Return whether a message waits for somebody who watches."""
    return any(
        held.session is session and held.said is None for held in node.watching.held.values()
    )


def show_reply(node: TreeState, session: Session, source: Source, said: Reply) -> bool:
    """Show a reply to those who watch; return whether it waits for one of them.

    A grant never waits: routes already lead where it goes.
    """
    watching = _watching(node, session)
    is_shown = said.kind in (ReplyKind.DATA, ReplyKind.NULL) and said.grant is None
    if not (watching and is_shown):
        return False
    session.is_held = show(node, WatchedMessage(session, watching, node.now_ms, said, source))
    return session.is_held


def show(node: TreeState, held: WatchedMessage) -> bool:
    """Go on along those who watch; return whether one of them keeps it."""
    while held.watching:
        one = held.watching.pop(0)
        if node.watching.watchers.get(_key(one)) != one:
            continue  # it has ended since this came
        holds = one.holds and len(node.watching.held) < HELD_MAX and _has_room(node, held.size)
        token = node.ids.fresh() if holds else NO_MESSAGE
        held.wanted = one
        node.tell(_shown(node, held, one.app, token))
        if holds:
            node.watching.held[token] = held
            node.watching.held_bytes += held.size
            return True
    return False


def word(node: TreeState, said: Resumed) -> WatchedMessage | None:
    """Take an application's word; return what it is about, None if nothing waits for it."""
    held = node.watching.held.get(said.token)
    if held is None or held.wanted is None or held.wanted.app != said.app:
        text = "nothing waits for this application's word under this token"
        node.tell(Refused(said.app, f"{said.token:032x}", "UNKNOWN_TOKEN", text))
        return None
    if said.payload is not None and held.said is not None and len(held.said.items) != 1:
        text = "only a message or a reply of one answer can be changed: resume it as it is"
        node.tell(Refused(said.app, f"{said.token:032x}", "CANNOT_CHANGE", text))
        return None
    _take(node, said.token)
    if held.session.is_closed:
        return None
    if said.payload is None:
        return held
    if held.said is None:
        held.session.payload = said.payload
    else:
        held.said = replace(held.said, items=(said.payload,))
    return held


def expire_held(node: TreeState) -> list[WatchedMessage]:
    """Forget what waits for a session that has ended; return what has waited for too long."""
    old = []
    for token, held in list(node.watching.held.items()):
        is_old = node.now_ms - held.began_ms >= node.settings.record_ms
        if held.session.is_closed or is_old:
            _take(node, token)
        if is_old and not held.session.is_closed:
            node.count("held for too long")
            old.append(held)
    return old


def _has_room(node: TreeState, size: int) -> bool:
    return node.watching.held_bytes + size <= HELD_BYTES_MAX


def _take(node: TreeState, token: MessageId) -> WatchedMessage:
    held = node.watching.held.pop(token)
    node.watching.held_bytes -= held.size
    return held


def _watching(node: TreeState, session: Session) -> list[SnoopWanted]:
    """Return who is shown this, each application once: by a watch that holds, if it has one."""
    is_own = session.protocol.startswith(OWN) or session.address.tree in SILENT
    if not node.watching.watchers or is_own:
        return []
    found: dict[str, SnoopWanted] = {}
    for one in node.watching.watchers.values():
        is_meant = one.tree in (None, session.address.tree)
        if is_meant and one.protocol in ("", session.protocol):
            known = found.get(one.app)
            found[one.app] = known if known is not None and known.holds else one
    return list(found.values())


def _key(one: SnoopWanted | SnoopEnded) -> tuple[str, TreeId | None, str]:
    return one.app, one.tree, one.protocol


def _release(node: TreeState, *ended: SnoopWanted | None) -> list[WatchedMessage]:
    tokens = [token for token, held in node.watching.held.items() if held.wanted in ended]
    released = [_take(node, token) for token in tokens]
    return [held for held in released if not held.session.is_closed]


def _shown(node: TreeState, held: WatchedMessage, app: str, token: MessageId) -> Snooped:
    session, said = held.session, held.said
    came_by = session.came_by or ""
    shown = Snooped(
        app, token, session.mid, session.address, session.iid, session.protocol,
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
