"""A lane's sources read a second time, for one target that missed something. Spec: K20.

The lane goes on meanwhile. Only at the very end it stops for a moment, until the catch-up has come
as far as the lane: one thread does both, so nothing is written to the target in between. Opening
and querying is done beforehand, beside the loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import maxsize

from mesh.errors import TransportError, TransportUnavailableError
from mesh.lane.lane import Lane
from mesh.lane.resuming import stop_of
from mesh.lane.sources import Source
from mesh.model.control import Stop, StopReason
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, Reader, Record, TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.errands import Steps

CHUNK = 2_000
"""Maximum number of records read again in one turn: the lane waits no longer than for a batch."""

AHEAD = 2_000
"""How far a source is read beyond the lane at most: records the lane has not read wait in
memory."""

STILL_MS = 10_000
"""How long a catch-up may find nothing to read short of the lane's position: then it is given up
for now, since a source's Kafka cluster may be away, and others wait for their turn."""

MEET_READS, MEET_READ_S = 10, 0.05
"""How long a lane may wait for the catch-up to read the lane's last records."""


@dataclass(slots=True)
class CatchUpStart:
    """What a catch-up begins with: start positions by source, and what brokers say about them.

    Attributes:
        begins: Where each source was to begin.
        readers: One per Kafka cluster, by its name.
        starts: First offsets that still exist.
        ends: Where logs end that were cut off.
        silent: Sources that cannot be read now, and what brokers said instead.
    """

    begins: Mapping[TopicPartition, int]
    readers: dict[str, Reader] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    silent: dict[TopicPartition, TransportError] = field(default_factory=dict)

    def close(self) -> None:
        """Release the readers."""
        for reader in self.readers.values():
            reader.close()


@dataclass(slots=True)
class CatchUp:
    """Reads some sources of a lane again, up to where the lane is.

    Attributes:
        lanes: All lanes of the worker.
        lane: The lane whose sources are read again.
        sources: What is read.
        left_out: What cannot be read now: it does not hold up the others.
        records: What the last `read` found below the lane's positions, by source.
        is_met: Whether that is all: the lane has no open transaction, and has read no further.
    """

    lanes: Lanes
    lane: Lane
    sources: Sequence[Source]
    records: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    is_met: bool = False
    lost: list[Stop] = field(default_factory=list)
    left_out: Sequence[Source] = ()
    _readers: dict[str, Reader] = field(default_factory=dict)
    _kafka: dict[TopicPartition, str] = field(default_factory=dict)
    _unsent: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    _next: dict[TopicPartition, int] = field(default_factory=dict)
    _far: dict[TopicPartition, int] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)
    _moved_ms: int | None = None
    _is_closed: bool = False

    def opening(
        self, kafka: Mapping[str, KafkaCluster], begins: Mapping[TopicPartition, int], name: str
    ) -> Steps[CatchUpStart]:
        """Open what is needed to read from these offsets on; what is gone is noted in `lost`.

        Raises:
            TransportUnavailableError: A Kafka cluster is known not to answer.
            TransportError: Raised by the steps: brokers say nothing about any source.
        """
        asked: dict[str, list[TopicPartition]] = {}
        for source in self.sources:
            if self._leave_out_if_gone(source.at, begins[source.at]):
                continue
            cluster = _kafka_of(self.lanes, source)
            if not is_reachable(self.lanes, source):
                raise TransportUnavailableError(f"Kafka cluster {cluster} does not answer")
            self._kafka[source.at] = cluster
            asked.setdefault(cluster, []).append(source.at)
        epochs = {at: self.lane.leader_epoch(at) for at in self._ends}
        known = {at: maxsize if epoch is None else epoch for at, epoch in epochs.items()}
        cut_off = {at: (epoch, self._ends[at]) for at, epoch in known.items()}
        return _opening({one: kafka[one] for one in asked}, asked, cut_off, begins, name)

    def begin(self, opened: CatchUpStart) -> None:
        """Read from there on; records already deleted there are noted in `lost`."""
        self._readers = opened.readers
        self.left_out = [one for one in self.sources if one.at in opened.silent]
        self.sources = [one for one in self.sources if one.at not in opened.silent]
        for at in opened.silent:
            del self._kafka[at]
        for source in [one for one in self.sources if one.at in self._kafka]:
            at, begin = source.at, opened.begins[source.at]
            start = opened.starts.get(at, begin)
            if at in self._ends:
                self._ends[at] = min(self._ends[at], opened.ends.get(at, 0))  # cut off again
            # Deletions beyond the lane's position are for the lane to report.
            if (kept := min(start, self._end(at))) > begin:
                stop = stop_of(at, source.topic_id, StopReason.RETENTION, begin, kept)
                self.lost.append(stop)
            if begin >= self._ends.get(at, begin + 1):
                # Its log breaks off before that: the stop covers all the rest.
                del self._kafka[at]
                continue
            reader = self._readers[self._kafka[at]]
            reader.assign({at: max(begin, start)})
            reader.position(at)

    def _leave_out_if_gone(self, at: TopicPartition, begin: int) -> bool:
        """Return whether nothing is left of a stopped source; note what is lost of it. R6.

        If a log was cut off and goes on with other records, only what came before is read; the rest
        is covered by the stop, and announced to all when that is accepted.
        """
        stop = self.lane.progress.stopped.get(at)
        if stop is None:
            return False
        end = self.lane.committed_position(at)
        if stop.reason == StopReason.TRUNCATED:
            self._ends[at] = stop.first
        if stop.reason != StopReason.RECREATED:
            return False
        self._ends[at] = begin
        if begin < end:
            self.lost.append(replace(stop, first=begin, next=end))
        return True

    def _end(self, at: TopicPartition) -> int:
        """Return how far a source is read: to the lane's position, or to where its log breaks."""
        end = self.lane.committed_position(at)
        stop = self.lane.progress.stopped.get(at)
        if stop is not None and stop.reason == StopReason.TRUNCATED:
            # It may have been cut off since this began, and go on with other records.
            end = min(end, stop.first)
        return min(end, self._ends.get(at, end))

    def read(self, most: int = CHUNK) -> Iterator[Input]:
        """Read some more records, up to a number; yield what commits of the lane report.

        Raises:
            TransportError: What is read again was deleted meanwhile, or does not arrive.
        """
        for at in self._kafka:
            stop = self.lane.progress.stopped.get(at)
            if stop is not None and stop.reason == StopReason.RECREATED:
                raise TransportError(f"{at} was recreated while it was read again")
        self.is_met = False
        if self._count() < most:
            self._fetch(0.0)
        if self._count() < most:
            # Near the end: the lane stops until this has come as far.
            yield from self.lanes.commit([self.lane])
            if self._is_closed:
                return  # by a part that heard what the commit reported
            stands_still = self.lane.batch is None and self.lane.closing is None
            for _ in range(MEET_READS if stands_still else 0):
                self.is_met = all(map(self._is_passed, self.sources))
                if self.is_met or self._count() >= most:
                    break
                self._fetch(MEET_READ_S)
        for at, records in self._unsent.items():
            ready = self._ready(at)
            self.records[at] = records[: min(ready, most)]
            del records[: len(self.records[at])]
            self.is_met = self.is_met and ready <= most
            most -= len(self.records[at])
        self._heed_stillness()

    def _heed_stillness(self) -> None:
        now_ms = self.lanes.clock.now_ms()
        if self.is_met or self._moved_ms is None or any(self.records.values()):
            self._moved_ms = now_ms
        elif now_ms - self._moved_ms >= STILL_MS:
            behind = [str(one.at) for one in self.sources if not self._is_passed(one)]
            raise TransportUnavailableError(f"nothing more comes of {', '.join(behind)}")

    def _count(self) -> int:
        """Return how many records wait to be written; those beyond the lane are for later."""
        return sum(map(self._ready, self._unsent))

    def _ready(self, at: TopicPartition) -> int:
        """Return how many records of a source wait to be written."""
        return bisect_left(self._unsent[at], self._end(at), key=lambda one: one.offset())

    def _is_passed(self, source: Source) -> bool:
        if source.at not in self._kafka:
            return True
        position = self._far.get(source.at)
        if position is None:
            position = self._readers[self._kafka[source.at]].position(source.at)
        return position >= self._end(source.at)

    def _fetch(self, timeout_s: float) -> None:
        """Read from every Kafka cluster; from no source much more than the lane has read."""
        for at, begin in list(self._far.items()):
            if begin - self._end(at) < AHEAD // 2:
                del self._far[at]
                self._readers[self._kafka[at]].assign({at: begin})
        for reader in self._readers.values():
            for record in reader.read(timeout_s, CHUNK):
                at = TopicPartition(record.topic(), record.partition())
                # Records fetched before a source was left may come twice.
                if at not in self._far and record.offset() >= self._next.get(at, 0):
                    self._unsent.setdefault(at, []).append(record)
                    self._next[at] = record.offset() + 1
            if lost := reader.lost():
                raise TransportError(f"{lost[0]} was deleted while it was read again")
        for at, records in self._unsent.items():
            if at not in self._far and records and records[-1].offset() - self._end(at) >= AHEAD:
                # The lane has stopped or lags: what it has not read is for later.
                self._far[at] = self._next[at]
                self._readers[self._kafka[at]].unassign([at])

    def close(self) -> None:
        """Release the readers."""
        self._is_closed = True
        for reader in self._readers.values():
            reader.close()


