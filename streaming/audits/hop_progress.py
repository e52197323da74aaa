"""Whether every hop has passed a message: what makes late messages missing ones. Spec: K30.

A node has passed when it says so and the auditor has read all that the node had written by then:
its positions and its copies become visible one after another, and are read in any order. What the
nodes further on have passed is looked at from the beginning, and not when their turn comes: so
all of a way is through with the batch that tells that its first hop is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from mesh.model.facts import (
    Accepted,
    EpochRaised,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
)
from mesh.model.frames import SourcePartition, position_in_chain
from streaming.audits.chains import ChainKey
from streaming.audits.generations import Generations
from streaming.audits.holds import OpenHolds
from streaming.audits.tickets import EVERYONE, AwaitedHop, PositionKey, Sight, Standstill, Ticket
from streaming.tables.rows import SourceKey, TopicPartition
from streaming.tables.topics import ENDPOINT, place_of


@dataclass(slots=True)
class HopProgress:
    """How far every node is with every source it reads.

    Attributes:
        prefix: Start of every topic name.
        holds: Targets that are left out.
        positions: Next offset to read.
        of: Ids of the topics whose offsets these are.
        accepted: Chain -> last source offset that the receiver accepted.
        gaps: Chains that are broken for their receiver: it reads on, and accepts nothing.
        generation_of: Source -> generation of its offsets, where that is not 0. Spec: K9.
        generations: What was told of them, by the source's identity.
    """

    prefix: str
    holds: OpenHolds
    positions: dict[PositionKey, int] = field(default_factory=dict)
    of: dict[PositionKey, str] = field(default_factory=dict)
    accepted: dict[ChainKey, int] = field(default_factory=dict)
    gaps: dict[ChainKey, None] = field(default_factory=dict)
    generation_of: dict[TopicPartition, int] = field(default_factory=dict)
    generations: Generations = field(default_factory=Generations)

    def read(self, node: str, fact: Fact, *, is_beside: bool = False) -> bool:
        """Take what a node keeps of itself; say whether it is news of a generation. Spec: K12.

        Args:
            node: The node.
            fact: What it keeps.
            is_beside: Whether a catch-up says so, beside the lane.
        """
        place = TopicPartition(fact.at.topic, fact.at.partition)
        match fact:
            case SourceAt():
                source = SourceKey(fact.topic_id.hex(), place.partition)
                self.positions[PositionKey(node, place)] = fact.next
                self.of[PositionKey(node, place)] = source.topic_id
                if fact.generation > 0:
                    self.generation_of[place] = fact.generation
                    return self.generations.tell(source, fact.generation)
                self.generation_of.pop(place, None)  # of a topic that was recreated
            case Accepted():
                self.accepted[_chain(place, fact.source)] = fact.last
            case Gap():
                chain = _chain(place, fact.source)
                self.gaps.pop(chain, None)
                if fact.is_open:
                    self.gaps[chain] = None
            case Held() if not is_beside:
                self.holds.take(_chain(place, fact.source), is_over=fact.is_over)
            case (
                EpochRaised()
                | InterestInForce()
                | Halted()
                | ErasBegun()
                | Truncations()
                | PartlyTaken()
                | Sent()
                | Held()
            ):
                pass  # none of them says how far a hop has come
            case _:
                assert_never(fact)
        return False

    def forget_recreated(self, place: TopicPartition, topic_id: str) -> None:
        """Forget how far nodes were with a topic that was recreated, with this id."""
        self.generation_of.pop(place, None)
        for key in [key for key in self.positions if key.place == place]:
            if self.of.get(key) != topic_id:
                del self.positions[key]

    def position(self, place: TopicPartition) -> int:
        """Return the next offset that the lane of an ingress partition reads."""
        origin = place_of(self.prefix, place.topic).node
        return self.positions.get(PositionKey(origin, place), 0)

    def open(
        self, place: TopicPartition, bound: int, node: str = EVERYONE, endpoint: str = ""
    ) -> Ticket:
        """Return a ticket for the messages of an ingress partition up to an offset, to a node.

        Args:
            place: The ingress partition.
            bound: The offset.
            node: The node, or all of them.
            endpoint: Casefolded name of the endpoint that is late there: one that is held has a
                ticket for itself.
        """
        origin = place_of(self.prefix, place.topic).node
        alone = endpoint if endpoint in self.holds.endpoints(node) else ""
        return Ticket(node, bound, [AwaitedHop(PositionKey(origin, place), bound + 1)], alone=alone)

    def advance(self, ticket: Ticket, sight: Sight) -> None:
        """Advance a ticket past all hops that nodes have passed by now."""
        remaining: list[AwaitedHop] = []
        steps = list(ticket.steps)
        known = {step.reader: step for step in ticket.ahead}
        followed = {step.reader: None for step in steps}  # a loop has an end here
        for step in steps:
            if not (self._settle(ticket, step, sight) or _is_left(ticket, step, sight)):
                remaining.append(step)
                continue
            self._leave_out_held(ticket, step.reader.node)
            steps.extend(self._onward(ticket, step, known, followed, sight))
        ticket.steps, ticket.is_done = remaining, not remaining
        ticket.ahead = self._ahead(ticket, known, followed, sight)

    def _ahead(
        self,
        ticket: Ticket,
        known: Mapping[PositionKey, AwaitedHop],
        followed: dict[PositionKey, None],
        sight: Sight,
    ) -> list[AwaitedHop]:
        """Return the hops after those that are open; of each is looked whether it has passed."""
        ahead: list[AwaitedHop] = []
        ways = list(ticket.steps)
        for step in ways:
            onward = list(self._onward(ticket, step, known, followed, sight))
            ways.extend(onward)
            ahead.extend(onward)
        for step in ahead:
            self._settle(ticket, step, sight)
        return ahead

    def _onward(
        self,
        ticket: Ticket,
        step: AwaitedHop,
        known: Mapping[PositionKey, AwaitedHop],
        followed: dict[PositionKey, None],
        sight: Sight,
    ) -> Iterator[AwaitedHop]:
        """Yield the next hops not followed yet, with targets from when each was first seen."""
        for found in self._next_steps(step, sight):
            if found.reader in followed or not _concerns(ticket, found, sight):
                continue
            followed[found.reader] = None
            seen = known.get(found.reader)
            yield found if seen is None else replace(seen, trail=found.trail)

    def _settle(self, ticket: Ticket, step: AwaitedHop, sight: Sight) -> bool:
        node = step.reader.node
        if not self._has_passed(ticket, step):
            step.awaits = None  # a catch-up writes on until it has
            return False
        if step.awaits is None or not self._is_read(ticket, step, sight):
            ends = sight.ends(node)
            if ends is None:
                return False
            if step.awaits is None:
                step.awaits = sight.unread(node, ends)
            else:
                sight.shorten(step.awaits, ends)
            if not self._is_read(ticket, step, sight):
                return False
        step.awaits = {}
        self._leave_out_held(ticket, node)
        return True

    def _leave_out_held(self, ticket: Ticket, node: str) -> None:
        """Note that a ticket is not through to the endpoints that a node holds as it passes."""
        if ticket.node in (node, EVERYONE):
            ticket.left_out.update(dict.fromkeys(self._others_held(ticket, node)))

    def _others_held(self, ticket: Ticket, node: str) -> Collection[str]:
        """Return the endpoints that a node holds and a ticket is not followed for."""
        return [one for one in self.holds.endpoints(node) if one != ticket.alone]

    def _unread(
        self, ticket: Ticket, step: AwaitedHop, read: Mapping[TopicPartition, int]
    ) -> Iterator[TopicPartition]:
        """Yield the partitions of which a ticket awaits more than has been read.

        What is written to endpoints that are held is awaited only by tickets of their own: it may
        be in a transaction that stays open for as long as they cannot be written. Mostly the first
        one decides: tickets are many, and so are the partitions of many endpoints.
        """
        held: Collection[str] | None = None
        for place, end in (step.awaits or {}).items():
            if read.get(place, 0) < end:
                if held is None:
                    held = self._others_held(ticket, step.reader.node)
                if not self._is_endpoint(place, held):
                    yield place

    def _is_read(self, ticket: Ticket, step: AwaitedHop, sight: Sight) -> bool:
        return next(self._unread(ticket, step, sight.read), None) is None

    def _is_endpoint(self, place: TopicPartition, names: Collection[str]) -> bool:
        if not names:
            return False
        topic = place_of(self.prefix, place.topic)
        return topic.kind == ENDPOINT and topic.other.casefold() in names

    def _has_passed(self, ticket: Ticket, step: AwaitedHop) -> bool:
        if self.positions.get(step.reader, 0) < step.target or self._held(ticket, step):
            return False
        if step.chain is None:
            return True
        chain = ChainKey(step.reader.place, step.chain)
        accepted = self.accepted.get(chain)
        is_accepted = accepted is None or accepted >= step.accepted or self._is_beyond(step)
        return chain not in self.gaps and is_accepted

    def _is_beyond(self, step: AwaitedHop) -> bool:
        """Return whether frames speak of more than their sender has read: no repair brings that.

        So a stranger's frame does, or one that was moved there. The reader asks for what it lacks,
        gets all that there is, and accepts no more than that for ever.
        """
        if step.sender is None:
            return False
        generation = self.generation_of.get(step.sender.place, 0)
        offset = self.positions.get(step.sender, 0)
        return step.accepted >= position_in_chain(generation, offset)

    def _held(self, ticket: Ticket, step: AwaitedHop) -> TopicPartition | None:
        """Return a target that a hop cannot write just now, if what is late may be in there.

        Endpoints of a node that only passes it on get nothing of it, and the lane has gone on for
        all that it does not hold.
        """
        node = step.reader.node
        return self.holds.before(node, ticket.alone if ticket.node in (node, EVERYONE) else "")

    def _next_steps(self, step: AwaitedHop, sight: Sight) -> Iterator[AwaitedHop]:
        place, trail = step.reader.place, (*step.trail, step.reader.node)
        known: dict[TopicPartition, None] = {}
        for chain, head in sight.heads.items():
            outbox = place_of(self.prefix, chain.outbox.topic)
            # Of a topic that was recreated there may still be something on its way.
            if sight.names.place(chain.source) == place and outbox.node == step.reader.node:
                known[chain.outbox] = None
                yield AwaitedHop(
                    PositionKey(outbox.other, chain.outbox),
                    head.offset + 1,
                    accepted=head.last,
                    chain=chain.source,
                    sender=step.reader,
                    trail=trail,
                )
        for target, last in sight.forgotten.items():
            outbox = place_of(self.prefix, target.topic)
            if outbox.node == step.reader.node and target not in known:
                reader, source = PositionKey(outbox.other, target), sight.names.key(place)
                yield AwaitedHop(reader, last + 1, chain=source, sender=step.reader, trail=trail)

    def stops(
        self, ticket: Ticket, read: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[str, Standstill]]:
        """Yield the hops that a ticket waits for, each with how it stands.

        Args:
            ticket: The ticket.
            read: Next offset that the auditor reads of every topic partition.
        """
        for step in ticket.steps:
            if not self._has_passed(ticket, step):
                yield _hop(step), Standstill(step.reader.node, self._reason(ticket, step, read))

    def _reason(self, ticket: Ticket, step: AwaitedHop, read: Mapping[TopicPartition, int]) -> str:
        hop = _hop(step)
        position = self.positions.get(step.reader, 0)
        if position < step.target:
            return f"{hop}: read up to {position} of {step.target}"
        if (held := self._held(ticket, step)) is not None:
            return f"{hop}: holds what is for {held}"
        if not self._has_passed(ticket, step):
            return f"{hop}: has not accepted all up to {step.accepted}, a gap is repaired"
        awaits = step.awaits or {}
        if (late := min(self._unread(ticket, step, read), default=None)) is not None:
            told = f"{late} up to {read.get(late, 0)} of {awaits[late]}"
            return f"what {step.reader.node} wrote to be read: {told}"
        return f"the Kafka cluster of {step.reader.node} to answer"

    def where(self, ticket: Ticket, read: Mapping[TopicPartition, int]) -> str:
        """Return what a ticket waits for first, for people."""
        return next((self._reason(ticket, step, read) for step in ticket.steps), "nothing")


def _chain(outbox: TopicPartition, source: SourcePartition) -> ChainKey:
    return ChainKey(outbox, SourceKey(source.topic_id.hex(), source.partition))


def _concerns(ticket: Ticket, step: AwaitedHop, sight: Sight) -> bool:
    is_any = ticket.node == EVERYONE
    return is_any or sight.leads(step.trail, step.reader.node, ticket.node)


def _is_left(ticket: Ticket, step: AwaitedHop, sight: Sight) -> bool:
    """Return whether a hop passes nothing on any more; what it has passed on goes further."""
    return step.chain is not None and sight.has_left(step.reader.place, ticket.node)


def _hop(step: AwaitedHop) -> str:
    return f"{step.reader.node} at {step.reader.place}"
