"""How far others may take a node's clock: all clocks of a mesh follow the highest, and they end.

One record with a number near the end would have nobody choose another colour ever again, and
neighbours refuse each other's frames. So a clock that is far ahead is a leap, and leaps have a
limit: nodes that were apart for long may be millions apart, and nobody comes from there to the end.
Spec: tree_layer 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.tree_frames import (
    Body,
    Bulk,
    ColourSpread,
    Heal,
    HealNotice,
    Hello,
    Publish,
    RecoveryAnswer,
    Reply,
    Trees,
)
from mesh.model.trees import clock_of
from mesh.trees.node import Node

STEP = 1 << 16
"""How far ahead is still no leap: an application may name an instance that far ahead."""

CREDIT = 1 << 26
"""How far leaps together may take the clock of a node that knows somebody."""

PER_S = 100
"""How much of `CREDIT` comes back in a second; it divides 1,000, so each takes whole ms."""

SEQ_END = 1 << 40
"""No instance comes so far. Whoever takes one over counts on from its seq, and what is beyond the
end of all seqs is read by nobody."""


def is_believed(node: Node, body: Body) -> bool:
    """Return whether what a frame says of clocks can be; the node's own follows a leap at once."""
    if isinstance(body, Reply) and body.grant is not None and body.grant.seq >= SEQ_END:
        return False
    return all(_spend_credit(node, clock) for clock in _clocks(body))


def know_somebody(node: Node) -> None:
    """End the time in which a node knows nothing of how far the mesh has come."""
    node.credit = min(node.credit, CREDIT)


def _spend_credit(node: Node, clock: int) -> bool:
    ahead = clock - node.clock
    if ahead <= STEP:
        return True
    _give_back(node)
    if ahead > node.credit:
        return False
    node.credit -= ahead
    node.clock = clock
    return True


def _give_back(node: Node) -> None:
    """Give back what time has brought; a part of a step counts towards the next one."""
    if node.credit >= CREDIT:
        node.credited_ms = node.now_ms
        return
    back = (node.now_ms - node.credited_ms) * PER_S // 1000
    node.credit = min(CREDIT, node.credit + back)
    node.credited_ms += back * 1000 // PER_S


def _clocks(body: Body) -> Iterator[int]:
    match body:
        case Publish() | RecoveryAnswer():
            yield clock_of(body.iid)
        case Bulk():
            yield from (clock_of(one.iid) for one in body.publishes)
        case Hello():
            colours = (body.colour, body.realm_colour)
            yield from (body.clock, *(one.clock for one in colours if one is not None))
        case ColourSpread() | Heal() | HealNotice():
            yield body.colour.clock
        case Trees():
            yield 0 if body.colour is None else body.colour.clock
            yield from (clock_of(one.iid) for role in body.roles for one in role.instances)
        case Reply(grant=grant) if grant is not None:
            yield clock_of(grant.iid)
        case _:
            pass
