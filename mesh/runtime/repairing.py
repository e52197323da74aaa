"""What a neighbour misses is sent again, beside the lane and never through it. Spec: K11, K20.

A repair reads the lane's source a second time, from where the neighbour's chain broke, and writes
to that neighbour alone, with transactions of its own, what is wanted there now. When it has come as
far as the lane, it says so in a last frame without messages; between that and the lane's next
frame nothing else is written, because one thread does both. What the source does not have any
more is announced as lost before the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from mesh.codec.frames import key_tail, relay_key
from mesh.codec.state import encode_ledger
from mesh.core.chain import Chains
from mesh.core.routing import LocalLink, Router
from mesh.errors import TransportError
from mesh.model.control import Stop, StopReason
from mesh.model.frames import NONE_OFFSET, Chain, FrameFlags, MessageClass, Origin
from mesh.model.inputs import Input
from mesh.runtime.gaps import EMPTY, announce, came_before
from mesh.runtime.ingress import take_ingress
from mesh.runtime.lane import Lane, Source
from mesh.runtime.lanes import Lanes
from mesh.runtime.outgoing import hop_over
from mesh.runtime.positions import Positions
from mesh.runtime.transit import take_frames
from mesh.runtime.troubles import Asked
from mesh.transport.port import KafkaCluster, Reader, Record, TopicPartition, Writer

CHUNK = 2_000
"""Records that one turn sends again at most: the lane waits no longer than for a batch."""

MEET_READS, MEET_READ_S = 20, 0.05
"""How long a lane may wait until a repair has read the last of what the lane has."""

RETRY_MS = 1_000

log = structlog.get_logger()


@dataclass(slots=True)
class _Repair:
    """One repair under way."""

    asked: Asked
    lane: Lane
    link: LocalLink
    source: Source
    reader: Reader | None
    writer: Writer
    shadow: Positions
    lost: Stop | None
    unsent: list[Record] = field(default_factory=list)

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.writer.close()


@dataclass(slots=True)
class Repairs:
    """Does the repairs that neighbours ask of the lanes of this worker, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
        asked: Open requests by neighbour and record key; the listener keeps it.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    asked: Mapping[tuple[str, bytes], Asked]
    _active: _Repair | None = None
    _done: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS

    def step(self, now_ms: int) -> Iterator[Input]:
        """Send some more of what is asked for; yield what commits of the lane tell."""
        if self._active is not None and self._active.lane not in self.lanes.owned.values():
            self._leave()
        try:
            if self._active is None:
                self._begin(now_ms)
            if self._active is not None:
                yield from self._go_on(self._active, now_ms)
        except TransportError as error:
            log.warning("repair.failed", fault=str(error))
            self._tried_ms = now_ms
            self._leave()

    def close(self) -> None:
        """Stop; what is not done is done by whoever takes the lanes."""
        self._leave()

    def _leave(self) -> None:
        if self._active is not None:
            self._active.close()
            self._active = None

    # -- beginning ------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        if now_ms - self._tried_ms < RETRY_MS:
            return
        count = self.lanes.topology.nodes[self.lanes.machine.node].lanes
        for key, asked in self.asked.items():
            lane = self.lanes.owned.get(asked.request.outbox_partition % count)
            if lane is None or self._done.get(key) == asked.offset:
                continue
            source = self._source(lane, asked)
            if source is not None:
                self._active = self._open(lane, source, asked)
                log.warning(
                    "repair.begun",
                    neighbour=asked.neighbour,
                    after=asked.request.last,
                    outbox=asked.request.outbox,
                    partition=asked.request.outbox_partition,
                )
                return

    def _source(self, lane: Lane, asked: Asked) -> Source | None:
        """Return what the lane reads; None if it cannot be read just now.

        A topic that is gone for good stands for itself: everything in it is lost.
        """
        for source in lane.sources.values():
            if source.identity == asked.source:
                return source
        if asked.request.topic_id in lane.positions.topic_ids.values():
            return None
        gone = TopicPartition("", asked.request.partition)
        return Source(gone, asked.request.topic_id, MessageClass.GUARANTEED, None)

    def _open(self, lane: Lane, source: Source, asked: Asked) -> _Repair:
        names, node = lane.names, lane.node
        link = lane.link(asked.neighbour)
        outbox = lane.outbox(link, source)
        first = asked.request.last + 1
        begin = max(0, lane.positions.sent.get((outbox, source.identity), NONE_OFFSET) + 1)
        reader: Reader | None = None
        if source.at.topic:
            kafka = self.kafka[self._kafka_of(source)]
            begin = max(first, kafka.admin().starts([source.at]).get(source.at, first))
            reader = kafka.reader("repair")
            reader.assign({source.at: begin})
            reader.position(source.at)
        lost = None
        if begin > first:
            at = source.at
            lost = Stop(at.topic, at.partition, source.topic_id, StopReason.RETENTION, first, begin)
        shadow = Positions(epoch=lane.positions.epoch)
        shadow.sent[outbox, source.identity] = asked.request.last
        if source.link is not None:
            # Where its reading begins the chains of the neighbour behind it are in their middle.
            shadow.chains[source.at] = Chains(torn={})
        writer = self.kafka[self.home].writer(
            f"held-{lane.number}", names.held_transactions(node, lane.number)
        )
        return _Repair(asked, lane, link, source, reader, writer, shadow, lost)

    def _kafka_of(self, source: Source) -> str:
        node = source.link.neighbour if source.link is not None else self.lanes.machine.node
        return self.lanes.topology.nodes[node].kafka

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, repair: _Repair, now_ms: int) -> Iterator[Input]:
        lane, at = repair.lane, repair.source.at
        records = repair.unsent or self._read(repair, 0.0)
        is_met = repair.reader is None
        if repair.reader is not None and len(records) < CHUNK:
            # Near the end: the lane stands still until this has come as far.
            if lane.batch is not None:
                yield from self.lanes.commit(lane)
                if lane not in self.lanes.owned.values():
                    return
            for _ in range(MEET_READS):
                is_met = repair.reader.position(at) >= lane.positions.next.get(at, 0)
                if is_met or len(records) >= CHUNK:
                    break
                records = [*records, *self._read(repair, MEET_READ_S)]
        end = lane.positions.next.get(at, 0)
        repair.unsent = [record for record in records if record.offset() >= end]
        self._write(repair, [r for r in records if r.offset() < end], now_ms, is_met=is_met)
        if is_met:
            self._finish(repair)

    def _read(self, repair: _Repair, timeout_s: float) -> list[Record]:
        assert repair.reader is not None
        records = list(repair.reader.read(timeout_s, CHUNK))
        if repair.reader.lost():
            raise TransportError(f"{repair.source.at} was deleted while it was read again")
        return records

    def _write(
        self, repair: _Repair, records: Sequence[Record], now_ms: int, *, is_met: bool
    ) -> None:
        if not (records or is_met or repair.lost):
            return
        lane = self._shadow(repair)
        batch = lane.open(now_ms)
        source, link = repair.source, repair.link
        if (lost := repair.lost) is not None:
            came = came_before(lane, source)
            announce(lane, batch, source, lost, came, lost.next, is_local=False)
            repair.lost = None
        if records and source.link is None:
            take_ingress(lane, source, records, now_ms)
        while records and source.link is not None:
            taken = take_frames(lane, source, source.link, records, now_ms, len(records))
            records = records[taken:]
        if is_met:
            self._write_end(repair, lane, link)
        ledger = batch.ledger()
        sent = [replace(one, repair=True) for one in ledger.sent]
        account = replace(ledger, sources=(), not_forwarded=(), dropped=(), sent=sent)
        partition = self.lanes.topology.nodes[lane.node].lanes + lane.number
        repair.writer.produce(lane.names.ledger(lane.node), encode_ledger(account), None, partition)
        repair.writer.commit()

    def _shadow(self, repair: _Repair) -> Lane:
        """Return a lane that writes to the one neighbour, by what is wanted there now."""
        real, learner = repair.lane, self.lanes.machine.learner
        lane = Lane(real.topology, real.node, real.number, learner, repair.writer, repair.shadow)
        router = learner.router
        lane.narrowed = Router([repair.link], router.table, router.down, delivers=False)
        lane.flags = FrameFlags.REPAIR
        return lane

    def _write_end(self, repair: _Repair, lane: Lane, link: LocalLink) -> None:
        """Write that the repair is complete up to the last frame of the lane. Spec: K20."""
        source, outbox = repair.source, lane.outbox(link, repair.source)
        key = (outbox, source.identity)
        last = repair.lane.positions.sent.get(key, NONE_OFFSET)
        previous = min(lane.positions.sent[key], last)
        chain = Chain(source=source.identity, previous=previous, first=last, last=last)
        origin = Origin(
            node=lane.node,
            source=source.identity,
            generation=0,
            first=0,
            last=0,
            count=0,
            subjects=(),
        )
        hop = hop_over(lane, link, came_before(lane, source), chain)
        tail = key_tail(origin, lane.flags)
        repair.writer.produce(outbox.topic, EMPTY, relay_key(hop, tail), outbox.partition)

    def _finish(self, repair: _Repair) -> None:
        asked = repair.asked
        for key, one in self.asked.items():
            if one == asked:
                self._done[key] = asked.offset
        log.warning("repair.done", neighbour=asked.neighbour, outbox=asked.request.outbox)
        self._leave()
