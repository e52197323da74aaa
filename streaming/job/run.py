"""Start, run and end the auditor: one streaming query, one lock, one thread that looks after it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mesh.errors import ConfigError, MeshError, Problem, TransportUnavailableError
from mesh.model.topics import TopicNames
from streaming.config import AuditSettings
from streaming.connectors import source
from streaming.connectors.beginnings import beginnings
from streaming.connectors.checkpoint import has_plan, read_positions
from streaming.connectors.options import java_options
from streaming.connectors.session import start_session
from streaming.connectors.sink import AuditTopics
from streaming.job.auditor import IDLE_S, Auditor
from streaming.job.outputs import TABLES
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import audited_pattern, place_of

CORES = 2

PULSE_S = 0.2
"""How often the main thread looks around."""

JUDGE_S = 1.0
"""How often open ranges are judged while no batch comes, in seconds."""


def say(text: str) -> None:
    """Tell a person on stderr."""
    print(f"audit: {text}", file=sys.stderr, flush=True)  # noqa: T201


@dataclass(slots=True)
class Supervisor:
    """Runs the query and judges when no batch comes.

    Attributes:
        auditor: What the batches are for.
        lock: Held while the auditor works.
        stopping: Set when the auditor shall end.
        failure: What ended a batch, if it was an error of ours.
    """

    auditor: Auditor
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)
    failure: MeshError | None = None

    def take(self, records: DataFrame, batch: int) -> None:
        """Take a micro-batch; Spark calls this from a thread of its own."""
        with self.lock:
            if self.stopping.is_set():
                # Not committed: the next run takes this batch.
                raise TransportUnavailableError("the auditor is stopping")
            try:
                self.auditor.take(records, batch)
            except MeshError as error:
                self.failure = error
                raise

    def watch(self, query: Any, *, until_drained: bool) -> None:
        """Wait until the auditor shall end or its query has died.

        Raises:
            MeshError: The query died.
        """
        judged_s = time.monotonic()
        while not self.stopping.wait(PULSE_S):
            if not query.isActive:
                raise self.failure or TransportUnavailableError(_reason(query))
            now_s = time.monotonic()
            quiet_s = now_s - self.auditor.batch_at_s
            if quiet_s < JUDGE_S or now_s - judged_s < JUDGE_S:
                continue
            if self.lock.acquire(blocking=False):
                try:
                    self.auditor.judge()
                finally:
                    self.lock.release()
                judged_s = time.monotonic()
            if until_drained and quiet_s >= IDLE_S and self._is_drained(query):
                return

    def _is_drained(self, query: Any) -> bool:
        status = query.status
        is_waiting = status["message"].startswith("Waiting") and not status["isDataAvailable"]
        state = self.auditor.state
        return is_waiting and state.batch >= 0 and not state.certifier.waiting

    def end(self, query: Any) -> None:
        """Certify open ranges, publish them and stop the query."""
        self.stopping.set()
        with self.lock:
            if query.isActive:
                self.auditor.judge(is_last=True)
        query.stop()


def _reason(query: Any) -> str:
    lines = str(query.exception() or "it ended").strip().split("\n")
    return f"the query died: {lines[0][:300]}"


def run(settings: AuditSettings) -> None:
    """Audit until a signal comes, or until all is certified if the settings say so.

    Raises:
        ConfigError: An option of a Kafka cluster has no counterpart in Kafka's Java client.
        MeshError: The auditor cannot start, or its query died.
    """
    kafka = {
        name: java_options(options, f"spec.kafka.{name}")
        for name, options in settings.kafka.items()
    }
    session = start_session(settings.cache, cores=CORES, memory=settings.memory, progress=say)
    try:
        _audit(session, settings, kafka)
    finally:
        session.stop()
    say("stopped")


def _audit(
    session: SparkSession, settings: AuditSettings, kafka: Mapping[str, Mapping[str, str]]
) -> None:
    topology = settings.topology
    names = TopicNames(topology.prefix)
    topics = AuditTopics(session, kafka[topology.audit_kafka])
    topics.create([names.audit(table) for table in TABLES])
    checkpoint = settings.checkpoint / "spark"
    rereader = Rereader(session, topology, kafka)
    auditor = Auditor(
        topology=topology,
        rereader=rereader,
        snapshots=Snapshots(settings.checkpoint / "state", State),
        write=topics.write,
        positions=lambda batch: read_positions(checkpoint, batch),
        beginnings=lambda places: _beginnings(rereader, places),
        tasks=CORES,
        offsets_max=settings.offsets_max,
    )
    if auditor.state.batch >= 0 and not has_plan(checkpoint, auditor.state.batch):
        message = f"does not know batch {auditor.state.batch} of the state beside it; remove both"
        raise ConfigError([Problem(code="CHECKPOINT", message=message, where=str(checkpoint))])
    supervisor = Supervisor(auditor)
    _on_signals(supervisor.stopping)
    pattern = audited_pattern(topology.prefix)
    query = (
        source.live(session, kafka, pattern, settings.offsets_max)
        .writeStream.foreachBatch(supervisor.take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{int(settings.trigger_s * 1000)} milliseconds")
        .start()
    )
    say(f"reading {len(kafka)} Kafka clusters, from batch {auditor.state.batch + 1}")
    try:
        supervisor.watch(query, until_drained=settings.until_drained)
    finally:
        supervisor.end(query)
        topics.close()


def _beginnings(
    rereader: Rereader, places: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return where logs begin, whichever Kafka cluster they are in."""
    clusters: dict[str, list[TopicPartition]] = {}
    for place in places:
        node = place_of(rereader.topology.prefix, place.topic).node
        home = rereader.homes.get(node, "")
        if home in rereader.kafka:  # a topic of a node that no topology knows ends nothing
            clusters.setdefault(home, []).append(place)
    found: dict[TopicPartition, int] = {}
    for name, wanted in sorted(clusters.items()):
        found.update(beginnings(rereader.session, rereader.kafka[name], wanted))
    return found


def _on_signals(stopping: threading.Event) -> None:
    def stop(number: int, _: FrameType | None) -> None:
        say(f"{signal.Signals(number).name}: certifying what is open")
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
