"""The oldest messages of an endpoint that is full become dead letters, and are deleted there. R14.

This happens only where an operator configured it: it is a loss. One transaction holds the dead
letters, the announcement of the loss in the endpoint, its account, and how far this went; only
after its commit are the records deleted. If a predecessor died in between, its successor only
deletes. The loop never waits for Kafka here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.redelivery import WINDOW, Share
from mesh.errors import TransportError
from mesh.model.control import EndpointKind
from mesh.model.facts import SourceAt
from mesh.transport.headers import headers_of
from mesh.transport.port import Admin, KafkaCluster, Reader, Record, TopicPartition, Writer
from mesh.wire.announcements import is_announcement
from mesh.worker.lanes.overfull import Overfull
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.second_writer import open_second_writer_of, second_progress
from mesh.worker.process.commits import PendingCommit
from mesh.worker.process.errands import Errand, Steps
from mesh.worker.process.recall import Recall, read_progress
from mesh.worker.process.transactions import transact
from mesh.worker.second_writer.displaced import rows_of_displaced
from mesh.worker.topics.readership import passed_by_all

CHUNK, CHUNK_BYTES = 2_000, 16 << 20
"""Maximum number of records displaced in one transaction, and of bytes, roughly."""

SHARE_MS = 5_000
"""How long one partition goes on, chunk by chunk: others need the lane's second writer, too. The
next look finds what is left."""

IDLE_MAX = 50
"""After this many turns without anything to read, the rest is left for later."""

Consumed = Callable[[int], bool]
"""Whether all consumers of an endpoint are done with the message at an offset."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Opened:
    """What displacing needs.

    Attributes:
        reader: Reads the endpoint.
        writer: The lane's second writer.
        topic_id: Of the endpoint's topic; empty if there is none.
        passed: How far records of this very topic became dead letters already.
        began_ms: When it was opened.
    """

    reader: Reader
    writer: Writer
    topic_id: bytes
    passed: int
    began_ms: int = 0

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


@dataclass(slots=True)
class _Reading:
    """An endpoint partition being read, while nobody waits for it.

    Attributes:
        of: What is to be displaced.
        opened: The resources for it.
        records: What was read.
        size: Bytes in them.
        idle: Turns in which nothing was found.
        passed: Offset below which records are to be deleted, once they are dead letters.
        pending: The commit under way for those.
        letters: How many they are.
        until: Offset below which all records are dead letters after that commit.
    """

    of: Overfull
    opened: _Opened
    records: list[Record] = field(default_factory=list)
    size: int = 0
    idle: int = 0
    passed: int | None = None
    pending: PendingCommit = field(default_factory=PendingCommit)
    letters: int = 0
    until: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.records) >= CHUNK or self.size >= CHUNK_BYTES

    def take(self, records: Sequence[Record]) -> None:
        self.records += records
        self.size += sum(len(one.key() or b"") + len(one.value() or b"") for one in records)

    def go_on(self, passed: int) -> None:
        """Continue after what is deleted."""
        left = [one for one in self.records if one.offset() >= passed]
        self.records, self.size, self.idle = [], 0, 0
        self.take(left)
        self.opened.passed, self.passed = passed, None

    def close(self) -> None:
        self.opened.reader.close()
        self.pending.close(self.opened.writer)


