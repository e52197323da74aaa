"""A target that cannot be written is held: the lane goes on for the others. Spec: K20.

An endpoint's or outbox's topic may refuse records for long: a right taken away, a limit lowered, a
partition without a leader. After some tries the lane leaves that target out; a catch-up with
transactions of its own tries to write it alone, from where it was left, until it meets the lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from mesh.codec.keys import progress_key
from mesh.codec.state import decode_progress, encode_progress
from mesh.core.chain import Chains
from mesh.core.routing import LocalLink
from mesh.errors import TransportError
from mesh.model.inputs import Input
from mesh.runtime.catching_up import (
    CatchUp,
    account,
    caught_up_partition,
    route_again,
    shadow_of,
)
from mesh.runtime.gaps import announce, came_before
from mesh.runtime.held import (
    endpoint_of,
    forget_ended,
    held_progress,
    hold_key,
    link_of,
    release,
    sent_progress,
    sources_of,
)
from mesh.runtime.lane import Lane, Source
from mesh.runtime.lanes import Lanes
from mesh.runtime.positions import ENDED, Hold, Positions
from mesh.transport.port import KafkaCluster, TopicPartition, Writer

RETRY_MS = 5_000
"""How long a catch-up that failed rests."""

log = structlog.get_logger()


@dataclass(slots=True)
class _CatchUp:
    """One held target being written.

    Attributes:
        target: Its topic.
        hold: How far it is written.
        again: Reads the lane's sources.
        writer: Writes.
        known: Chains of the target and of the sources as they were read for it.
    """

    target: str
    hold: Hold
    again: CatchUp
    writer: Writer
    known: Positions
    link: LocalLink | None
    endpoint: str

    def close(self) -> None:
        self.again.close()
        self.writer.close()


@dataclass(slots=True)
class Holds:
    """Catches up held targets of this worker's lanes, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    _active: _CatchUp | None = None
    _tried_ms: dict[str, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self._active is not None

    def step(self, now_ms: int) -> Iterator[Input]:
        """Write some more of what is held; yield what commits of the lane tell."""
        if self._active is not None and not self._may_go_on(self._active):
            self.close()
        target = self._active.target if self._active is not None else ""
        try:
            if self._active is None:
                for lane, target in self._due(now_ms):
                    self._tried_ms[target] = now_ms
                    self._active = self._begin(lane, target, now_ms)
                    break
            if self._active is not None:
                yield from self._go_on(self._active, now_ms)
        except TransportError as error:
            log.warning("target.still_held", target=target, fault=str(error))
            self.close()

    def _may_go_on(self, active: _CatchUp) -> bool:
        lane = active.again.lane
        return self.lanes.owns(lane) and (lane.number, active.target) not in self.lanes.full

    def close(self) -> None:
        """Stop; whoever takes the lanes goes on."""
        if self._active is not None:
            self._active.close()
            self._active = None

    def _due(self, now_ms: int) -> Iterator[tuple[Lane, str]]:
        for lane in self.lanes.owned.values():
            for target in lane.positions.holds:
                if (lane.number, target) in self.lanes.full:
                    continue
                tried = self._tried_ms.get(target, -RETRY_MS)
                if now_ms - tried >= RETRY_MS and now_ms - lane.taken_ms >= RETRY_MS:
                    yield lane, target

    # -- beginning ------------------------------------------------------------------------

    def _begin(self, lane: Lane, target: str, now_ms: int) -> _CatchUp | None:
        """Open what is needed; None if it turns out that the target is written already.

        The writer comes first: after that, what progress says of former tries is final. Spec: R3.
        """
        name = lane.names.held_transactions(lane.node, lane.number)
        writer = self.kafka[self.home].writer(f"held-{lane.number}", name)
        place = TopicPartition(lane.names.progress(lane.node), caught_up_partition(lane))
        for record in self.lanes.recall.records(place):
            if (value := record.value()) is not None:
                lane.positions.recover_caught_up(decode_progress(value))
        hold = lane.positions.holds.get(target)
        if hold is None:
            writer.close()
            forget_ended(lane, now_ms)
            return None
        endpoint, link = endpoint_of(lane, target), link_of(lane, target)
        sources = sources_of(lane, target)
        if sources is None:
            writer.close()
            log.info("target.waits", target=target, lane=lane.number)
            return None  # a source that cannot be read now: its Kafka cluster does not answer
        known = Positions(epoch=lane.positions.epoch)
        for source in sources:
            accepted = hold.chains.get(source.at)
            known.chains[source.at] = Chains(torn={}) if accepted is None else accepted.copy()
            if link is not None:
                key = (lane.outbox(link, source), source.identity)
                if key in lane.positions.sent:
                    known.sent[key] = lane.positions.sent[key]
        again = CatchUp(self.lanes, lane, sources)
        begins = {source.at: hold.next.get(hold_key(lane, target, source), 0) for source in sources}
        again.begin(self.kafka, begins, "held")
        log.info("target.catching_up", target=target, lane=lane.number)
        return _CatchUp(target, hold, again, writer, known, link, endpoint)

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, active: _CatchUp, now_ms: int) -> Iterator[Input]:
        again, lane = active.again, active.again.lane
        yield from again.read()
        if not self.lanes.owns(lane):
            return
        if not (again.is_met or again.lost or any(again.records.values())):
            return
        shadow = shadow_of(
            lane, active.writer, active.known, link=active.link, endpoint=active.endpoint
        )
        batch = shadow.open(now_ms)
        reached: dict[Source, int] = {}
        for source in again.sources:
            for lost in again.lost:
                if (lost.topic, lost.partition) == (source.at.topic, source.at.partition):
                    came = came_before(shadow, source)
                    announce(shadow, batch, source, lost, came, lost.next)
            records = again.records.get(source.at, [])
            route_again(shadow, source, records, now_ms)
            if records:
                reached[source] = records[-1].offset() + 1
        again.lost.clear()
        for source, offset in reached.items():
            self._note(active, source, ENDED if again.is_met else offset)
        if again.is_met:
            for source in again.sources:
                self._note(active, source, ENDED)
        account(shadow, batch, repair=False)
        active.writer.commit()
        for source, offset in reached.items():
            active.hold.next[hold_key(lane, active.target, source)] = offset
            active.hold.chains[source.at] = active.known.chains[source.at].copy()
        if active.link is not None:
            lane.positions.sent.update(active.known.sent)
        if again.is_met:
            release(lane, active.target, now_ms)
            log.warning("target.released", target=active.target, lane=lane.number)
            self.close()

    def _note(self, active: _CatchUp, source: Source, offset: int) -> None:
        """Write how far a target is written of one source, in this very transaction."""
        lane = active.again.lane
        progress = held_progress(lane, active.target, source, active.hold.number, offset)
        partition = caught_up_partition(lane)
        topic, key = lane.names.progress(lane.node), progress_key(progress)
        active.writer.produce(topic, encode_progress(progress), key, partition)
        outbox = TopicPartition(active.target, source.at.partition % lane.partitions)
        sent = active.known.sent.get((outbox, source.identity))
        if active.link is not None and sent is not None:
            told = sent_progress(outbox, source, sent)
            active.writer.produce(topic, encode_progress(told), progress_key(told), partition)
