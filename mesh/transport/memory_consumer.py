"""Consumers in groups of the in-memory Kafka cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mesh.transport.groups import Takings
from mesh.transport.memory_clients import MemoryReader
from mesh.transport.memory_group import GroupTicket, MemoryGroup, MemoryMembership
from mesh.transport.memory_log import MemoryBroker, MemoryRecord
from mesh.transport.port import BEGINNING, Passed, Skipped, TopicPartition


class MemoryConsumer:
    """A member of a group that reads what it owns; never blocks."""

    def __init__(self, broker: MemoryBroker, of: MemoryGroup, group: str, name: str) -> None:
        self._broker = broker
        self._group = group
        self._topic = of.topic
        self._member = MemoryMembership(of, broker, name)
        self._member.giving_up = self._give_up
        self._reader = MemoryReader(broker, name, [of.topic])
        self._takings = Takings()
        self._paused: frozenset[TopicPartition] = frozenset()
        self._resumed_at: dict[TopicPartition, int] = {}
        self._skipped: list[Skipped] = []
        self._led: dict[TopicPartition, int] = {}
        self._ticket = GroupTicket(group, self._member, of)

    @property
    def ticket(self) -> object:
        """What a writer needs to move the group on in this member's name."""
        return self._ticket

    def owned(self) -> Mapping[TopicPartition, Passed]:
        """Return the partitions owned as of the last read, and where each was taken up."""
        return self._takings.owned

    def read(self, timeout_s: float, limit: int) -> Sequence[MemoryRecord]:
        """Return up to `limit` records at once, and follow the group.

        Args:
            timeout_s: How long to wait; in memory nobody does.
            limit: How many at most.
        """
        self._broker.require_available()
        self._member.poll()
        lanes = self._member.lanes()
        self._give_up(frozenset(at.partition for at in self._takings.owned) - lanes)
        for place in (TopicPartition(self._topic, lane) for lane in sorted(lanes)):
            # As brokers do that are asked for stable offsets: an open transaction may move them.
            if place in self._takings.owned or self._broker.is_pending(self._group, place):
                continue
            passed = self._broker.passed(self._group, place)
            self._takings.begin(place, passed)
            self._resumed_at[place] = self._agreed(place, passed)
            if place not in self._paused:
                self._assign(place)
        self._validate()
        found = self._reader.read(timeout_s, limit)
        reached = {place: self._reader.position(place) for place in self._takings.owned}
        for place in self._reader.lost():
            log = self._broker.log(place)
            if log is not None and place in self._takings.owned:
                self._skip(place, reached[place])
                self._reader.assign({place: log.start})
        return self._takings.follow(list(found))

    def _validate(self) -> None:
        """Turn back where a later leader has less than was read, as the client library does."""
        for place in self._takings.owned.keys() - self._paused:
            log, position = self._broker.log(place), self._reader.position(place)
            if log is None or log.leader_epoch == (known := self._led.get(place)):
                continue
            self._led[place] = log.leader_epoch
            if known is not None and log.agrees_until(known, min(position, log.end)) < position:
                self._reader.assign({place: log.start})

    def _agreed(self, place: TopicPartition, passed: Passed) -> int:
        """Return up to where a log is what the group has passed of it."""
        log, offset, epoch = self._broker.log(place), passed.offset, passed.leader_epoch
        if log is None or epoch is None:
            return offset
        return log.agrees_until(epoch, min(offset, log.end))

    def _assign(self, place: TopicPartition) -> None:
        self._skip(place, self._resumed_at[place])
        log = self._broker.log(place)
        start = 0 if log is None else log.start
        self._reader.assign({place: max(start, self._resumed_at[place])})

    def _skip(self, place: TopicPartition, position: int) -> None:
        """Note what was deleted behind a position of the group, if it has one."""
        log = self._broker.log(place)
        if log is not None and BEGINNING < position < log.start:
            self._skipped.append(Skipped(place, position, log.start - 1))

    def skipped(self) -> Sequence[Skipped]:
        """Return, once each, what was deleted before the group had passed it."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def _give_up(self, lanes: frozenset[int]) -> None:
        going = [place for place in self._takings.owned if place.partition in lanes]
        self._reader.unassign(going)
        for place in going:
            self._takings.end(place)
            self._led.pop(place, None)

    def pause(self, places: Collection[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        before, self._paused = self._paused, frozenset(places)
        for place in self._takings.owned:
            if place in self._paused and place not in before:
                self._resumed_at[place] = self._reader.position(place)
                self._reader.unassign([place])
            elif place in before and place not in self._paused:
                self._assign(place)

    def begin_again(self) -> None:
        """Read what is owned from where its logs begin; see the port."""
        self._takings.begin_again()
        for place in self._takings.owned:
            self._resumed_at[place] = BEGINNING
            self._led.pop(place, None)
            if place not in self._paused:
                self._assign(place)

    def commit(self, positions: Mapping[TopicPartition, Passed]) -> None:
        """Move the group on; see the port."""
        self._broker.require_available()
        self._ticket.require(positions)
        self._broker.pass_on(self._group, positions)

    def crash(self) -> None:
        """Let the group notice that this member is silent, as after a kill."""
        self._member.crash()

    def close(self) -> None:
        """Leave the group at once; nothing is committed."""
        self._member.close()
        self._reader.close()
        self._takings.end_all()
