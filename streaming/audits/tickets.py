"""Tickets follow late messages from hop to hop: from their source to wherever they can come.

A ticket follows the messages of one source up to a bound: from the position of the node that
reads the source to the frames that came of it, and on from there. A hop whose reader stands still
keeps the ticket open for ever: time alone never makes a loss. Spec: K30.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.names import Names
from streaming.tables.rows import FrameRow, SourceKey, TopicPartition

Ends = Callable[[str], Mapping[TopicPartition, int] | None]
"""Node -> ends of what it writes and its clients tell it, open transactions included; None where
nobody answers just now."""


Leads = Callable[[tuple[str, ...], str, str], bool]
"""Nodes before, a node, another node -> whether a message can still come from one to the other."""

IsLeft = Callable[[TopicPartition, str], bool]
"""An outbox partition, and the node whose endpoints are late (or `EVERYONE`) -> whether nobody will
read on there that counts for these."""


class PositionKey(NamedTuple):
    """A source partition as one node reads it."""

    node: str
    place: TopicPartition


@dataclass(slots=True)
class AwaitedHop:
    """One hop that must pass.

    Attributes:
        reader: Which node reads which partition.
        target: Position it must reach.
        accepted: For an outbox: the last offset of the sender's source that it must accept.
        chain: For an outbox: that source.
        sender: For an outbox: its sender as the reader of that source.
        awaits: Ends of what its node had written when it was seen to have passed, and that nobody
            has read yet; None before. Steps that were seen together share one list of them.
        trail: Nodes that have passed before, on this way.
    """

    reader: PositionKey
    target: int
    accepted: int = -1
    chain: SourceKey | None = None
    sender: PositionKey | None = None
    awaits: dict[TopicPartition, int] | None = None
    trail: tuple[str, ...] = ()


EVERYONE = "*"
"""Stands for all nodes in a ticket: for queues whose members are at several."""


@dataclass(slots=True)
class Ticket:
    """The way of one source's messages up to a bound, as far as it can lead to a node.

    Attributes:
        node: Whose endpoints are late, or `EVERYONE`.
        bound: Last source offset that is followed.
        steps: Hops that are still open.
        ahead: Hops that come after these, by the frames that are known.
        is_done: Whether every hop that can lead there has passed.
        alone: Name of the one endpoint that it is followed for, since a hop holds that; empty: for
            all that are not held. Names are casefolded, for queues have members at several nodes.
        left_out: Names of those that a hop held when it had passed: to them it is not through.
    """

    node: str
    bound: int
    steps: list[AwaitedHop] = field(default_factory=list)
    ahead: list[AwaitedHop] = field(default_factory=list)
    is_done: bool = False
    alone: str = ""
    left_out: dict[str, None] = field(default_factory=dict)

    def carry(self, row: FrameRow) -> None:
        """Take frames of the source that come later: hops ahead must pass those of messages of old.

        Others need not be passed, else a busy stream would never be judged.
        """
        if row.first > self.bound:
            return
        for step in self.ahead:
            if step.reader.place == row.place:
                step.target = max(step.target, row.tail.offset + 1)
                step.accepted = max(step.accepted, row.tail.last)
                step.awaits = None


@dataclass(frozen=True, slots=True)
class Standstill:
    """A hop that waits.

    Attributes:
        node: Who shall pass something on.
        reason: What it waits for and how far it is: as long as that is the same, it stands still.
    """

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What the auditor has seen when it follows tickets.

    Attributes:
        heads: How far every chain goes.
        names: Names for topic ids.
        read: Next offset to read of every topic partition.
        ends: Where they end now.
        leads: Whether from a node, by way of others than those before, a third can be reached.
        is_left: Whether the link of an outbox partition was removed.
        forgotten: Outbox partition -> offset up to which it may hold frames of any source.
    """

    heads: Mapping[ChainKey, ChainHead]
    names: Names
    read: Mapping[TopicPartition, int]
    ends: Ends
    leads: Leads
    is_left: IsLeft = lambda *_: False
    forgotten: Mapping[TopicPartition, int] = field(default_factory=dict)
    _left: dict[tuple[TopicPartition, str], bool] = field(default_factory=dict)
    _unread: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    _shortened: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)

    def has_left(self, outbox: TopicPartition, node: str) -> bool:
        """Return whether nobody reads on in an outbox that counts for a node's endpoints."""
        key = outbox, node
        if key not in self._left:
            self._left[key] = self.is_left(*key)
        return self._left[key]

    def unread(self, node: str, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return those ends of what a node writes up to which has not been read yet.

        They are found once, and one list is awaited by all steps at the node that have passed by
        now: tickets are many, and so are the partitions of many endpoints.
        """
        if (found := self._unread.get(node)) is None:
            read = self.read
            found = {place: end for place, end in ends.items() if read.get(place, 0) < end}
            self._unread[node] = self._shortened[id(found)] = found
        return found

    def shorten(
        self, awaits: dict[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Leave out of such a list what has been read since, once for all steps that await it.

        What was deleted since then, or recreated, is not waited for.
        """
        if id(awaits) in self._shortened:
            return
        self._shortened[id(awaits)] = awaits  # kept as well, so that no other has its number
        read = self.read
        left = {
            place: end
            for place, known in awaits.items()
            if read.get(place, 0) < (end := min(known, ends.get(place, 0)))
        }
        awaits.clear()
        awaits.update(left)
