"""Whether an endpoint gets messages of one source in order, each once: of every class.

The fast tier compares offsets and only suspects; what it suspects is read again. Spec: lab.md 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.recent import Recent
from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition

SOURCES_MAX = 10_000
"""Sources that are followed in one endpoint partition, and paths of sources in one endpoint's
topic: anybody who may write there can make up more. Those silent for longest are forgotten, and
that is reported."""


class OrderKey(NamedTuple):
    """Messages of one source in one endpoint partition."""

    endpoint: TopicPartition
    source: SourceKey
    generation: int


@dataclass(frozen=True, slots=True)
class DeliverySuspicion:
    """Deliveries to read again.

    Attributes:
        key: Where, and messages of which source.
        since: Only records from this offset of the endpoint topic on are news.
        until: Read up to this offset.
        first: Lowest source offset among them.
        last: Highest one.
        reached: Highest one that had come before them.
    """

    key: OrderKey
    since: int
    until: int
    first: int = 0
    last: int = 0
    reached: int = -1


class GenerationKey(NamedTuple):
    """The messages of one generation of a source."""

    source: SourceKey
    generation: int


class WayKey(NamedTuple):
    """Messages of one source that came the same way.

    Where a walk moves, the partition may be another one: each node has as many as it was given.
    """

    source: SourceKey
    path: tuple[str, ...]


@dataclass(slots=True)
class Order:
    """What each endpoint got of each source.

    Attributes:
        reached: Highest source offset in each partition of an endpoint.
        partitions: Endpoint's topic -> the partition that messages are in.
        forgotten: Endpoint partitions of which something is not followed any more; taken with the
            batch.
    """

    reached: dict[TopicPartition, Recent[GenerationKey, int]] = field(default_factory=dict)
    partitions: dict[str, Recent[WayKey, int]] = field(default_factory=dict)
    forgotten: dict[TopicPartition, None] = field(init=False, compare=False, default_factory=dict)

    def absorb(self, rows: Sequence[DeliveryRow]) -> Iterator[DeliverySuspicion]:
        """Take the deliveries of a batch; yield what must be looked at closely."""
        groups: dict[OrderKey, list[DeliveryRow]] = {}
        for row in rows:
            if row.is_moved:
                continue  # late by right, and perhaps there once more
            groups.setdefault(OrderKey(row.place, row.source, row.generation), []).append(row)
        for key, group in groups.items():
            known = self.reached.setdefault(key.endpoint, Recent())
            of = GenerationKey(key.source, key.generation)
            reached = known.get(of, -1)
            if min(row.first for row in group) <= reached or any(row.late for row in group):
                yield DeliverySuspicion(
                    key,
                    min(row.record_first for row in group),
                    max(row.record_last for row in group),
                    min(row.first for row in group),
                    max(row.last for row in group),
                    reached,
                )
            if known.put(of, max(reached, *(row.last for row in group)), SOURCES_MAX):
                self.forgotten[key.endpoint] = None

    def astray(self, rows: Sequence[DeliveryRow]) -> Iterator[tuple[DeliveryRow, int]]:
        """Yield deliveries that are in another partition than those of their source before.

        There nothing tells their order, and of direct ones not whether one has come before: of
        guaranteed ones certificates do. Spec: K3.
        """
        for row in rows:
            if row.is_moved:
                continue
            known = self.partitions.setdefault(row.place.topic, Recent())
            key = WayKey(row.source, row.path)
            partition = known.get(key, row.place.partition)
            if known.put(key, partition, SOURCES_MAX):
                self.forgotten[row.place] = None
            if partition != row.place.partition:
                yield row, partition

    def take_forgotten(self) -> Sequence[TopicPartition]:
        """Return the endpoint partitions of which not all sources are followed any more, once."""
        taken = list(self.forgotten)
        self.forgotten.clear()
        return taken

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget what endpoints' topics held that are gone, whether others have their names."""
        for place in places:
            self.reached.pop(place, None)
            self.partitions.pop(place.topic, None)
