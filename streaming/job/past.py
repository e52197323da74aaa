"""A past range, judged in batch by the code that judges live. Spec: K29-K31, DESIGN 7.

What nodes and clients said of themselves is read whole, the messages of the range alone, and of
endpoints and links what can have come of these. It is read up to now, and judged; what still waits
for a hop is followed for as long as the hop moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from mesh.errors import ConfigError, MeshError, Problem, TransportUnavailableError
from streaming.connectors.source import Ranges
from streaming.job.auditor import Auditor
from streaming.job.extent import PastRange
from streaming.job.spoiled_batches import Failure, fault_of
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import ENDPOINT, GUARANTEED, INGRESS, LEDGER, is_of_data, place_of

SKEW_MS = 60_000
"""How far the clocks of two Kafka clusters may be apart, in milliseconds."""

LEAP_S = 120.0
"""Once all was read the auditor's clock goes ahead by so much: nothing waits there for records
that were written before and are read later."""

PAUSE_S = 0.5
"""Between two looks at what still waits, in seconds."""

HOP_STILL_S = 30.0
"""A hop that has not moved for so long is not waited for any more, in seconds."""


@dataclass(slots=True)
class LeapingClock:
    """Seconds that only rise, and go ahead where there is nothing to wait for."""

    ahead_s: float = 0.0

    def now_s(self) -> float:
        """Return the time."""
        return time.monotonic() + self.ahead_s

    def leap(self) -> None:
        """Go ahead."""
        self.ahead_s += LEAP_S


@dataclass(slots=True)
class Past:
    """Judges a past range.

    Attributes:
        auditor: Everything that judges.
        reached: Kafka cluster -> next offset to read of every partition there: the auditor's
            positions.
        extent: The range: that of the auditor and of its Kafka clusters.
        clock: The auditor's.
        say: Tells a person.
        pause: Lets real time go by, in seconds.
        not_judged: What of the range is not judged, for people.
    """

    auditor: Auditor
    reached: dict[str, dict[TopicPartition, int]]
    extent: PastRange
    clock: LeapingClock
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    not_judged: Sequence[str] = ()

    def judge(self) -> bool:
        """Judge all that there is of the range, and say whether nothing of it is left open.

        What makes a judgement impossible is told with what is not judged.

        Raises:
            ConfigError: There are nodes on a Kafka cluster that is not read.
            TransportUnavailableError: A Kafka cluster does not answer.
        """
        try:
            return self._judge()
        except MeshError:
            raise
        except Exception as error:  # noqa: BLE001  # what nobody has thought of is no proof either
            text = f"what was read cannot be judged: {fault_of(error)}"
            self.not_judged = [*self.not_judged, text]
            return False

    def _judge(self) -> bool:
        self._read(self._is_said)
        self._refuse_others()
        self.auditor.judge()
        ranges = self._ranges()
        told = sum(end - first for first, end in ranges.values())
        self.say(f"{told} offsets of {len(ranges)} ingress partitions are of that time")
        if not ranges:
            return True
        self._aim(ranges)
        still_s, before = 0.0, None
        while still_s < HOP_STILL_S:
            self._read(lambda _: True)
            self.clock.leap()
            self.auditor.judge()
            if self._is_done():
                return True
            stands = [(one.key, one.reason) for one in self.auditor.state.certifier.waiting]
            still_s, before = (still_s + PAUSE_S if stands == before else 0.0), stands
            self.pause(PAUSE_S)
        return False

    def _refuse_others(self) -> None:
        """Judge nothing where a change of the topology has brought what the file does not tell.

        Raises:
            ConfigError: There are nodes on a Kafka cluster that is not read.
        """
        kafka_clusters = self.auditor.kafka_clusters
        others = [one for one in kafka_clusters.needed or () if one not in kafka_clusters.brokers]
        if others:
            message = "has nodes of this mesh, and the file has not; give what `mesh export` writes"
            raise ConfigError(
                [Problem(code="UNKNOWN_KAFKA", message=message, where=one) for one in others]
            )

    def _is_done(self) -> bool:
        state = self.auditor.state
        unplaced = state.certifier.blocks.unplaced
        doubts = (*state.delivery_doubts, *state.frame_doubts)
        return not (state.certifier.waiting or unplaced.parked or unplaced.late or doubts)

    def _is_said(self, topic: str) -> bool:
        """Return whether a topic holds what messages are judged by: statements, no messages."""
        return not is_of_data(self.auditor.topology.prefix, topic)

    def _kind(self, place: TopicPartition) -> str:
        return place_of(self.auditor.topology.prefix, place.topic).kind

    def _places(
        self, kafka: str, is_wanted: Callable[[str], bool] = lambda _: True
    ) -> Sequence[TopicPartition]:
        kafka_clusters = self.auditor.kafka_clusters
        return kafka_clusters.places(
            kafka, lambda topic: is_wanted(topic) and kafka_clusters.is_at_home(kafka, topic)
        )

    def _ranges(self) -> Ranges:
        """Settle what the range is; return what there is of ingress with guaranteed messages."""
        auditor, prefix = self.auditor, self.auditor.topology.prefix
        names, routed = auditor.state.names, self.extent.routed
        ends: dict[TopicPartition, int] = {}
        ledgers: dict[TopicPartition, int] = {}
        for kafka, brokers in auditor.kafka_clusters.brokers.items():
            kinds = {place: self._kind(place) for place in self._places(kafka)}
            ingress = [place for place, kind in kinds.items() if kind == INGRESS]
            topics = {place.topic for place in ingress}
            for topic, id_ in auditor.kafka_clusters.ids_of(kafka, topics).items():
                names.tell(topic, id_)
            ends.update(brokers.stable_ends(ingress))
            ledgers.update(brokers.beginnings(p for p, kind in kinds.items() if kind == LEDGER))
        now_ms = int(time.time() * 1000)
        self.not_judged = [*routed.leave_out(names, ends), *routed.untold(ledgers, now_ms)]
        blocks = {
            place: range_
            for place, range_ in routed.ranges(names).items()
            if place_of(prefix, place.topic).letter == GUARANTEED
        }
        self.extent.settle({place: end for place, (_, end) in blocks.items()})
        return {place: (first, min(end, ends[place])) for place, (first, end) in blocks.items()}

    def _aim(self, ranges: Ranges) -> None:
        """Know from where on topics with messages are read."""
        auditor = self.auditor
        # A delivery has the time stamp of its message at ingress. Spec: K5.
        earliest_ms = auditor.rereader.earliest_ms(ranges)
        began_ms = max(0, self.extent.routed.began_ms() - SKEW_MS)
        for kafka, brokers in auditor.kafka_clusters.brokers.items():
            kinds = {p: self._kind(p) for p in self._places(kafka) if not self._is_said(p.topic)}
            ingress = brokers.ends(place for place, kind in kinds.items() if kind == INGRESS)
            endpoints = [place for place, kind in kinds.items() if kind == ENDPOINT]
            came = brokers.since(endpoints, earliest_ms)
            for place, begin in brokers.beginnings(endpoints).items():
                if begin > 0 and came.get(place, begin) <= begin:  # some of it may be consumed
                    auditor.state.consumed.lose(place, 0, begin - 1)
            begins = {
                **came,
                **brokers.since(
                    [p for p, kind in kinds.items() if kind not in (ENDPOINT, INGRESS)], began_ms
                ),
                **{p: ranges[p][0] if p in ranges else end for p, end in ingress.items()},
            }
            self.reached[kafka].update(begins)
            auditor.state.read.update(begins)

    def _read(self, is_wanted: Callable[[str], bool]) -> None:
        """Read what there is by now of some topics, and let the audits know it."""
        for kafka, brokers in self.auditor.kafka_clusters.brokers.items():
            asked_s = self.clock.now_s()
            reached = self.reached.setdefault(kafka, {})
            ends = brokers.stable_ends(self._places(kafka, is_wanted))
            news = {
                place: (reached.get(place, 0), self.extent.until(place, end))
                for place, end in ends.items()
            }
            for part in self._parts({p: (a, b) for p, (a, b) in news.items() if a < b}):
                self._take(kafka, part)
            self.auditor.lagging.clear()
            self.auditor.kafka_clusters.read[kafka] = asked_s

    def _parts(self, ranges: Ranges) -> Iterator[Ranges]:
        """Divide ranges into batches; topics with statements of nodes and clients come first."""
        part: dict[TopicPartition, tuple[int, int]] = {}
        room = self.auditor.offsets_max
        for place in sorted(ranges, key=lambda one: (not self._is_said(one.topic), one)):
            first, end = ranges[place]
            while first < end:
                until = min(end, first + room)
                part[place] = (first, until)
                room -= until - first
                first = until
                if not room:
                    yield part
                    part, room = {}, self.auditor.offsets_max
        if part:
            yield part

    def _take(self, kafka: str, ranges: Ranges) -> None:
        auditor = self.auditor
        batch = auditor.state.batches.get(kafka, -1) + 1
        self.reached[kafka].update({place: end for place, (_, end) in ranges.items()})
        before = deepcopy(auditor.state)
        try:
            rows = auditor.rows(auditor.rereader.records(kafka, ranges), self.reached[kafka])
            auditor.know(rows, kafka, batch)
        except Exception as error:
            failure = Failure.of(batch, error)
            if failure.is_transport:
                text = f"{kafka} could not be read: {failure.reason}"
                raise TransportUnavailableError(text) from error
            auditor.state = before
            auditor.absorb_the_sound(kafka, batch)
