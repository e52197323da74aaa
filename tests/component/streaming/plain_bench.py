"""An auditor over what a mesh wrote, without Spark: for many small meshes in little time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from streaming.job.auditor import Auditor
from streaming.job.batches import BatchContext
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.rereads import Rereader
from streaming.tables.rows import MicroBatch, TopicPartition
from tests.component.streaming.plain_rereads import PlainRereader
from tests.component.streaming.plain_rows import Rows, Seen
from tests.streaming.conftest import Bench
from tests.streaming.trial import Trial


class PlainAuditor(Auditor):
    """Makes the rows of a batch itself."""

    def rows(self, records: Any, ends: Mapping[TopicPartition, int] | None = None) -> MicroBatch:
        bundles = self.bundler.of(self._read_on(ends or {}), is_small=True)
        known = BatchContext(self.topology, self.wanted, self.asked, bundles)
        return self.extent.only(Rows(records, known).batch(), self.state.names)


class PlainBench(Bench):
    """A bench whose records are plain ones."""

    auditor_class: ClassVar[type[Auditor]] = PlainAuditor

    def reader(self, kafka_clusters: AuditedKafkaClusters) -> Rereader:
        return PlainRereader(self.spark, self.topology, kafka_clusters, {}, look=self.look)

    def look(self, place: TopicPartition, first: int, end: int) -> Iterator[Seen]:
        """Yield the records of a stretch of a partition."""
        log = self.plant.logs.get((place.topic, place.partition), [])
        begin = max(first, self.begins.get(place, 0))
        for offset in range(begin, min(end, len(log))):
            if (record := log[offset]) is not None:
                yield Seen(place, offset, record, self.topology.prefix)

    def records(self, places: Sequence[tuple[str, int]]) -> Any:
        return [
            one
            for at in places
            for one in self.look(
                TopicPartition(*at),
                self.taken.get(at, 0),
                self.ends.get(at, len(self.plant.logs[at])),
            )
        ]


class PlainTrial(Trial):
    """A drawn mesh that is judged so."""

    bench_class: ClassVar[type[Bench]] = PlainBench
