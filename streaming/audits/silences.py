"""Links that ought to carry and do not: both ends live, frames wait, and nothing moves over them.

A cut that leaves the mesh in one part is no split, and what waits there may be owed to nobody.
Spec: K24, K32.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.audits.accounts import OutboxAccounts
from streaming.audits.chains import Chains
from streaming.audits.hop_progress import HopProgress
from streaming.audits.splits import PairKey, Splits
from streaming.audits.tickets import PositionKey, Standstill
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of


def silent(
    splits: Splits, progress: HopProgress, chains: Chains, accounts: OutboxAccounts, now_s: float
) -> Mapping[str, Standstill]:
    """Return how the links stand on which frames wait, by direction: `tk1->ny1`.

    Those that somebody has shut, or that a dead node reads or writes, are expected to stand still.

    Args:
        splits: Who beats, and has read of whom.
        progress: How far nodes have read.
        chains: How far guaranteed outboxes go.
        accounts: How far direct ones do.
        now_s: The auditor's clock, in seconds.
    """
    ends: dict[TopicPartition, int] = {}
    for chain, head in chains.heads.items():
        ends[chain.outbox] = max(ends.get(chain.outbox, 0), head.offset + 1)
    ends.update({place: account.sent.offset for place, account in accounts.open.items()})
    linked = dict.fromkeys(splits.links)
    waiting: dict[PairKey, dict[TopicPartition, int]] = {}
    for place, end in sorted(ends.items()):
        outbox = place_of(progress.prefix, place.topic)
        sender, receiver = outbox.node, outbox.other
        position = progress.positions.get(PositionKey(receiver, place), 0)
        ways = (PairKey(receiver, sender), PairKey(sender, receiver))
        if position < end and not any(way in splits.shut for way in ways):
            is_linked = (sender, receiver) in linked or (receiver, sender) in linked
            if is_linked and all(splits.is_heard(one, now_s) for one in (sender, receiver)):
                waiting.setdefault(ways[0], {})[place] = position
    return {
        f"{pair.neighbour}->{pair.reader}": _stop(pair, splits, at) for pair, at in waiting.items()
    }


def _stop(pair: PairKey, splits: Splits, positions: Mapping[TopicPartition, int]) -> Standstill:
    epoch, beat = splits.read.get(pair, (-1, -1))
    told = ", ".join(f"{place} up to {position}" for place, position in positions.items())
    heard = f"heartbeat {epoch}/{beat}" if beat >= 0 else "no heartbeat"
    return Standstill(
        pair.reader, f"{pair.reader} has read {heard} of {pair.neighbour}, and {told}"
    )
