"""Whether every hop has passed a message: what makes late messages missing ones. Spec: K30.

A ticket follows the messages of one source up to a bound: from the position of the node that
reads the source to the frames that came of it, and on from there. A hop whose reader stands still
keeps the ticket open for ever: time alone never makes a loss.

A node has passed when it says so and the auditor has read all that the node had written by then:
its positions and its copies become visible one after another, and are read in any order. What the
nodes further on have passed is looked at from the beginning, and not when their turn comes: so
all of a way is through with the batch that tells that its first hop is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mesh.model.facts import Accepted, Fact, Gap, Held, SourceAt
from mesh.model.frames import SourcePartition, position_in_chain
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.names import Names
from streaming.audits.turns import Turns
from streaming.tables.rows import FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import place_of

Ends = Callable[[str], Mapping[TopicPartition, int] | None]
"""Node -> ends of what it writes and its clients tell it, open transactions included; None where
nobody answers just now."""


Leads = Callable[[tuple[str, ...], str, str], bool]
"""Nodes before, a node, another node -> whether a message can still come from one to the other."""


class PositionKey(NamedTuple):
    """A source partition as one node reads it."""

    node: str
    place: TopicPartition


@dataclass(slots=True)
class Step:
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
    """

    node: str
    bound: int
    steps: list[Step] = field(default_factory=list)
    ahead: list[Step] = field(default_factory=list)
    is_done: bool = False

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
class Stop:
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
    """

    heads: Mapping[ChainKey, ChainHead]
    names: Names
    read: Mapping[TopicPartition, int]
    ends: Ends
    leads: Leads
    _unread: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    _shortened: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)

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


@dataclass(slots=True)
class Passing:
    """How far every node is with every source it reads.

    Attributes:
        prefix: Start of every topic name.
        positions: Next offset to read.
        of: Ids of the topics whose offsets these are.
        accepted: Chain -> last source offset that the receiver accepted.
        gaps: Chains that are broken for their receiver: it reads on, and accepts nothing.
        held: Targets that were left out, by the number of the last time: how far they are written,
            or less than 0. Two partitions tell of them, in any order. Spec: K20.
        generations: Of the offsets of a source, where that is not 0. Spec: K9.
        turns: What was told of generations, by the source's identity.
    """

    prefix: str
    positions: dict[PositionKey, int] = field(default_factory=dict)
    of: dict[PositionKey, str] = field(default_factory=dict)
    accepted: dict[ChainKey, int] = field(default_factory=dict)
    gaps: dict[ChainKey, None] = field(default_factory=dict)
    held: dict[ChainKey, tuple[int, int]] = field(default_factory=dict)
    generations: dict[TopicPartition, int] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)

    def read(self, node: str, fact: Fact) -> bool:
        """Take what a node keeps of itself; say whether it is news of a generation. Spec: K12."""
        place = TopicPartition(fact.at.topic, fact.at.partition)
        match fact:
            case SourceAt():
                source = SourceKey(fact.topic_id.hex(), place.partition)
                self.positions[PositionKey(node, place)] = fact.next
                self.of[PositionKey(node, place)] = source.topic_id
                if fact.generation > 0:
                    self.generations[place] = fact.generation
                    return self.turns.tell(source, fact.generation)
                self.generations.pop(place, None)  # of a topic that was recreated
            case Accepted():
                self.accepted[_chain(place, fact.source)] = fact.last
            case Gap():
                chain = _chain(place, fact.source)
                self.gaps.pop(chain, None)
                if fact.is_open:
                    self.gaps[chain] = None
            case Held():
                chain = _chain(place, fact.source)
                number, before = self.held.get(chain, (-1, 0))
                if fact.number > number or (fact.number == number and before >= 0):
                    self.held[chain] = (fact.number, fact.next)
            case _:
                pass
        return False

    def forget_recreated(self, place: TopicPartition, topic_id: str) -> None:
        """Forget how far nodes were with a topic that was recreated, with this id."""
        self.generations.pop(place, None)
        for key in [key for key in self.positions if key.place == place]:
            if self.of.get(key) != topic_id:
                del self.positions[key]

    def position(self, place: TopicPartition) -> int:
        """Return the next offset that the lane of an ingress partition reads."""
        origin = place_of(self.prefix, place.topic).node
        return self.positions.get(PositionKey(origin, place), 0)

    def open(self, place: TopicPartition, bound: int, node: str = EVERYONE) -> Ticket:
        """Return a ticket for the messages of an ingress partition up to an offset, to a node."""
        origin = place_of(self.prefix, place.topic).node
        return Ticket(node, bound, [Step(PositionKey(origin, place), bound + 1)])

    def advance(self, ticket: Ticket, sight: Sight) -> None:
        """Follow a ticket as far as the nodes have come."""
        remaining: list[Step] = []
        steps = list(ticket.steps)
        known = {step.reader: step for step in ticket.ahead}
        followed = {step.reader: None for step in steps}  # a loop has an end here
        for step in steps:
            if not self._has_settled(step, sight):
                remaining.append(step)
                continue
            steps.extend(self._onward(ticket, step, known, followed, sight))
        ticket.steps, ticket.is_done = remaining, not remaining
        ticket.ahead = self._ahead(ticket, known, followed, sight)

    def _ahead(
        self,
        ticket: Ticket,
        known: Mapping[PositionKey, Step],
        followed: dict[PositionKey, None],
        sight: Sight,
    ) -> list[Step]:
        """Return the hops after those that are open; of each is looked whether it has passed."""
        ahead: list[Step] = []
        ways = list(ticket.steps)
        for step in ways:
            onward = list(self._onward(ticket, step, known, followed, sight))
            ways.extend(onward)
            ahead.extend(onward)
        for step in ahead:
            self._has_settled(step, sight)
        return ahead

    def _onward(
        self,
        ticket: Ticket,
        step: Step,
        known: Mapping[PositionKey, Step],
        followed: dict[PositionKey, None],
        sight: Sight,
    ) -> Iterator[Step]:
        """Yield the hops that come next and are not followed yet, as they were seen first."""
        for found in self._next_steps(step, sight):
            if found.reader in followed or not _concerns(ticket, found, sight):
                continue
            followed[found.reader] = None
            seen = known.get(found.reader)
            yield found if seen is None else replace(seen, trail=found.trail)

    def _has_settled(self, step: Step, sight: Sight) -> bool:
        if not self._has_passed(step):
            return False
        if step.awaits is not None and _is_read(step.awaits, sight.read):
            step.awaits = {}
            return True
        ends = sight.ends(step.reader.node)
        if ends is None:
            return False
        if step.awaits is None:
            step.awaits = sight.unread(step.reader.node, ends)
        else:
            sight.shorten(step.awaits, ends)
        return not step.awaits

    def _has_passed(self, step: Step) -> bool:
        if self.positions.get(step.reader, 0) < step.target or self._holds(step.reader.node):
            return False
        if step.chain is None:
            return True
        chain = ChainKey(step.reader.place, step.chain)
        accepted = self.accepted.get(chain)
        is_accepted = accepted is None or accepted >= step.accepted or self._is_beyond(step)
        return chain not in self.gaps and is_accepted

    def _is_beyond(self, step: Step) -> bool:
        """Return whether frames speak of more than their sender has read: no repair brings that.

        So a stranger's frame does, or one that was moved there. The reader asks for what it lacks,
        gets all that there is, and accepts no more than that for ever.
        """
        if step.sender is None:
            return False
        generation = self.generations.get(step.sender.place, 0)
        offset = self.positions.get(step.sender, 0)
        return step.accepted >= position_in_chain(generation, offset)

    def _holds(self, node: str) -> TopicPartition | None:
        """Return a target that a node cannot write just now, if there is one. Spec: K20."""
        for held, (_, offset) in self.held.items():
            if offset >= 0 and place_of(self.prefix, held.outbox.topic).node == node:
                return held.outbox
        return None

    def _next_steps(self, step: Step, sight: Sight) -> Iterator[Step]:
        place = step.reader.place
        for chain, head in sight.heads.items():
            outbox = place_of(self.prefix, chain.outbox.topic)
            # Of a topic that was recreated there may still be something on its way.
            if sight.names.place(chain.source) == place and outbox.node == step.reader.node:
                yield Step(
                    PositionKey(outbox.other, chain.outbox),
                    head.offset + 1,
                    accepted=head.last,
                    chain=chain.source,
                    sender=step.reader,
                    trail=(*step.trail, step.reader.node),
                )

    def stops(
        self, ticket: Ticket, read: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[str, Stop]]:
        """Yield the hops that a ticket waits for, each with how it stands.

        Args:
            ticket: The ticket.
            read: Next offset that the auditor reads of every topic partition.
        """
        for step in ticket.steps:
            if not self._has_passed(step):
                yield _hop(step), Stop(step.reader.node, self._reason(step, read))

    def _reason(self, step: Step, read: Mapping[TopicPartition, int]) -> str:
        hop = _hop(step)
        position = self.positions.get(step.reader, 0)
        if position < step.target:
            return f"{hop}: read up to {position} of {step.target}"
        if (held := self._holds(step.reader.node)) is not None:
            return f"{hop}: holds what is for {held}"
        if not self._has_passed(step):
            return f"{hop}: has not accepted all up to {step.accepted}, a gap is repaired"
        awaits = step.awaits or {}
        late = min((one for one, end in awaits.items() if read.get(one, 0) < end), default=None)
        if late is not None:
            told = f"{late} up to {read.get(late, 0)} of {awaits[late]}"
            return f"what {step.reader.node} wrote to be read: {told}"
        return f"the Kafka cluster of {step.reader.node} to answer"

    def where(self, ticket: Ticket, read: Mapping[TopicPartition, int]) -> str:
        """Return what a ticket waits for first, for people."""
        return next((self._reason(step, read) for step in ticket.steps), "nothing")


def _chain(outbox: TopicPartition, source: SourcePartition) -> ChainKey:
    return ChainKey(outbox, SourceKey(source.topic_id.hex(), source.partition))


def _concerns(ticket: Ticket, step: Step, sight: Sight) -> bool:
    is_any = ticket.node == EVERYONE
    return is_any or sight.leads(step.trail, step.reader.node, ticket.node)


def _hop(step: Step) -> str:
    return f"{step.reader.node} at {step.reader.place}"


def _is_read(awaits: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int]) -> bool:
    return all(read.get(place, 0) >= end for place, end in awaits.items())
