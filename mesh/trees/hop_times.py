"""What a hop takes: measured by PING over own links, told of others by the echoes of recoveries.

A recovery waits for a multiple of the slowest hop that it may cross, and most of them are links of
others. Echoes tell how slow what lies behind them is: each node hands on the most of what it was
told and of its own, so nothing goes in circles. Who says more than a link may take and still be up
is not followed. Spec: tree_layer 5.10.
"""

from __future__ import annotations

from mesh.model.tree_frames import Ping, Pong
from mesh.trees.node import TreeLink, TreeState

OLD = 0.9
"""Weight of what was known before the last one."""


def ask_hop(node: TreeState, end: TreeLink) -> Ping:
    """Return a question that the peer answers at once; of many without an answer the last count."""
    end.pings[node.now_ms] = None
    if len(end.pings) > node.settings.pings_missed_max:
        del end.pings[next(iter(end.pings))]
    return Ping(node.now_ms)


def hear_hop(node: TreeState, end: TreeLink, said: Pong) -> None:
    """Average what a hop takes; an answer to what was not asked says nothing."""
    if said.sent_ms not in end.pings:
        node.count("answers to nothing")
        return
    end.pings = {sent_ms: None for sent_ms in end.pings if sent_ms > said.sent_ms}
    end.hop_ms = _averaged(end.hop_ms, (node.now_ms - said.sent_ms) / 2)


def slowest_own(node: TreeState) -> int:
    """Return what the slowest of the node's own links takes, 0 while that is not known."""
    return round(max((end.hop_ms for end in node.links.values()), default=0.0))


def believable(node: TreeState, told_ms: int) -> int:
    """Return what others say of their links, as far as it can be."""
    return min(told_ms, node.settings.ping_ms * node.settings.pings_missed_max)


def hear_of_far(node: TreeState, told_ms: int) -> None:
    """Record the slowest hop further on; a faster one counts gradually, 0 says nothing."""
    if told_ms:
        node.far_hop_ms = max(_averaged(node.far_hop_ms, told_ms), told_ms)


def expected_hop(node: TreeState) -> int:
    """Return what one hop of a recovery is expected to take, in ms."""
    return max(node.settings.hop_ms, slowest_own(node), round(node.far_hop_ms))


def _averaged(known: float, last: float) -> float:
    return OLD * known + (1 - OLD) * last if known else last
