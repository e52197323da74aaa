"""Start, run and end the auditor."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from secrets import token_hex
from types import FrameType
from typing import TypeVar

from pyspark.sql import SparkSession

from mesh.errors import StartError
from mesh.model.topics import TopicNames
from streaming.audits.canaries import Canaries
from streaming.config import SPARK, STATE, AuditSettings
from streaming.connectors.checkpoint import read_positions
from streaming.connectors.logs import Logs
from streaming.connectors.options import java_options
from streaming.connectors.session import STEADY_JVM, YOUNG_JVM, start_session
from streaming.connectors.sink import AuditTopics, SinkRecord
from streaming.job.auditor import Auditor
from streaming.job.canaries import Flock
from streaming.job.drain import DRAIN_STILL_S, AuditorDrain
from streaming.job.former import former_findings
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outages import KafkaOutages
from streaming.job.outputs import TABLES
from streaming.job.port import AuditPort
from streaming.job.publisher import STATUS_EVERY_S
from streaming.job.queries import Queries
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.supervisor import PULSE_S, QuerySupervisor
from streaming.tables.rows import TopicPartition

T = TypeVar("T")

AUDITOR_SILENT_S = STATUS_EVERY_S + 1.5
"""An auditor that lives is not silent for so long, in seconds."""

LEFT_MAX = 20
"""Lines that tell what was left when nothing more was waited for."""


def say(text: str) -> None:
    """Write a line to stderr."""
    print(f"audit: {text}", file=sys.stderr, flush=True)  # noqa: T201


def options_of(settings: AuditSettings, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the options of some Kafka clusters as Spark's client wants them.

    Raises:
        ConfigError: An option has no counterpart in Kafka's Java client.
    """
    return {name: java_options(settings.kafka[name], f"spec.kafka.{name}") for name in names}


def session_of(settings: AuditSettings) -> SparkSession:
    """Start Spark as the settings say.

    Raises:
        StartError: Java or the jars could not be had.
    """
    return start_session(
        settings.cache,
        cores=settings.cores,
        memory=settings.memory,
        master=settings.master,
        jvm=YOUNG_JVM if settings.is_brief else STEADY_JVM,
        compiles=not settings.is_brief,
        progress=say,
    )


def run(settings: AuditSettings) -> bool:
    """Audit until a signal comes, or until all is judged that was there if the settings say so.

    Returns:
        Whether nothing was left that had been waited for.

    Raises:
        ConfigError: An option of a Kafka cluster has no counterpart in Kafka's Java client.
        MeshError: The auditor cannot start, or cannot write what it finds.
    """
    kafka = options_of(settings, settings.kafka)
    port = AuditPort()
    if settings.listen is not None:
        port.start(settings.listen)
    session = session_of(settings)
    try:
        left = _audit(session, settings, kafka, port)
    finally:
        session.stop()
        port.stop()
    say("stopped")
    return not left


def _audit(
    session: SparkSession,
    settings: AuditSettings,
    kafka: dict[str, Mapping[str, str]],
    port: AuditPort,
) -> Sequence[str]:
    """Audit; return what was left when nothing more was waited for."""
    topology, outages = settings.topology, KafkaOutages(say)
    names, stopping = TopicNames(topology.prefix), outages.stopping
    _on_signals(stopping)
    topics = AuditTopics(session, kafka[topology.audit_kafka], names.audit_transactions())
    logs = Logs(session, kafka[topology.audit_kafka])
    patience_s = DRAIN_STILL_S if settings.until_drained else inf

    def answered(ask: Callable[[], T]) -> T:
        return outages.insist(topology.audit_kafka, ask, patience_s)

    tables = {names.audit(table): kept for table, kept in TABLES.items()}
    answered(lambda: topics.create(tables))
    status = TopicPartition(names.audit("status"), 0)
    _refuse_a_second(lambda: answered(lambda: logs.ends([status])), status, stopping)
    checkpoint = settings.checkpoint / SPARK
    kafka_clusters = AuditedKafkaClusters(
        topology.prefix,
        {name: Logs(session, options) for name, options in kafka.items()},
        clock=time.monotonic,
    )

    def write(outputs: Sequence[SinkRecord]) -> None:
        topics.write(outputs)
        port.see(outputs)

    flock = Flock(Canaries(token_hex(4)), settings.kafka, stopping, say)
    snapshots, findings = Snapshots(settings.checkpoint / STATE), names.audit("findings")
    auditor = Auditor(
        topology=topology,
        rereader=Rereader(session, topology, kafka_clusters, kafka),
        kafka_clusters=kafka_clusters,
        snapshots=snapshots,
        former=answered(lambda: former_findings(logs, findings)) if snapshots.is_empty else {},
        write=write,
        positions=lambda name, batch: read_positions(checkpoint / name, batch),
        tasks=settings.cores,
        offsets_max=settings.offsets_max,
        more=flock.outputs,
        run=flock.canaries.run,
    )
    queries = Queries(session, auditor, kafka, checkpoint, settings.trigger_s, outages)
    supervisor = QuerySupervisor(auditor, queries, port, flock, say)
    say(f"reading {len(kafka)} Kafka clusters, after {auditor.state.batch + 1} batches")
    threading.Thread(target=outages.watch, args=(queries.watched,), daemon=True).start()
    drain = AuditorDrain() if settings.until_drained else None
    left: Sequence[str] = ()
    try:
        supervisor.watch(drain)
        if drain is not None and not stopping.is_set():
            left = drain.left
    finally:
        supervisor.end()
        topics.close()
    for line in left[:LEFT_MAX]:
        say(f"not waited for any longer: {line}")
    return left


def _refuse_a_second(
    ends: Callable[[], Mapping[TopicPartition, int]],
    status: TopicPartition,
    stopping: threading.Event,
) -> None:
    """Refuse to begin beside an auditor that lives: it writes a status every five seconds.

    Of two that begin at once the older is ended by its first write after the other's.

    Args:
        ends: Asks where the log of the status ends.
        status: That log.
        stopping: Set when the auditor shall end.

    Raises:
        StartError: There is one.
        TransportUnavailableError: Kafka does not answer.
    """
    written, grown, quiet_s = ends().get(status, 0), 0, 0.0
    while written and quiet_s < AUDITOR_SILENT_S and not stopping.wait(PULSE_S):
        quiet_s += PULSE_S
        end = ends().get(status, 0)
        if end > written:
            written, grown, quiet_s = end, grown + 1, 0.0
        if grown > 1:  # once may be the end of a transaction of one that was killed
            raise StartError(
                f"another auditor of this mesh writes to {status.topic}: end it, or let it run"
            )


def _on_signals(stopping: threading.Event) -> None:
    def stop(number: int, _: FrameType | None) -> None:
        say(f"{signal.Signals(number).name}: certifying what is open")
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
