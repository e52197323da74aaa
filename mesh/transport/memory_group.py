"""Group membership of the in-memory Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mesh.errors import TransportMovedError
from mesh.transport.memory_faults import Call
from mesh.transport.memory_log import MemoryBroker
from mesh.transport.port import TopicPartition, keep_quiet


class MemoryGroup:
    """The coordinator's view of one group: who is in it and who should own what.

    Shares like Kafka's cooperative-sticky assignor: even to within one partition, moving as few
    as possible; a partition that moves is first given up by its owner, then taken.
    """

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._broker = broker
        self.topic = topic
        self._members: dict[MemoryMembership, list[int]] = {}

    def join(self, member: MemoryMembership) -> None:
        """Add a member; it owns nothing before it polls."""
        self._members.setdefault(member, [])
        self._share_out()

    def leave(self, member: MemoryMembership) -> None:
        """Remove a member; what it owned can be taken at once."""
        if self._members.pop(member, None) is not None:
            self._share_out()

    def has(self, member: MemoryMembership) -> bool:
        """Return whether this member is in the group."""
        return member in self._members

    def has_any(self) -> bool:
        """Return whether somebody is in the group."""
        self.expire()
        return bool(self._members)

    def names(self) -> list[str]:
        """Return the names of the members."""
        self.expire()
        return [member.name for member in self._members]

    def expire(self) -> None:
        """Take out members that have not polled for the session timeout, if there is one."""
        timeout_ms = self._broker.session_timeout_ms
        if timeout_ms is None:
            return
        now = self._broker.now_ms()
        for member in [one for one in self._members if now - one.polled_ms > timeout_ms]:
            self.leave(member)

    def target(self, member: MemoryMembership) -> list[int]:
        """Return what the member should own."""
        self._share_out()
        return self._members[member]

    def owns(self, member: MemoryMembership, partition: int) -> bool:
        """Return whether a member may speak for a partition, as its coordinator sees it."""
        self.expire()
        return partition in self._members.get(member, ()) and partition in member.lanes()

    def is_free(self, partition: int) -> bool:
        """Return whether no present member owns the partition."""
        return all(partition not in member.lanes() for member in self._members)

    def _share_out(self) -> None:
        topic = self._broker.topics.get(self.topic)
        count = 0 if topic is None else len(topic.logs)
        members = len(self._members)
        if not members or self._is_even(count):
            return
        share, larger = divmod(count, members)
        spare = dict.fromkeys(range(count))
        for lanes in self._members.values():
            # The first members that need one more than the share may keep it.
            keep = share + (1 if larger > 0 and len(lanes) > share else 0)
            larger -= keep > share
            del lanes[keep:]
            for lane in lanes:
                del spare[lane]
        for lane in spare:
            min(self._members.values(), key=len).append(lane)

    def _is_even(self, count: int) -> bool:
        sizes = [len(lanes) for lanes in self._members.values()]
        return max(sizes) - min(sizes) <= 1 and sum(sizes) == count


class MemoryMembership:
    """One worker in a group. Compared by identity: two workers are never the same member.

    Attributes:
        polled_ms: When it was last heard of.
    """

    def __init__(self, group: MemoryGroup, broker: MemoryBroker, name: str) -> None:
        self.name = name
        self.giving_up: Callable[[frozenset[int]], None] = keep_quiet
        self.polled_ms = broker.now_ms()
        self._group = group
        self._broker = broker
        self._lanes: frozenset[int] = frozenset()
        self._closed = False
        group.expire()
        group.join(self)

    def poll(self) -> None:
        """Give up what should move away, then take what is due here and free.

        A member that was removed while it was silent loses everything and joins again.
        """
        broker = self._broker
        is_heard = broker.available
        if broker.faults is not None:
            is_heard &= broker.faults.called(Call.POLL, self.name, self._group.topic) is None
        if self._closed or not is_heard:
            return
        self._group.expire()
        self.polled_ms = broker.now_ms()
        if not self._group.has(self):
            self._lanes = frozenset()
            self._group.join(self)
        target = self._group.target(self)
        if going := self._lanes.difference(target):
            self.giving_up(going)
        self._lanes = self._lanes.intersection(target)
        taken = [lane for lane in target if self._group.is_free(lane)]
        self._lanes = self._lanes.union(taken)

    def lanes(self) -> frozenset[int]:
        """Return the lanes owned as of the last poll."""
        return self._lanes

    def crash(self) -> None:
        """Let the group notice that this member is silent: what follows the member timeout.

        Until it polls again the member itself still believes that it owns its lanes, as a
        process does that was paused.
        """
        self._group.leave(self)

    def close(self) -> None:
        """Leave the group at once."""
        self._closed = True
        self._lanes = frozenset()
        self._group.leave(self)


@dataclass(frozen=True, slots=True)
class GroupTicket:
    """In whose name a group is moved on.

    Attributes:
        group: Its name.
        member: The member.
        of: What the coordinator knows of the group.
    """

    group: str
    member: MemoryMembership
    of: MemoryGroup

    def require(self, places: Iterable[TopicPartition]) -> None:
        """Raise TransportMovedError unless the member owns these partitions."""
        for place in places:
            if not self.of.owns(self.member, place.partition):
                raise TransportMovedError(
                    f"group {self.group}: {place} belongs to another member than "
                    f"{self.member.name} now"
                )
