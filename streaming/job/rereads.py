"""Reading ranges of Kafka again to name single messages: requests in, answers out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mesh.errors import RemoteProtocolError, TransportUnavailableError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.wire.keys import parse_subscription_key
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.lane_knowledge import EndKey
from streaming.audits.matching import is_filter
from streaming.audits.order import DeliverySuspicion
from streaming.audits.origins import FrameSuspicion
from streaming.audits.unwanted_deliveries import AbridgedDeliveries
from streaming.connectors import source
from streaming.connectors.session import interpreted
from streaming.connectors.small_reads import SmallReader, is_small_read
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.reread_answers import (
    Repeats,
    answers_of,
    lines_of,
    outcome_of,
    repeats_of,
)
from streaming.tables import exact
from streaming.tables.columns import parsed
from streaming.tables.rows import SourceKey, TopicPartition, UnwantedRow, unwanted_of


@dataclass(frozen=True, slots=True)
class Rereader:
    """Reads again.

    Attributes:
        session: Spark.
        topology: The mesh as its file says.
        kafka_clusters: Those that are audited.
        kafka: Options of Kafka's Java client by Kafka cluster.
        small_readers: Clients that read few records, by Kafka cluster, for one judgement at a time.
    """

    session: SparkSession
    topology: Topology
    kafka_clusters: AuditedKafkaClusters
    kafka: Mapping[str, Mapping[str, str]]
    small_readers: dict[str, SmallReader] = field(default_factory=dict)

    def _records(self, ranges: source.Ranges) -> DataFrame:
        """Return the records of ranges, wherever their topics are.

        What was deleted meanwhile is left out: a topic, or the beginning of its log.

        Raises:
            TransportUnavailableError: A Kafka cluster does not answer.
        """
        begins = self.kafka_clusters.beginnings(ranges)
        if not self.kafka_clusters.can_read(ranges):
            raise TransportUnavailableError("a Kafka cluster does not say where its logs begin")
        parts = [
            self._of(kafka, {place: ranges[place] for place in places}, begins, may_be_small=True)
            for kafka, places in self.kafka_clusters.by_home(begins).items()
        ]
        found = reduce(DataFrame.union, parts) if parts else source.nothing(self.session)
        return found.coalesce(1) if is_small_read(ranges) else found

    def records(self, kafka: str, ranges: source.Ranges) -> DataFrame:
        """Return the records of ranges of one Kafka cluster, also of nodes that nobody knows yet.

        Raises:
            TransportUnavailableError: It does not answer.
        """
        begins = self.kafka_clusters.brokers[kafka].beginnings(ranges)
        there = {place: range_ for place, range_ in ranges.items() if place in begins}
        return self._of(kafka, there, begins)

    def _of(
        self,
        kafka: str,
        ranges: source.Ranges,
        begins: Mapping[TopicPartition, int],
        *,
        may_be_small: bool = False,
    ) -> DataFrame:
        wanted = {
            place: (max(first, begins[place]), end)
            for place, (first, end) in ranges.items()
            if end > begins[place]
        }
        if not wanted:
            return source.nothing(self.session)
        if may_be_small and is_small_read(wanted):
            reader = self.small_readers.setdefault(
                kafka, SmallReader(self.session, self.kafka[kafka])
            )
            if (found := reader.read(wanted)) is not None:
                return found
        return source.again(self.session, self.kafka[kafka], wanted)

    def can_read(self, case: Case) -> bool:
        """Return whether all Kafka clusters answer that a case concerns."""
        endpoints = dict(_records_of(case, TopicNames(self.topology.prefix)))
        return self.kafka_clusters.can_read([case.place, *endpoints])

    def _by_little(self, ranges: source.Ranges) -> AbstractContextManager[None]:
        """Parse a few records in one Spark task: more tasks would cost more."""
        return interpreted(self.session) if is_small_read(ranges) else nullcontext()

    def _parsed(self, ranges: source.Ranges) -> DataFrame:
        topology = self.topology
        return parsed(self._records(ranges), topology.prefix, topology.max_message_bytes)

    def _requests(self, rows: Iterable[tuple[Any, ...]], columns: str) -> DataFrame:
        """Return a small frame, by the JVM alone: rows of Python would start workers of Python."""
        declared = [column.split() for column in columns.split(",")]
        names = [name.strip("`") for name, _ in declared]
        text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
        kind = ", ".join(f"{name}: {kind}" for name, kind in declared)
        inlined = F.inline(F.from_json(F.lit(text), f"array<struct<{kind}>>"))
        return self.session.range(0, 1, 1, 1).select(inlined)

    def cases(self, cases: Sequence[Case]) -> Sequence[CaseOutcome]:
        """Return what reading each case message by message has shown, in the order of `cases`."""
        names = TopicNames(self.topology.prefix)
        endpoints = [dict(_records_of(case, names)) for case in cases]
        asked = [*(case.place for case in cases), *(place for one in endpoints for place in one)]
        begins = self.kafka_clusters.beginnings(dict.fromkeys(asked))
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        rows: list[tuple[Any, ...]] = []
        wants: list[tuple[Any, ...]] = []
        generations: list[tuple[Any, ...]] = []
        for number, case in enumerate(cases):
            topics = {one: names.endpoint(one.node, one.name) for one in case.records}
            source_id = "" if case.source is None else case.source.topic_id
            first = max(case.first, begins.get(case.place, 0))
            span = (first, case.last, case.delivered_last)
            told = " ".join(["", *sorted(topics.values()), ""])
            rows.append((number, *case.place, *span, told, source_id, case.is_own, case.may_move))
            wants.extend(
                (number, want.pattern, want.first, want.last, want.is_must) for want in case.wants
            )
            generations.extend((number, *one) for one in case.generations)
            if case.last >= first:
                _widen(ranges, case.place, first, case.last + 1)
            for place, (first, last) in endpoints[number].items():
                _widen(ranges, place, first, last + 1)
        if not ranges:
            return [CaseOutcome(0, 0, is_cut=case.is_cut) for case in cases]
        with self._by_little(ranges):
            answers = exact.case_outcomes(
                self._parsed(ranges),
                self._requests(rows, exact.CASES),
                self._requests(wants, exact.WANTS),
                self._requests(generations, exact.GENERATIONS),
                is_alone=is_small_read(ranges),
            )
            outcomes = {fields["case"]: outcome_of(fields) for fields in answers_of(answers)}
        return [
            replace(
                outcomes[number],
                begin=begins.get(case.place, 0),
                is_cut=case.is_cut
                or any(begins.get(at, 0) > first for at, (first, _) in endpoint.items()),
            )
            for number, (case, endpoint) in enumerate(zip(cases, endpoints, strict=True))
        ]

    def asked(self, kafka: str, ranges: source.Ranges) -> Iterator[str]:
        """Yield the filters that ranges of topics of clients name.

        Raises:
            TransportUnavailableError: A Kafka cluster does not answer.
        """
        keys = self.records(kafka, ranges).select(F.col("key").cast("string")).distinct()
        for key in lines_of(keys.where(F.col("key").isNotNull())):
            with suppress(RemoteProtocolError):
                _, filter_ = parse_subscription_key(key.encode())
                if is_filter(filter_):
                    yield filter_

    def earliest_ms(self, ranges: source.Ranges) -> int:
        """Return the lowest time stamp of the records of ranges, ms since 1970; 0 if none has one.

        Raises:
            TransportUnavailableError: A Kafka cluster does not answer.
        """
        (told,) = lines_of(self._records(ranges).select(F.min(F.unix_millis("timestamp"))))
        return max(0, told or 0)

    def deliveries(
        self, doubts: Sequence[DeliverySuspicion], begins: Sequence[int]
    ) -> Sequence[Sequence[Repeats]]:
        """Return what each doubted stretch of deliveries holds twice or late.

        Args:
            doubts: What to look at.
            begins: From which offset of the endpoint topic on it can have been there before.
        """
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        rows = []
        for number, (doubt, begin) in enumerate(zip(doubts, begins, strict=True)):
            key = doubt.key
            rows.append((number, *key.endpoint, *key.source, key.generation, doubt.since))
            _widen(ranges, key.endpoint, min(begin, doubt.since), doubt.until + 1)
        with self._by_little(ranges):
            requests = self._requests(rows, exact.DELIVERY_REQUESTS)
            told = self._parsed(ranges), requests
            answers = exact.delivery_faults(*told, is_alone=is_small_read(ranges))
            return repeats_of(answers, len(doubts))

    def strange(self, doubts: Sequence[AbridgedDeliveries]) -> Sequence[UnwantedRow | None]:
        """Return what is strange in each stretch of direct deliveries; None: nothing."""
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        rows = []
        wanted = {one.pattern: number for number, one in enumerate(doubts)}
        for number, doubt in enumerate(doubts):
            row = doubt.row
            span = (row.record_first, row.record_last)
            rows.append((number, *row.place, *row.source, *span, wanted[doubt.pattern]))
            _widen(ranges, row.place, row.record_first, row.record_last + 1)
        with self._by_little(ranges):
            requests = self._requests(rows, exact.STRANGE_REQUESTS)
            patterns = self._requests([(at, one) for one, at in wanted.items()], exact.PATTERNS)
            told = self._parsed(ranges), requests, patterns
            answers = exact.strange_deliveries(*told, is_alone=is_small_read(ranges))
            found = {fields["request"]: unwanted_of(fields) for fields in answers_of(answers)}
        return [found.get(number) for number, _ in enumerate(doubts)]

    def frames(
        self, doubts: Sequence[FrameSuspicion], read: Mapping[TopicPartition, int]
    ) -> Sequence[Sequence[Repeats]]:
        """Return what each doubted stretch of frames holds twice or late.

        Args:
            doubts: What to look at.
            read: Where to stop in outboxes that are compared with each other.
        """
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        rows = []
        for number, doubt in enumerate(doubts):
            is_arrival = bool(doubt.receiver)
            key = (*doubt.source, doubt.generation, doubt.since, doubt.until, is_arrival)
            for outbox in doubt.outboxes:
                rows.append((number, *outbox, *key))
                end = read.get(outbox, 0) if is_arrival else doubt.until + 1
                _widen(ranges, outbox, 0, end)
        with self._by_little(ranges):
            requests = self._requests(rows, exact.FRAME_REQUESTS)
            told = self._records(ranges), requests
            answers = exact.frame_faults(*told, is_alone=is_small_read(ranges))
            return repeats_of(answers, len(doubts))

    def ends(self, keys: Sequence[EndKey]) -> Sequence[Mapping[SourceKey, int]]:
        """Return the last origin offset per source in the frames below each position."""
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        rows = []
        found: list[dict[SourceKey, int]] = [{} for _ in keys]
        for number, key in enumerate(keys):
            rows.append((number, *key.outbox, key.position))
            if key.position > 0:
                _widen(ranges, key.outbox, 0, key.position)
        if not ranges:
            return found
        requests = self._requests(rows, exact.END_REQUESTS)
        for fields in answers_of(exact.last_offsets(self._records(ranges), requests)):
            place = SourceKey(fields["source_id"], fields["source_partition"])
            found[fields["request"]][place] = fields["last"]
        return found


def _records_of(case: Case, names: TopicNames) -> Iterator[tuple[TopicPartition, tuple[int, int]]]:
    """Yield the endpoint partitions of a case, each with its lowest and highest offset."""
    for one, records in case.records.items():
        for partition, bounds in records.items():
            yield TopicPartition(names.endpoint(one.node, one.name), partition), bounds


def _widen(
    ranges: dict[TopicPartition, tuple[int, int]], place: TopicPartition, first: int, end: int
) -> None:
    known = ranges.get(place, (first, end))
    ranges[place] = (min(known[0], first), max(known[1], end))
