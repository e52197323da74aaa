"""What happens to a message or reply that was held: it goes on, or is taken out.

Spec: tree_layer 6.8 (H12).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mesh.model.tree_apps import Resumed, SnoopEnded, SnoopWanted
from mesh.model.tree_frames import ReplyKind
from mesh.trees.node import TreeState
from mesh.trees.records import WatchedMessage
from mesh.trees.replying import take_replies
from mesh.trees.sending import forward
from mesh.trees.settling import settle
from mesh.trees.snooping import expire_held, show, stop_watching, unwatch, watch, word


def take_word(node: TreeState, said: Resumed) -> None:
    """Let something go on, changed or not, or end here."""
    held = word(node, said)
    if held is None:
        return
    if said.is_consumed:
        consume(node, held)
    else:
        _go_on(node, held)


def begin_watch(node: TreeState, wanted: SnoopWanted) -> None:
    """Show from now on; what waited goes on if this holds nothing any more."""
    _all_go_on(node, watch(node, wanted))


def end_watch(node: TreeState, ended: SnoopEnded) -> None:
    """Stop showing; what waited goes on."""
    _all_go_on(node, unwatch(node, ended))


def lose_watcher(node: TreeState, app: str) -> None:
    """An application that watched is gone; what waited for it goes on."""
    _all_go_on(node, stop_watching(node, app))


def sweep_held(node: TreeState) -> None:
    """Take out what has waited for longer than anything should."""
    for held in expire_held(node):
        consume(node, held)


def consume(node: TreeState, held: WatchedMessage) -> None:
    """Take something out, and settle what waits for it."""
    session, said = held.session, held.said
    if said is None:
        session.has_end = True
        settle(node, session)
        return
    if said.is_last:
        session.behind.appendleft(
            (held.source, replace(said, kind=ReplyKind.END, items=(), cause=None))
        )
    take_replies(node, session, None)


def _all_go_on(node: TreeState, several: Iterable[WatchedMessage]) -> None:
    for held in several:
        if not held.session.is_closed:
            _go_on(node, held)


def _go_on(node: TreeState, held: WatchedMessage) -> None:
    if show(node, held):
        return
    if held.said is None:
        forward(node, held.session)
    else:
        take_replies(node, held.session, (held.source, held.said))
