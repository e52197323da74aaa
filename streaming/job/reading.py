"""One streaming query for each Kafka cluster: one that fails is started again, alone."""

from __future__ import annotations

import re
import threading
import time
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
from streaming.connectors import source
from streaming.connectors.checkpoint import has_plan
from streaming.connectors.logs import Logs
from streaming.connectors.options import java_options
from streaming.job.auditor import Auditor
from streaming.job.sifting import Failure
from streaming.tables.rows import Batch
from streaming.tables.topics import audited_pattern

AGAIN_S = 5.0
"""A query that has failed is started again after so long, in seconds; twice as long each time."""

AGAIN_MAX_S = 60.0

ASKED_S = 2.0
"""A query that waits has asked where the logs end not longer ago than a trigger and this."""


@dataclass(slots=True)
class Reading:
    """The query of one Kafka cluster.

    Attributes:
        query: Spark's; None before it starts and after it failed.
        failures: In a row.
        again_s: When to start it again.
        failure: Why the last batch was not taken.
        reason: The same for people; empty where Spark alone knows.
        is_spoiled: Whether the same batch has failed before for the same reason, which lies in
            its records.
    """

    query: Any = None
    failures: int = 0
    again_s: float = 0.0
    failure: Failure | None = None
    reason: str = ""
    is_spoiled: bool = False

    def note(self, batch: int, error: Exception) -> None:
        """Note that a batch was not taken."""
        self.reason = _told(str(error))
        failure = Failure.of(batch, error)
        self.is_spoiled = self.is_spoiled or failure.is_again(self.failure)
        self.failure = failure

    def taken(self) -> None:
        """Note that a batch was taken."""
        self.failures, self.failure, self.reason, self.is_spoiled = 0, None, "", False


