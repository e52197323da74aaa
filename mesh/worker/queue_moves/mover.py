"""Messages of a queue move on to another member, where somebody consumes them. Spec: DESIGN 6.

A mover is a consumer of its own node's queue, in the queue's group like any other, so that no
message is given to two. It sends what it is given to the other member as an addressed copy; the
copies, the group's offsets and the chain are one transaction. If it is killed, nothing is lost or
duplicated: the next one continues at the group's offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.local_links import LocalLink
from mesh.core.redelivery import Share
from mesh.lane.lane import Lane
from mesh.transport.port import Consumer, Passed, Record, TopicPartition, Writer, place_of
from mesh.worker.process.commits import Commits, PendingCommit
from mesh.worker.process.transactions import write_rows
from mesh.worker.queue_moves.moving import ChainEnds, Moving

CHUNK = 500
"""Maximum number of messages moved in one transaction."""

log = structlog.get_logger()


@dataclass(slots=True)
class GivenPart:
    """A partition of the queue that the group has assigned to this mover.

    Attributes:
        taken: The group's state when it was taken: another object means another taking.
        share: What consumers remember of it.
        end: First offset that was not moved yet.
        is_known: Whether its records are proven to be of the topic that this mover moves.
        former: What consumers remembered when it was last read; its records may come again.
        staying: Offsets of open messages that may not go where the others go.
    """

    taken: Passed
    share: Share
    end: int
    is_known: bool = False
    former: Share | None = None
    staying: dict[int, None] = field(default_factory=dict)

    def has_room(self, offset: int) -> bool:
        """Return whether a message may overtake those that stay, within what a group remembers."""
        return not self.staying or self.share.has_room(offset)

    def know(self) -> None:
        """Note that it is of that very topic; if it is read again, the topic has lost its end."""
        self.is_known = True
        self.share, self.former = self.former or self.share, None
        self.end = max(self.end, self.share.base)

    def meet(self, record: Record) -> bool:
        """Note the record that is moved next; return whether it is still open for everyone."""
        offset = record.offset()
        if self.share.meet(offset, record.leader_epoch()):
            self.end = min(self.end, offset)
            self.staying = {one: None for one in self.staying if one < offset}
        return not self.share.is_done(offset)


@dataclass(slots=True)
class Mover:
    """Moves the messages that its lane is given from one queue. One transaction at a time.

    Its frames leave in partitions that its lane writes, so each partition has a single writing
    lane.

    Attributes:
        lane: Its lane.
        queue: Name of the endpoint.
        consumer: Its membership of the queue's group.
        writer: Writes its transactions.
        topic_id: Of the endpoint's topic.
        sent: Last position sent, per outbox partition and partition of the endpoint. Spec: K11.
        ends_written: How far its outbox partitions must be read until all that it wrote is read.
        pending: The commit under way.
        kept_from: Address of the member to which messages that stay must not go.
    """

    lane: Lane
    queue: str
    consumer: Consumer
    writer: Writer
    topic_id: bytes
    sent: ChainEnds = field(default_factory=dict)
    ends_written: dict[TopicPartition, int] = field(default_factory=dict)
    pending: PendingCommit = field(default_factory=PendingCommit)
    kept_from: str = ""
    _moving: Moving | None = None
    _parts: dict[TopicPartition, GivenPart] = field(default_factory=dict)
    _early: list[Record] = field(default_factory=list)

    def rest(self) -> None:
        """Take nothing more, but stay a member."""
        self.consumer.pause(list(self.consumer.owned()))
        # What was given just now is not paused yet: it is moved first when the mover continues.
        given = self._read(1)  # this may take away what was given before
        self._early += given

    @property
    def doubted(self) -> Sequence[GivenPart]:
        """Partitions whose messages wait because their topic is not proven yet.

        Kafka is read by topic name, and the topic may have been recreated: sent under the former
        topic's identity, they would be taken for repeats.
        """
        if all(part.is_known for part in self._parts.values()):
            return ()
        places = dict.fromkeys(map(place_of, self._early))
        return [self._parts[at] for at in places if not self._parts[at].is_known]

    @property
    def keeps_some(self) -> bool:
        """Whether it holds messages that may not go, which others here may consume."""
        return any(part.staying for part in self._parts.values())

    def begin_to_move(
        self,
        link: LocalLink,
        address: str,
        most: int,
        commits: Commits,
        may_go: Callable[[Record], bool],
    ) -> None:
        """Begin to send up to so many messages to a member, if there are any and none is doubted.

        Args:
            link: The link on the way.
            address: The member's.
            most: Maximum number of messages; at least one.
            commits: Commits beside the loop.
            may_go: Says which messages may go there; others stay, and are overtaken by no more than
                a group remembers.

        Raises:
            TransportError: Nothing was moved; close it.
        """
        most = min(most, CHUNK)
        at_hand = sum(map(self._has_room, self._early))
        if not self.doubted and at_hand < most:
            # After a message without room the next offset may belong to none, and have room.
            full = {place_of(one) for one in self._early if not self._has_room(one)}
            self.consumer.pause(
                [at for at, one in self._parts.items() if at in full or not one.has_room(one.end)]
            )
            given = self._read(most - at_hand)  # this may take away some of the earlier ones
            self._early = [*self._early, *given]
        if not self._early or self.doubted:
            return
        moving = self._moving = Moving(
            lane=self.lane,
            queue=self.queue,
            topic_id=self.topic_id,
            link=link,
            address=address,
            before=self.sent,
        )
        early, self._early = self._early, []
        records: list[Record] = []
        for record in early:
            part = self._part_of(record)
            if len(records) >= most or not self._has_room(record):
                self._early.append(record)
                continue
            records.append(record)
            if not part.meet(record):
                continue
            if may_go(record):
                moving.decide(record)
            else:
                part.staying[record.offset()] = None
                self.kept_from = address
        if not records:
            return
        passed = self._pass(records)
        moving.account()
        moving_on = partial(_transact, self.writer, moving, passed, self.consumer.ticket)
        self.pending.begin(commits, moving_on)

    def end_move(self) -> int:
        """Wait for the move under way; return how many messages were sent.

        Raises:
            TransportError: Nothing was moved; close it.
        """
        moving, self._moving = self._moving, None
        self.pending.end()
        if moving is None:
            return 0
        self.sent = moving.sent
        # If a neighbour asks what has become of them, the lane answers. Spec: K11.
        self.lane.hear_movers(moving.sent)
        self.ends_written |= moving.ends_written
        return sum(moving.counts.values())

    def _read(self, most: int) -> list[Record]:
        """Read, and follow the group's assignments and revocations."""
        records = self.consumer.read(0.0, most)
        owned = self.consumer.owned()
        former: dict[TopicPartition, Share] = {}
        for at in [at for at, part in self._parts.items() if owned.get(at) is not part.taken]:
            part = self._parts.pop(at)
            former[at] = part.former or part.share
            self._early = [one for one in self._early if place_of(one) != at]
        for at, passed in owned.items():
            if at not in self._parts:
                share = Share.parse(max(0, passed.offset), passed.remark, passed.leader_epoch)
                before = former.get(at) if passed.is_rewound else None
                self._parts[at] = GivenPart(passed, share, share.base, former=before)
        return list(records)

    def _pass(self, records: Sequence[Record]) -> Mapping[TopicPartition, Passed]:
        """Return how far the transaction moves the group: past these records."""
        for record in records:
            part, offset = self._part_of(record), record.offset()
            part.end = max(part.end, offset + 1)
            if offset in part.staying:
                part.share.skip(part.staying, part.end)
            else:
                part.share.finish(offset, part.staying, part.end)
        passed: dict[TopicPartition, Passed] = {}
        for at in dict.fromkeys(map(place_of, records)):
            share = self._parts[at].share
            passed[at] = Passed(share.base, share.remark, share.leader_epoch)
        return passed

    def _part_of(self, record: Record) -> GivenPart:
        return self._parts[place_of(record)]

    def _has_room(self, record: Record) -> bool:
        return self._part_of(record).has_room(record.offset())

    def close(self) -> None:
        """Leave the group at once."""
        self.consumer.close()
        self.pending.close(self.writer)
        log.info("queue.moved", queue=self.queue, lane=self.lane.number)


def _transact(
    writer: Writer, moving: Moving, passed: Mapping[TopicPartition, Passed], ticket: object
) -> None:
    writer.begin()
    last = {at: moving.rows[at.topic, at.partition].pop() for at in moving.written}
    write_rows(writer, moving.rows)
    for at, (value, key, timestamp, headers) in last.items():
        told = partial(moving.note_written, at.topic)
        about = (at.topic, value, key, at.partition)
        writer.produce(*about, timestamp=timestamp, headers=headers, on_delivery=told)
    writer.send_offsets(passed, ticket)
    writer.commit()