def is_reachable(lanes: Lanes, source: Source) -> bool:
    """Return whether the Kafka cluster of a source is not known to be away."""
    return lanes.sources.readers[_kafka_of(lanes, source)].reachable()


def _kafka_of(lanes: Lanes, source: Source) -> str:
    owner = source.link.neighbour if source.link is not None else lanes.machine.node
    return lanes.topology.nodes[owner].kafka


def _opening(
    kafka: Mapping[str, KafkaCluster],
    asked: Mapping[str, Sequence[TopicPartition]],
    cut_off: Mapping[TopicPartition, tuple[int, int]],
    begins: Mapping[TopicPartition, int],
    name: str,
) -> Steps[CatchUpStart]:
    yield
    opened = CatchUpStart(begins)
    try:
        for cluster, places in asked.items():
            admin, logs = kafka[cluster].admin(), [at for at in places if at in cut_off]
            opened.starts |= _told(admin.starts, places, opened.silent)
            for at, end in _told(admin.ends, logs, opened.silent).items():
                opened.ends[at] = min(end, admin.agrees_until(at, *cut_off[at]))
            if topics := {at.topic: None for at in places if at not in opened.silent}:
                opened.readers[cluster] = kafka[cluster].reader(name, topics=topics)
    except BaseException:
        opened.close()
        raise
    if opened.silent and not opened.readers:
        raise next(iter(opened.silent.values()))
    return opened


def _told(
    ask: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]],
    places: Sequence[TopicPartition],
    silent: dict[TopicPartition, TransportError],
) -> Mapping[TopicPartition, int]:
    """Return what is said of some places; those of which nothing is said are noted as silent."""
    try:
        return ask(places) if places else {}
    except TransportError as error:
        told = error.answers_to(ask)
        silent.update({at: error for at in places if at not in told})
        return told