@dataclass(slots=True)
class Displacing:
    """Displaces the surplus that `Lanes.overfull` names, one partition after another.

    Attributes:
        home: The node's own Kafka cluster.
        lanes: The lanes.
    """

    home: KafkaCluster
    lanes: Lanes
    _opening: tuple[Overfull, Errand[_Opened]] | None = None
    _reading: _Reading | None = None

    def step(self) -> None:
        """Read some more, or write and delete; the lane's second writer must be free."""
        try:
            if not self.is_active:
                self._begin()
            if self._opening is not None and self._opening[1].has_ended():
                (of, errand), self._opening = self._opening, None
                self._take_opened(of, errand.result())
            if self._reading is not None:
                self._go_on(self._reading)
        except TransportError as error:
            log.warning("endpoint.not_displaced", fault=str(error))
            self._leave()

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self._reading is not None or self._opening is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what it needs, or for a commit."""
        is_writing = self._reading is not None and self._reading.pending.is_any
        return self._opening is not None or is_writing

    def close(self) -> None:
        """Stop; the next owner of the lanes goes on."""
        if self._opening is not None:
            self._opening[1].call_off()
            self._opening = None
        self._leave()

    def _leave(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None
            self.lanes.sources.questions.forget("displaced")

    def _begin(self) -> None:
        for at, of in list(self.lanes.overfull.items()):
            del self.lanes.overfull[at]
            if self.lanes.owns(of.lane):
                steps = _opening(self.home, self.lanes.recall, of)
                self._opening = of, self.lanes.errands.begin(steps)
                return

    def _take_opened(self, of: Overfull, opened: _Opened) -> None:
        if of.topic_id not in (b"", opened.topic_id):
            opened.close()  # its name belongs to another by now: the next look finds what waits
            return
        opened.began_ms = self.lanes.clock.now_ms()
        self._reading = _Reading(of, opened)
        if of.until > of.first:
            opened.reader.assign({of.at: of.first})

    def _go_on(self, reading: _Reading) -> None:
        of, reader = reading.of, reading.opened.reader
        if not self.lanes.owns(of.lane):
            self._leave()
            return
        if reading.pending.is_any:
            self._end_commit(reading)
            return
        if reading.passed is None and of.until > of.first:
            found = () if reading.is_full else reader.read(0.0, CHUNK)
            reading.take([record for record in found if record.offset() < of.until])
            if reader.lost():
                self._leave()  # somebody else deleted: the next look finds the new start
                return
            is_read = reader.position(of.at) >= of.until
            reading.idle = 0 if found else reading.idle + 1
            if not is_read and not reading.is_full:
                if reading.idle > IDLE_MAX:
                    self._leave()  # others need the writer; the next look tries again
                return
        self._displace(reading)

    def _displace(self, reading: _Reading) -> None:
        """Write and commit what becomes of these records; then they are deleted."""
        of, questions = reading.of, self.lanes.sources.questions
        admin = self.home.admin()
        if reading.passed is None:
            groups = {self.lanes.names.lanes_group(node) for node in self.lanes.topology.nodes}
            asking = partial(_where, admin, of.at, groups if self._is_queue(of) else None)
            told = questions.answer(("displaced", "where"), asking)
            if told is None:
                return
            topic_id, start, consumed = told
            if not topic_id or topic_id != reading.opened.topic_id or start is None:
                self._leave()
                return
            self._write_left(reading, start, consumed)
            if reading.pending.is_any:
                self._end_commit(reading)
                return
            reading.passed = reading.opened.passed
            if reading.passed <= start:
                self._leave()
                return
        self._delete(reading, reading.passed)

    def _delete(self, reading: _Reading, passed: int) -> None:
        deleting = partial(_delete, self.home.admin(), reading.of.at, passed)
        if not self.lanes.sources.questions.answer(("displaced", "deleted"), deleting):
            return
        is_over = self.lanes.clock.now_ms() - reading.opened.began_ms >= SHARE_MS
        if is_over or passed >= reading.of.until:
            self._leave()
        else:
            reading.go_on(passed)

    def _is_queue(self, of: Overfull) -> bool:
        endpoint = self.lanes.machine.learner.clients.wanted.endpoints.get(of.endpoint)
        return endpoint is not None and endpoint.kind is EndpointKind.QUEUE

    def _write_left(self, reading: _Reading, start: int, consumed: Consumed) -> None:
        """Begin to write what still exists and is not consumed, if anything does."""
        of, opened = reading.of, reading.opened
        records = reading.records[:CHUNK]
        there = [record for record in records if record.offset() >= max(start, opened.passed)]
        left = [record for record in there if not consumed(record.offset())]
        reading.letters = sum(not is_announcement(headers_of(record)) for record in left)
        if reading.letters:
            reading.until = there[-1].offset() + 1
            rows = rows_of_displaced(of, left, opened.topic_id, reading.until)
            reading.pending.begin(self.lanes.commits, partial(transact, opened.writer, rows))
        elif there and not left:
            opened.passed = there[-1].offset() + 1

    def _end_commit(self, reading: _Reading) -> None:
        """Take the outcome of the dead letters' commit, if it is known; then delete."""
        if not reading.pending.is_through:
            return
        reading.pending.end()
        of, passed = reading.of, reading.until
        count = self.lanes.pushed_out.get(of.endpoint, 0) + reading.letters
        self.lanes.pushed_out[of.endpoint] = count
        log.error(
            "endpoint.displaced",
            endpoint=of.endpoint,
            partition=of.at.partition,
            messages=reading.letters,
            reason=of.reason,
        )
        reading.passed = passed
        self._delete(reading, passed)


