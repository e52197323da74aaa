"""When `--until-drained` ends: all is judged that was there when the auditor began. Spec: K29, K30.

A running mesh is never at rest: its nodes beat every second, and its clients may write on. So what
counts is what was written before. All of that is read; what was published before is certified, or
waits for what stands still, and that is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from mesh.errors import TransportUnavailableError
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.state import State
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import CONFIG, place_of

DRAIN_STILL_S = 90.0
"""What has not moved for so long is not waited for any more, in seconds: longer than anything that
the auditor judges by its clock."""

STILL_LOOKS = 10
"""Looks that must have found it so: a batch may take longer than `DRAIN_STILL_S`."""

ASK_EVERY_S = 15.0
"""A Kafka cluster that did not say where its logs end is asked again after so long, in seconds."""


@dataclass(slots=True)
class AuditorDrain:
    """What is waited for until the auditor ends.

    Attributes:
        ends: Kafka cluster -> where its audited partitions ended when the auditor began.
        read: What of that has been read; a topic that is deleted later is forgotten.
        asked_s: Kafka cluster -> when it was asked that, on the auditor's clock.
        read_s: When all of that had been read; None before.
        doubts: What had to be read again at that moment.
        left: What is not judged, for people, as of the last look.
        since_s: Since when that is so.
        looks: How many looks have found it so.
    """

    ends: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    read: dict[TopicPartition, None] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    read_s: float | None = None
    doubts: Sequence[object] = ()
    left: Sequence[str] = ()
    since_s: float = 0.0
    looks: int = 0

    def ask(self, kafka_clusters: AuditedKafkaClusters, now_s: float) -> None:
        """Learn where logs end; an open transaction ends after the auditor began."""
        for kafka in filter(kafka_clusters.is_needed, kafka_clusters.brokers):
            is_due = now_s - self.asked_s.get(kafka, -inf) >= ASK_EVERY_S
            if kafka in self.ends or not is_due:
                continue
            self.asked_s[kafka] = now_s
            try:
                places = kafka_clusters.places(kafka, partial(_counts, kafka_clusters, kafka))
                self.ends[kafka] = kafka_clusters.brokers[kafka].stable_ends(places)
            except TransportUnavailableError:
                continue

    def look(self, state: State, kafka_clusters: AuditedKafkaClusters, now_s: float) -> bool:
        """Say after a judgement whether nothing is waited for any more.

        Args:
            state: The audits.
            kafka_clusters: The Kafka clusters.
            now_s: The auditor's clock, in seconds.
        """
        left = tuple(self._left(state, kafka_clusters, now_s))
        if left == self.left:
            self.looks += 1
        else:
            self.left, self.since_s, self.looks = left, now_s, 1
        is_still = self.looks >= STILL_LOOKS and now_s - self.since_s >= DRAIN_STILL_S
        return not left or is_still

    def _left(
        self, state: State, kafka_clusters: AuditedKafkaClusters, now_s: float
    ) -> Iterator[str]:
        unread = list(self._unread(state, kafka_clusters))
        if unread:
            yield from unread
            return
        if self.read_s is None:
            self.read_s = now_s
            self.doubts = tuple(_doubts(state))
        yield from self._uncertified(state)
        unplaced, read_s = state.certifier.blocks.unplaced, self.read_s
        for stranger_key, (since_s, _) in unplaced.parked.items():
            if since_s <= read_s:
                yield f"{stranger_key.topic} has messages of an unknown topic"
        for late_key, late in unplaced.late.items():
            if late.since_s <= read_s:
                yield f"{late_key.endpoint} got messages of {late_key.place} late"
        left = _doubts(state)
        for doubt in self.doubts:
            if doubt in left:
                yield "what looks wrong is not read again yet"

    def _unread(self, state: State, kafka_clusters: AuditedKafkaClusters) -> Iterator[str]:
        for kafka in kafka_clusters.counted:
            if kafka not in self.ends:
                yield f"{kafka} does not say where its logs end"
            for place, end in self.ends.get(kafka, {}).items():
                if (read := state.read.get(place, 0)) >= end:
                    self.read[place] = None
                elif place not in self.read:
                    yield f"{place} is read up to {read} of {end}"

    def _uncertified(self, state: State) -> Iterator[str]:
        """Yield what waits of the blocks that had begun; what came since then may wait on."""
        ends = {str(place): end for told in self.ends.values() for place, end in told.items()}
        issued = {
            f"{one.source} {one.block} {one.endpoint}": one.last
            for _, _, block in state.certifier.blocks.walk()
            for one in block.issued.values()
        }
        for one in state.certifier.waiting:
            end = ends.get(one.source, 0)
            is_begun = one.block * BLOCK_OFFSETS < end
            needed = min(end - 1, one.last)
            if is_begun and issued.get(f"{one.source} {one.block} {one.endpoint}", -1) < needed:
                yield f"{one.source} block {one.block} for {one.endpoint}: {one.reason}"


def _doubts(state: State) -> Sequence[object]:
    """Return what has to be read again."""
    return [*state.delivery_doubts, *state.frame_doubts, *state.unwanted.abridged]


def _counts(kafka_clusters: AuditedKafkaClusters, kafka: str, topic: str) -> bool:
    is_config = place_of(kafka_clusters.prefix, topic).kind == CONFIG
    return not is_config and kafka_clusters.is_at_home(kafka, topic)
