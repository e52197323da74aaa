"""Start, run and end the auditor."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from types import FrameType

from pyspark.sql import SparkSession

from mesh.errors import StartError, TransportUnavailableError
from mesh.model.topics import TopicNames
from streaming.audits.canaries import Canaries
from streaming.config import AuditSettings
from streaming.connectors.checkpoint import read_positions
from streaming.connectors.logs import Logs
from streaming.connectors.options import java_options
from streaming.connectors.session import STEADY_JVM, YOUNG_JVM, start_session
from streaming.connectors.sink import AuditTopics, Output
from streaming.job.auditor import Auditor
from streaming.job.canaries import Flock
from streaming.job.drain import Drain
from streaming.job.former import former_findings
from streaming.job.outputs import TABLES
from streaming.job.port import Port
from streaming.job.publisher import STATUS_EVERY_S
from streaming.job.queries import Queries
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.sources import Sources
from streaming.job.supervisor import PULSE_S, Supervisor
from streaming.tables.rows import TopicPartition

AUDITOR_SILENT_S = STATUS_EVERY_S + 1.5
"""An auditor that lives is not silent for so long, in seconds."""

ASKED_MAX = 10
"""How often a broker is asked where the status ends before the auditor gives up."""

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
    port = Port()
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
    port: Port,
) -> Sequence[str]:
    """Audit; return what was left when nothing more was waited for."""
    topology, stopping = settings.topology, threading.Event()
    names = TopicNames(topology.prefix)
    _on_signals(stopping)
    topics = AuditTopics(session, kafka[topology.audit_kafka], names.audit_transactions())
    topics.create({names.audit(table): kept for table, kept in TABLES.items()})
    logs = Logs(session, kafka[topology.audit_kafka])
    _refuse_a_second(logs, TopicPartition(names.audit("status"), 0), stopping)
    checkpoint = settings.checkpoint / "spark"
    sources = Sources(
        topology.prefix,
        {name: Logs(session, options) for name, options in kafka.items()},
        clock=time.monotonic,
    )

    def write(outputs: Sequence[Output]) -> None:
        topics.write(outputs)
        port.see(outputs)

    flock = Flock(Canaries(token_hex(4)), settings.kafka, stopping, say)
    snapshots, findings = Snapshots(settings.checkpoint / "state"), names.audit("findings")
    auditor = Auditor(
        topology=topology,
        rereader=Rereader(session, topology, sources, kafka),
        sources=sources,
        snapshots=snapshots,
        former=former_findings(logs, findings) if snapshots.is_empty else {},
        write=write,
        positions=lambda name, batch: read_positions(checkpoint / name, batch),
        tasks=settings.cores,
        offsets_max=settings.offsets_max,
        more=flock.outputs,
        run=flock.canaries.run,
    )
    queries = Queries(
        session, auditor, kafka, checkpoint, settings.trigger_s, say, stopping=stopping
    )
    supervisor = Supervisor(auditor, queries, port, flock, say)
    say(f"reading {len(kafka)} Kafka clusters, after {auditor.state.batch + 1} batches")
    drain = Drain() if settings.until_drained else None
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


def _refuse_a_second(logs: Logs, status: TopicPartition, stopping: threading.Event) -> None:
    """Refuse to begin beside an auditor that lives: it writes a status every five seconds.

    Of two that begin at once the older is ended by its first write after the other's.

    Raises:
        StartError: There is one.
        TransportUnavailableError: Kafka does not answer.
    """
    written, grown, quiet_s = _end_of(status, logs, stopping), 0, 0.0
    while written and quiet_s < AUDITOR_SILENT_S and not stopping.wait(PULSE_S):
        quiet_s += PULSE_S
        end = _end_of(status, logs, stopping)
        if end > written:
            written, grown, quiet_s = end, grown + 1, 0.0
        if grown > 1:  # once may be the end of a transaction of one that was killed
            raise StartError(
                f"another auditor of this mesh writes to {status.topic}: end it, or let it run"
            )


def _end_of(status: TopicPartition, logs: Logs, stopping: threading.Event) -> int:
    """Return where a log ends; retry while brokers start or are overloaded."""
    for _ in range(ASKED_MAX - 1):
        with suppress(TransportUnavailableError):
            return logs.ends([status]).get(status, 0)
        if stopping.wait(PULSE_S):
            break
    return logs.ends([status]).get(status, 0)


def _on_signals(stopping: threading.Event) -> None:
    def stop(number: int, _: FrameType | None) -> None:
        say(f"{signal.Signals(number).name}: certifying what is open")
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