@dataclass(slots=True)
class Readings:
    """The queries of all Kafka clusters, and what goes wrong with them.

    Attributes:
        session: Spark.
        auditor: What the batches are for.
        kafka: Options of Kafka's Java client by Kafka cluster; those that come are added.
        checkpoint: Folder of Spark's checkpoints, one for each Kafka cluster.
        trigger_s: Least time between two micro-batches, in seconds.
        say: Tells a person.
        lock: Held while the auditor works.
        stopping: Set when the auditor shall end.
        fatal: What no second attempt can mend.
    """

    session: SparkSession
    auditor: Auditor
    kafka: dict[str, Mapping[str, str]]
    checkpoint: Path
    trigger_s: float
    say: Callable[[str], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)
    fatal: MeshError | None = None
    readings: dict[str, Reading] = field(default_factory=dict)

    def look(self) -> None:
        """Start what is due, tell what has failed, and find Kafka clusters that have come.

        Raises:
            MeshError: The auditor cannot go on.
        """
        self._find_others()
        self._leave_others()
        for kafka in filter(self.auditor.sources.is_needed, sorted(self.kafka)):
            reading = self.readings.setdefault(kafka, Reading())
            if self.fatal is not None:
                raise self.fatal
            if reading.query is not None and not reading.query.isActive:
                self._failed(kafka, reading, reading.reason or _reason(reading.query))
            elif reading.query is not None and _has_taken(reading.query):
                self.auditor.sources.unread.pop(kafka, None)
                if _is_waiting(reading.query):
                    self.auditor.sources.read[kafka] = time.monotonic() - self.trigger_s - ASKED_S
            if reading.query is None and time.monotonic() >= reading.again_s:
                self._start(kafka, reading)

    def _leave_others(self) -> None:
        """Read no further where no node is any more, or is not yet: it holds nobody up."""
        is_needed = self.auditor.sources.is_needed
        for kafka in [one for one in self.readings if not is_needed(one)]:
            query = self.readings.pop(kafka).query
            if query is not None:
                query.stop()
            self.say(f"{kafka} is not read any more: no node is there")
        unread = self.auditor.sources.unread
        for kafka in [one for one in unread if not is_needed(one)]:
            unread.pop(kafka, None)

    def _start(self, kafka: str, reading: Reading) -> None:
        self.auditor.sources.unread.setdefault(kafka, "nothing of it has been read yet")
        self._check_checkpoint(kafka)
        pattern = audited_pattern(self.auditor.topology.prefix)
        options, bound = self.kafka[kafka], self.auditor.offsets_max
        reading.query = (
            source.live(self.session, options, pattern, bound)
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
            reading = self.readings[kafka]
            try:
                if self.auditor.is_news(kafka, batch):
                    # Others may be taken while the rows are made.
                    ends = self.auditor.positions(kafka, batch)
                    rows = None if reading.is_spoiled else self.auditor.rows(records, ends)
                    with self.lock:
                        self._absorb(rows, kafka, batch)
            except (ConfigError, TransportFencedError) as error:
                self.fatal = error
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, the batch comes again
                reading.note(batch, error)
                # Spark matches all that an error says, by an expression that goes as deep as the
                # text is long: with the traces of Java in it, that overflows the stack.
                raise TransportUnavailableError(reading.reason) from None
            self.auditor.sources.unread.pop(kafka, None)
            reading.taken()

        return take

    def _absorb(self, rows: Batch | None, kafka: str, batch: int) -> None:
        """Take the small rows of a batch; without them, what of it can be taken."""
        if self.stopping.is_set():
            # Not committed: the next run takes this batch.
            raise TransportUnavailableError("the auditor is stopping")
        try:
            if rows is None:
                self.say(f"{kafka}: batch {batch} is spoiled, and read again in parts")
                self.auditor.absorb_the_sound(kafka, batch)
            else:
                self.auditor.absorb(rows, kafka, batch)
        except BaseException:
            self.auditor.restore()  # half a batch was taken
            self.auditor.sources.read.pop(kafka, None)  # and so not all that was written before it
            raise

    def _failed(self, kafka: str, reading: Reading, reason: str) -> None:
        reading.query, reading.reason = None, ""
        reading.failures += 1
        wait_s = min(AGAIN_S * 2 ** (reading.failures - 1), AGAIN_MAX_S)
        reading.again_s = time.monotonic() + wait_s
        if reading.failures == 1:
            self.say(f"{kafka} is not read, and asked again: {reason}")
        with self.lock:
            self.auditor.sources.unread[kafka] = reason

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
                self.auditor.sources.unread[kafka] = reason
                continue
            try:
                self.kafka[kafka] = java_options(options, f"spec.kafka.{kafka}")
            except ConfigError as error:
                self.auditor.sources.unread[kafka] = str(error)
                continue
            self.auditor.sources.unread.pop(kafka, None)
            self.auditor.sources.brokers[kafka] = Logs(self.session, self.kafka[kafka])
            self.say(f"reading {kafka} too, which a change of the topology has brought")

    def stop(self) -> None:
        """Stop all queries."""
        for reading in self.readings.values():
            if reading.query is not None:
                reading.query.stop()


def _has_taken(query: Any) -> bool:
    """Return whether a query has looked once.

    What it says of that is not read: PySpark takes it apart by walks through Java's collections,
    and for the end of each it asks what kind of exception that is, ten times, in all jars.
    """
    return query._jsq.lastProgress() is not None  # noqa: SLF001  # not in Python's own API


def _is_waiting(query: Any) -> bool:
    if query is None:
        return False
    status = query.status
    return bool(status["message"].startswith("Waiting") and not status["isDataAvailable"])


def _reason(query: Any) -> str:
    return _told(str(query.exception() or "it ended"))


def _told(text: str) -> str:
    """Return the innermost cause that a text tells, in one line."""
    lines = [line.strip() for line in text.split("\n")]
    told = [line for line in lines if line.startswith(("Caused by", "org.apache.kafka"))]
    reason = (told[-1] if told else lines[0]).removeprefix("Caused by: ")
    return re.sub(r"^[a-zA-Z]+(\.\w+)+: ", "", reason)[:300]
