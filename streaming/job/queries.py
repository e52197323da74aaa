"""One streaming query for each Kafka cluster: one that fails is started again, alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mesh.errors import (
    ConfigError,
    MeshError,
    Problem,
    TransportFencedError,
    TransportUnavailableError,
)
from mesh.model.patience import Patience
from streaming.connectors import source
from streaming.connectors.checkpoint import has_plan
from streaming.connectors.failures import reason_of
from streaming.connectors.logs import Logs
from streaming.connectors.options import java_options
from streaming.job.auditor import Auditor
from streaming.job.outages import KafkaOutages
from streaming.job.spoiled_batches import Failure
from streaming.tables.rows import MicroBatch
from streaming.tables.topics import audited_pattern

AGAIN_S = Patience(5.0, 60.0)
"""When a query that has failed is started again."""

MADE_S = 5.0
"""For a batch that takes longer than this, in seconds, no judgement waits."""

ROUSED_S = 2.0
"""A query that has waited for a trigger begins to ask again within this time, in seconds."""


@dataclass(slots=True)
class Query:
    """The query of one Kafka cluster.

    Attributes:
        stream: Spark's; None before it starts and after it failed.
        failures: In a row.
        again_s: When to start it again.
        failure: Why the last batch was not taken.
        reason: The same for people; empty where Spark alone knows.
        waited_s: When the query was seen to wait: the newest ones, and one of before.
        is_spoiled: Whether the same batch has failed before for the same reason, which lies in
            its records.
        begun_s: When the batch began that is made or judged just now, if there is one.
    """

    stream: Any = None
    failures: int = 0
    again_s: float = 0.0
    failure: Failure | None = None
    reason: str = ""
    is_spoiled: bool = False
    begun_s: float | None = None
    waited_s: deque[float] = field(default_factory=deque)

    def note(self, batch: int, error: Exception) -> None:
        """Note that a batch was not taken."""
        self.reason = reason_of(error)
        failure = Failure.of(batch, error)
        self.is_spoiled = self.is_spoiled or failure.is_again(self.failure)
        self.failure = failure

    def taken(self) -> None:
        """Note that a batch was taken."""
        self.failures, self.failure, self.reason, self.is_spoiled = 0, None, "", False

    def waits(self, now_s: float, waits_s: float) -> float | None:
        """Note that the query waits; return before when all has been read that was written.

        It asked where logs end before this wait began, and after it was last seen to wait before
        that, however long Kafka took to answer.

        Args:
            now_s: The auditor's clock, in seconds.
            waits_s: No wait lasts longer.
        """
        self.waited_s.append(now_s)
        while len(self.waited_s) > 1 and self.waited_s[1] < now_s - waits_s:
            self.waited_s.popleft()
        return self.waited_s[0] if self.waited_s[0] < now_s - waits_s else None


@dataclass(slots=True)
class Queries:
    """The queries of all Kafka clusters, and what goes wrong with them.

    Attributes:
        session: Spark.
        auditor: What the batches are for.
        kafka: Options of Kafka's Java client by Kafka cluster; those that come are added.
        checkpoint: Folder of Spark's checkpoints, one for each Kafka cluster.
        trigger_s: Least time between two micro-batches, in seconds.
        outages: Tells people what they are to know, and which Kafka clusters cannot be read.
        lock: Held while the auditor works.
        fatal: What no second attempt can mend.
        by_kafka: The query of each Kafka cluster.
    """

    session: SparkSession
    auditor: Auditor
    kafka: dict[str, Mapping[str, str]]
    checkpoint: Path
    trigger_s: float
    outages: KafkaOutages
    lock: threading.Lock = field(default_factory=threading.Lock)
    fatal: MeshError | None = None
    by_kafka: dict[str, Query] = field(default_factory=dict)
    _watched: dict[str, Logs] = field(init=False, default_factory=dict)

    @property
    def stopping(self) -> threading.Event:
        """Set when the auditor shall end."""
        return self.outages.stopping

    def watched(self) -> Mapping[str, Logs]:
        """Return the Kafka clusters that are needed, each with a client for this question alone."""
        needed = [*filter(self.auditor.kafka_clusters.is_needed, sorted(self.kafka))]
        for kafka in needed:
            if kafka not in self._watched:
                self._watched[kafka] = Logs(self.session, self.kafka[kafka])
        return {kafka: self._watched[kafka] for kafka in needed}

    def look(self) -> None:
        """Start what is due, tell what has failed, and find Kafka clusters that have come.

        Raises:
            MeshError: The auditor cannot go on.
        """
        self._find_others()
        self._leave_others()
        for kafka in filter(self.auditor.kafka_clusters.is_needed, sorted(self.kafka)):
            query = self.by_kafka.setdefault(kafka, Query())
            if self.fatal is not None:
                raise self.fatal
            if query.stream is not None and not query.stream.isActive:
                self._failed(kafka, query, query.reason or _reason(query.stream))
            elif query.stream is not None and _has_taken(query.stream):
                self.auditor.kafka_clusters.unread.pop(kafka, None)
                if _is_waiting(query.stream):
                    self._has_read(kafka, query)
            if query.stream is None and time.monotonic() >= query.again_s:
                self._start(kafka, query)

    def _has_read(self, kafka: str, query: Query) -> None:
        read, waits_s = self.auditor.kafka_clusters.read, self.trigger_s + ROUSED_S
        read_s = query.waits(time.monotonic(), waits_s)
        if read_s is not None:
            read[kafka] = max(read_s, read.get(kafka, read_s))

    def _leave_others(self) -> None:
        """Read no further where no node is any more, or is not yet: it holds nobody up."""
        is_needed = self.auditor.kafka_clusters.is_needed
        for kafka in [one for one in self.by_kafka if not is_needed(one)]:
            stream = self.by_kafka.pop(kafka).stream
            if stream is not None:
                stream.stop()
            self.outages.end(kafka)
            self.outages.say(f"{kafka} is not read any more: no node is there")
        unread = self.auditor.kafka_clusters.unread
        for kafka in [one for one in unread if not is_needed(one)]:
            unread.pop(kafka, None)

    def _start(self, kafka: str, query: Query) -> None:
        self.auditor.kafka_clusters.unread.setdefault(kafka, "nothing of it has been read yet")
        self._check_checkpoint(kafka)
        query.waited_s = deque([time.monotonic()])  # it asks for the first time after this
        pattern = audited_pattern(self.auditor.topology.prefix)
        options, bound = self.kafka[kafka], self.auditor.offsets_max
        kafka_clusters = self.auditor.kafka_clusters
        try:
            # Each Kafka cluster has the same part of what is for consumers.
            count = len(kafka_clusters.places(kafka, lambda _: True))
            count *= sum(map(kafka_clusters.is_needed, self.kafka))
        except TransportUnavailableError as error:
            self._failed(kafka, query, reason_of(error))
            return
        query.stream = (
            source.live(self.session, options, pattern, bound, count)
            .writeStream.foreachBatch(self._taker(kafka))
            .queryName(f"audit-{kafka}")
            .option("checkpointLocation", str(self.checkpoint / kafka))
            .trigger(processingTime=f"{int(self.trigger_s * 1000)} milliseconds")
            .start()
        )

    def _check_checkpoint(self, kafka: str) -> None:
        """Refuse to start over where the state goes on.

        Raises:
            ConfigError: Spark does not know how far the state had come.
        """
        batch = self.auditor.state.batches.get(kafka, -1)
        where = self.checkpoint / kafka
        if batch >= 0 and not has_plan(where, batch):
            message = f"does not know batch {batch} of the state beside it; remove both"
            raise ConfigError([Problem(code="CHECKPOINT", message=message, where=str(where))])

    def _taker(self, kafka: str) -> Callable[[DataFrame, int], None]:
        def take(records: DataFrame, batch: int) -> None:
            query = self.by_kafka[kafka]
            query.begun_s = time.monotonic()
            try:
                if self.auditor.is_news(kafka, batch):
                    # Others may be taken while the rows are made.
                    ends = self.auditor.positions(kafka, batch)
                    rows = None if query.is_spoiled else self.auditor.rows(records, ends)
                    with self.lock:
                        self._absorb(rows, kafka, batch)
            except (ConfigError, TransportFencedError) as error:
                self.fatal = error
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, the batch comes again
                query.note(batch, error)
                # Spark matches all that an error says, by an expression that goes as deep as the
                # text is long: with the traces of Java in it, that overflows the stack.
                raise TransportUnavailableError(query.reason) from None
            finally:
                query.begun_s = None
            self.auditor.kafka_clusters.unread.pop(kafka, None)
            self.outages.end(kafka)
            query.taken()

        return take

    def is_taking(self, now_s: float) -> bool:
        """Return whether a batch is made just now: all is judged when that is done.

        Args:
            now_s: The auditor's clock, in seconds.
        """
        begun = [one.begun_s for one in self.by_kafka.values()]
        return any(one is not None and now_s - one < MADE_S for one in begun)

    def _absorb(self, rows: MicroBatch | None, kafka: str, batch: int) -> None:
        """Take the small rows of a batch; without them, what of it can be taken."""
        if self.stopping.is_set():
            # Not committed: the next run takes this batch.
            raise TransportUnavailableError("the auditor is stopping")
        try:
            if rows is None:
                self.outages.say(f"{kafka}: batch {batch} is spoiled, and read again in parts")
                self.auditor.absorb_the_sound(kafka, batch)
            else:
                self.auditor.absorb(rows, kafka, batch)
        except BaseException:
            self.auditor.restore()  # half a batch was taken
            # Not all has been read that was written before it.
            self.auditor.kafka_clusters.read.pop(kafka, None)
            raise

    def _failed(self, kafka: str, query: Query, reason: str) -> None:
        query.stream, query.reason = None, ""
        query.failures += 1
        query.again_s = time.monotonic() + AGAIN_S.nth(query.failures - 1)
        self.outages.tell(kafka, f"could not be read: {reason}")
        with self.lock:
            self.auditor.kafka_clusters.unread[kafka] = reason

    def _find_others(self) -> None:
        """Read the Kafka clusters too that a change of the topology has brought.

        The record says where they are; credentials it does not have. Spec: K28.
        """
        topology = self.auditor.state.eras.linked()[-1]
        used = {node.kafka: None for node in topology.nodes.values()}
        for kafka in used:
            if kafka in self.kafka:
                continue
            options = topology.kafka[kafka].options
            if "bootstrap.servers" not in options:
                reason = f"nobody says where it is; give --bootstrap {kafka}=HOST:PORT"
                self.auditor.kafka_clusters.unread[kafka] = reason
                continue
            try:
                self.kafka[kafka] = java_options(options, f"spec.kafka.{kafka}")
            except ConfigError as error:
                self.auditor.kafka_clusters.unread[kafka] = str(error)
                continue
            self.auditor.kafka_clusters.unread.pop(kafka, None)
            self.auditor.kafka_clusters.brokers[kafka] = Logs(self.session, self.kafka[kafka])
            self.outages.say(f"reading {kafka} too, which a change of the topology has brought")

    def stop(self) -> None:
        """Stop all queries."""
        for query in self.by_kafka.values():
            if query.stream is not None:
                query.stream.stop()


def _has_taken(stream: Any) -> bool:
    """Return whether a query has looked once.

    What it says of that is not read: PySpark takes it apart by walks through Java's collections,
    and for the end of each it asks what kind of exception that is, ten times, in all jars.
    """
    return stream._jsq.lastProgress() is not None  # noqa: SLF001  # not in Python's own API


def _is_waiting(stream: Any) -> bool:
    if stream is None:
        return False
    status = stream.status
    return bool(status["message"].startswith("Waiting") and not status["isDataAvailable"])


def _reason(stream: Any) -> str:
    return reason_of(stream.exception() or "it ended")