def _opening(home: KafkaCluster, recall: Recall, of: Overfull) -> Steps[_Opened]:
    """Open what is needed to displace.

    The writer comes first: it ends what a predecessor left open, which nobody could read past.
    After that, progress is final about earlier attempts. Spec: R3.
    """
    lane, at, place = of.lane, of.at, second_progress(of.lane)
    return _open(home, recall, at, place, partial(open_second_writer_of, lane, home))


def _open(
    home: KafkaCluster,
    recall: Recall,
    at: TopicPartition,
    place: TopicPartition,
    opens: Callable[[], Writer],
) -> Steps[_Opened]:
    yield
    writer = opens()
    try:
        yield
        admin = home.admin()
        info = admin.describe([at.topic]).get(at.topic)
        topic_id = b"" if info is None else info.topic_id
        passed = _passed(recall.records(place), at, topic_id, admin)
        reader = home.reader("displaced", topics=[at.topic])
        return _Opened(reader, writer, topic_id, passed)
    except BaseException:
        writer.close()
        raise


def _passed(records: Sequence[Record], at: TopicPartition, topic_id: bytes, admin: Admin) -> int:
    """Return how far the records that are there now have become dead letters, by progress.

    If the log has lost its end since, others may stand below the offset that was written.
    """
    for fact in read_progress(records).facts.values():
        if isinstance(fact, SourceAt) and (fact.at, fact.topic_id) == (at, topic_id):
            epoch = fact.leader_epoch
            return fact.next if epoch < 0 else admin.agrees_until(at, epoch, fact.next)
    return 0


def _where(
    admin: Admin, at: TopicPartition, besides: Collection[str] | None
) -> tuple[bytes, int | None, Consumed]:
    """Return a topic's id, empty if there is none, its partition's start, and what is consumed.

    Args:
        admin: Of its Kafka cluster.
        at: A partition of an endpoint.
        besides: Groups that consume nothing; None for a channel.
    """
    info = admin.describe([at.topic]).get(at.topic)
    consumed = _nothing if besides is None else _consumed(admin, at, besides)
    return (b"" if info is None else info.topic_id), admin.starts([at]).get(at), consumed


def _nothing(offset: int) -> bool:  # noqa: ARG001
    return False


def _consumed(admin: Admin, at: TopicPartition, besides: Collection[str]) -> Consumed:
    """Return which messages of a queue its consumers, and all other groups, are done with.

    Consumers acknowledge individually: some messages after the oldest open one are done.
    """
    passed = admin.passed(at.topic, [at]).get(at)
    if passed is None or at not in admin.consumed([at.topic], besides=besides):
        return _nothing
    others = passed_by_all(admin, [at.topic], [*besides, at.topic]).get(at)
    share, until = Share.parse(passed.offset, passed.remark), passed.offset + WINDOW
    if passed.leader_epoch is not None:  # a later leader wrote others there
        until = admin.agrees_until(at, passed.leader_epoch, until)

    def is_consumed(offset: int) -> bool:
        return offset < until and share.is_done(offset) and (others is None or offset < others)

    return is_consumed


def _delete(admin: Admin, at: TopicPartition, offset: int) -> bool:
    admin.delete_before({at: offset})
    return True
