"""Link sessions: HELLO both ways, numbered frames, PING; what is old, double or behind a gap.

Kafka keeps frames for a while, so that old ones are a hazard which sockets do not have:
a frame counts only in the session that both ends have agreed on, and in order.
Spec: tree_layer 2, 12; H11.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mesh.model.tree_frames import Body, Bye, Frame, Hello, Ping, Pong
from mesh.trees.hop_times import ask_hop, hear_hop
from mesh.trees.inputs import MeshFollowed
from mesh.trees.node import MADE_UP, RESERVED, TOO_FAR, TreeLink, TreeState

_EPOCH_SHIFT = 32

FROM_ONESELF = "HELLO from oneself"
CONTRADICTS = "HELLO that contradicts itself"
OF_ANOTHER = "HELLO with the uuid of another peer"
TO_COME = "clocks of a time to come"
TWO_WRITERS = "frames of one number that differ"

REFUSED = (
    FROM_ONESELF,
    CONTRADICTS,
    OF_ANOTHER,
    TOO_FAR,
    RESERVED,
    TO_COME,
    MADE_UP,
    TWO_WRITERS,
)
"""Why frames were dropped that no neighbour of a link can have meant; all else is only late."""

EPOCHS = 1 << 16
"""More incarnations than a peer can have had since it was last heard."""

SELDOM = 10
"""The end of a link that is tried by the other asks itself each so many times."""

PATIENCE = 10
"""After so many HELLOs without a word of its newest session a peer may begin with an older one, and
another link with its uuid: what a stranger made up would keep the peer out for ever."""


@dataclass(frozen=True, slots=True)
class FrameMeaning:
    """What reading a frame means.

    Attributes:
        is_lost: The link was up until now.
        gained: The HELLO by which it is up now.
        body: To be acted on, after the two.
    """

    is_lost: bool = False
    gained: Hello | None = None
    body: Body | None = None


NOTHING = FrameMeaning()


def follow_mesh(node: TreeState, mesh: MeshFollowed) -> None:
    """Let frames cross as many links as the mesh has nodes, and try links as it says from now on.

    What was heard at a slower pace is not too long ago by the new one.
    """
    former = node.settings
    hops_max = max(former.hops_max, mesh.nodes)
    ping_ms, pings_missed_max = mesh.ping_ms, mesh.pings_missed_max
    node.settings = replace(
        former, hops_max=hops_max, ping_ms=ping_ms, pings_missed_max=pings_missed_max
    )
    if (former.ping_ms, former.pings_missed_max) == (ping_ms, pings_missed_max):
        return
    for end in node.links.values():
        end.heard_ms = max(end.heard_ms, node.now_ms)
        end.ping_ms = min(end.ping_ms, node.now_ms + ping_ms)


def excuse(node: TreeState, links: Iterable[str], until_ms: int) -> None:
    """Do not consider these links down before then, though nothing is heard of them."""
    silent_ms = node.settings.ping_ms * node.settings.pings_missed_max
    for end in (node.links[link] for link in links if link in node.links):
        end.heard_ms = max(end.heard_ms, until_ms - silent_ms)


def open_link(node: TreeState, link: str) -> None:
    """Begin to speak with a neighbour."""
    if link in node.links:
        return
    node.links[link] = TreeLink(link, _next_session(node))
    say_hello(node, node.links[link])


def close_link(node: TreeState, link: str) -> bool:
    """Stop speaking with a neighbour; return whether the link was up."""
    end = node.links.get(link)
    if end is None:
        return False
    was_up = end.is_up
    if was_up:
        node.transmit(link, Bye())
    del node.links[link]
    return was_up


def read_frame(node: TreeState, link: str, frame: Frame) -> FrameMeaning:
    """Put a frame in its place: act on it, drop it, or find the link down."""
    end = node.links.get(link)
    if end is None:
        return _dropped(node, "frames of closed links")
    if isinstance(frame.body, Hello):
        return _hear_hello(node, end, frame, frame.body)
    if frame.session != end.theirs or not end.is_up:
        return _dropped(node, "frames of older sessions")
    if (fault := _out_of_turn(node, end, frame)) is not None:
        return fault
    end.read, end.last, end.heard_ms = frame.number, frame, node.now_ms
    if isinstance(frame.body, Bye):
        return FrameMeaning(is_lost=restart(node, end))
    if isinstance(frame.body, Ping):
        node.transmit(link, Pong(frame.body.sent_ms))
    elif isinstance(frame.body, Pong):
        hear_hop(node, end, frame.body)
    elif not node.clock.believes(frame.body, node.now_ms):
        return _dropped(node, TO_COME)
    return FrameMeaning(body=frame.body)


def _out_of_turn(node: TreeState, end: TreeLink, frame: Frame) -> FrameMeaning | None:
    """Return what a frame means that is not the next of its session; None if it is.

    Of two that have one number and differ a stranger wrote the first: what the peer says under it
    is lost, as behind a gap.
    """
    if frame.number == end.read + 1:
        return None
    if frame.number < end.read or frame == end.last:
        return _dropped(node, "frames read twice")
    node.count(TWO_WRITERS if frame.number == end.read else "gaps")
    return FrameMeaning(is_lost=restart(node, end))


def restart(node: TreeState, end: TreeLink) -> bool:
    """Begin a new session on a link, so that the peer notices; return whether it was up.

    The caller then draws the consequences, and says HELLO with the colour that follows from them.
    """
    was_up, end.is_up = end.is_up, False
    end.mine, end.sent = _next_session(node), 0
    end.named, end.heals_told = {}, {}
    end.pings.clear()
    return was_up


def tick_links(node: TreeState) -> list[str]:
    """Repeat HELLO, send PING; return the links that were silent for too long.

    Where one link is tried all are that would be soon: a worker that is woken once for all of them
    takes less of a processor than one that is woken for each.
    """
    silent = []
    most_ms = node.settings.ping_ms * node.settings.pings_missed_max
    is_due = any(end.is_up and node.now_ms >= end.ping_ms for end in node.links.values())
    soon_ms = node.now_ms + node.settings.ping_ms // 2 if is_due else node.now_ms
    for link, end in node.links.items():
        if not end.is_up:
            if node.now_ms - end.heard_ms > node.settings.hello_ms * PATIENCE:
                end.theirs, end.uuid = 0, ""
            if node.now_ms >= end.hello_ms:
                say_hello(node, end)
        elif most_ms and node.now_ms - end.heard_ms > most_ms:
            silent.append(link)
        elif node.settings.ping_ms and soon_ms >= end.ping_ms:
            end.ping_ms = node.now_ms + node.settings.ping_ms
            if not _is_tried(node, end):
                end.asked_ms = node.now_ms
                node.transmit(link, ask_hop(node, end))
    return silent


def _is_tried(node: TreeState, end: TreeLink) -> bool:
    """Return whether the peer tries the link for both: of two ends the one whose name is lower.

    The other one hears it by that, and asks now and then, for what a hop takes.
    """
    every_ms = node.settings.ping_ms
    hears = node.now_ms - end.heard_ms < 2 * every_ms
    knows = bool(end.hop_ms) and node.now_ms - end.asked_ms < SELDOM * every_ms
    return node.name > end.peer and hears and knows


def _hear_hello(node: TreeState, end: TreeLink, frame: Frame, hello: Hello) -> FrameMeaning:
    """Take the word by which a peer begins or goes on; it is dropped where it cannot be the peer's.

    A newer session than before means that the peer has begun again: what was known of it is lost.
    """
    if hello.uuid == node.uuid:
        return _dropped(node, FROM_ONESELF)
    if _epoch(frame.session) != hello.epoch:
        return _dropped(node, CONTRADICTS)
    twin = [one for one in node.links.values() if one.uuid == hello.uuid and one is not end]
    if twin:
        return _dropped(node, OF_ANOTHER)
    is_same_node = end.uuid in ("", hello.uuid)
    if is_same_node and frame.session < end.theirs:
        return _dropped(node, "frames of older sessions")
    is_leap = is_same_node and end.theirs and hello.epoch - _epoch(end.theirs) > EPOCHS
    if is_leap or not node.clock.believes(hello, node.now_ms):
        return _dropped(node, TO_COME)
    is_new = not is_same_node or frame.session != end.theirs
    if not is_new and end.is_up and (fault := _out_of_turn(node, end, frame)) is not None:
        return fault
    was_up = end.is_up
    end.uuid, end.realm = hello.uuid, hello.realm
    end.theirs, end.heard_ms = frame.session, node.now_ms
    end.read, end.last = frame.number, frame
    if is_new and was_up:
        restart(node, end)
    elif is_new or hello.heard != end.mine:
        say_hello(node, end)
    if end.is_up:
        return FrameMeaning(body=hello)
    if hello.heard != end.mine:
        return FrameMeaning(is_lost=is_new and was_up)
    end.is_up = True
    end.ping_ms = node.now_ms + node.settings.ping_ms
    return FrameMeaning(gained=hello)


def say_hello(node: TreeState, end: TreeLink) -> None:
    """Tell the peer who this is and what was heard of it."""
    end.hello_ms = node.now_ms + node.settings.hello_ms
    colours = (node.colour, node.realm_colour)
    hello = Hello(node.uuid, node.epoch, end.theirs, node.realm, *colours, node.clock.value)
    node.transmit(end.peer, hello)


def _next_session(node: TreeState) -> int:
    node.links_begun += 1
    return node.epoch << _EPOCH_SHIFT | node.links_begun


def _epoch(session: int) -> int:
    return session >> _EPOCH_SHIFT


def _dropped(node: TreeState, why: str) -> FrameMeaning:
    node.count(why)
    return NOTHING
