"""One worker process on real Kafka: created, run and ended.

The main thread owns the loop and the signals: SIGTERM and SIGINT end it after the turn.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from mesh.config.kafka_options import SERVERS, published_options
from mesh.config.references import files_of, resolve_options
from mesh.errors import TransportDeniedError, TransportError, wrong_input
from mesh.lane.traces import Traces
from mesh.model.topics import TopicNames
from mesh.model.topology import DeclaredKafka, Topology
from mesh.transport.identity import refuse_aliases
from mesh.transport.kafka import RealKafka
from mesh.transport.node_topics import HEADROOM_BYTES
from mesh.transport.port import KafkaCluster, Reader
from mesh.trees.settings import Settings as TreeSettings
from mesh.worker.http.server import Port
from mesh.worker.process.clock import BusyTime, Clock, MonotonicClock
from mesh.worker.process.commits import ThreadedCommits
from mesh.worker.process.credentials import Clients, Renewal, turn_ms
from mesh.worker.process.errands import Errands, ThreadedErrands
from mesh.worker.process.fault_file import FaultFile
from mesh.worker.process.intake import Intake, ThreadedIntake
from mesh.worker.worker import Worker

TURN_S = 0.1
"""Longest wait for records in one turn: how soon signals and timers are seen."""

LONG_MS = 1_000
"""A turn that waits this long is logged. The loop waits 0.2 s at most for the commits of a turn,
and 0.8 s for those of lanes that it hands back (ADR 55)."""

RETRY_S = 1.0

READY = b"ready\n"
"""What the ready file says."""

TREES = TreeSettings(trees_max=10_000)
"""A node keeps the routes of this many trees; the least recently used one is dropped, and a send
finds it again."""

WORKER_PATIENCE_MS = 200
"""How long brokers may hold an empty fetch: partitions of a newly taken lane wait for it."""

log = structlog.get_logger()


def freeze_living_objects() -> None:
    """Exempt all living objects from garbage collection, and collect rarely.

    What exists now lives as long as the process. Records come and go without cycles: collection
    starts only when more objects are alive than batches ever hold.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 50)


@dataclass(frozen=True, slots=True)
class Machinery:
    """What a worker process runs on: real, unless a test brings its own.

    Attributes:
        clock: Time.
        kafka: Makes the clients of one Kafka cluster, as `RealKafka` does.
        intake: Makes what reads records for a worker.
        errands: Makes what a worker does beside its loop.
        worker: Makes a worker.
        before_serving: Called whenever a worker is about to serve.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    kafka: Callable[..., KafkaCluster] = RealKafka
    intake: Callable[[dict[str, Reader]], Intake] = ThreadedIntake
    errands: Callable[[], Errands] = ThreadedErrands
    worker: Callable[..., Worker] = Worker
    before_serving: Callable[[], None] = freeze_living_objects


@dataclass(slots=True)
class WorkerProcess:
    """One worker process.

    Attributes:
        topology: The mesh; every Kafka cluster in it has its addresses.
        node: The node it serves.
        ready_file: Exists while the node serves here; None for none.
        environment: Variables that Kafka options may refer to.
        cuts_file: Names faults to inject; see `mesh.worker.process.injected_faults`.
        port: Reports the state of this process to others; None for nobody.
        read_file: Reads the Kafka clusters of the node's file again: a change may bring some that
            it did not have at the start.
        traces: Notified of each batch; None if nobody follows traces.
        machinery: What it runs on.
    """

    topology: Topology
    node: str
    environment: Mapping[str, str]
    ready_file: Path | None = None
    cuts_file: Path | None = None
    port: Port | None = None
    read_file: Callable[[], Mapping[str, DeclaredKafka]] = dict
    traces: Traces | None = None
    machinery: Machinery = field(default_factory=Machinery)
    _stopping: bool = False
    _was_ready: bool = False
    _ready_fault: str = ""
    _faults: FaultFile | None = None

    def run(self) -> None:
        """Serve until a signal comes.

        Raises:
            StartError: Two names are one Kafka cluster.
            TransportDeniedError: The brokers refuse what the node needs.
        """
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        structlog.contextvars.bind_contextvars(node=self.node)
        if self.ready_file is not None:
            self.ready_file.unlink(missing_ok=True)  # left by a process that was killed
        if self.cuts_file is not None:
            self._faults = FaultFile(self.cuts_file, self.node, TopicNames(self.topology.prefix))
        clusters: Clients = self._clusters()
        refuse_aliases(clusters)
        renewal = self._renewal()
        while not self._stopping:
            worker = self._start(clusters)
            # It may be locked out because of the very secret that is being changed.
            renewed = renewal.poll() if worker is None else self._live(worker, renewal)
            if renewed is not None:
                log.info("credentials.taken")
                for former in clusters.values():
                    former.close()
                clusters = renewed
        log.info("node.stopped")

    def _live(self, worker: Worker, renewal: Renewal) -> Clients | None:
        """Serve with a worker and end it; return clients with new credentials if there are any."""
        renewed: Clients | None = None
        try:
            renewed = self._serve(worker, renewal)
            worker.close()
        except TransportDeniedError:
            worker.abandon()
            raise
        except TransportError as error:
            # Kafka's troubles end the worker, not the process: another one starts from what
            # is committed, as after a crash.
            log.warning("worker.restarts", fault=str(error))
            worker.abandon()
            worker.clock.wait(RETRY_S)
        finally:
            self._tell_ready(is_ready=False)
            if self.port is not None:
                self.port.forget()
        return renewed

    def _renewal(self) -> Renewal:
        by_kafka = {
            name: [Path(file) for file in files_of(self.topology.kafka[name].options)]
            for name in self._reached()
        }
        if self.port is not None:
            self.port.certificates = by_kafka
        files = [file for some in by_kafka.values() for file in some]
        wait_ms = turn_ms(socket.gethostname(), self.node)
        own = self.topology.nodes[self.node].kafka
        return Renewal(files, own, wait_ms, self.machinery.clock.now_ms, self._clusters)

    def _serve(self, worker: Worker, renewal: Renewal) -> Clients | None:
        """Serve until stopped, or until there are clients with new credentials."""
        self.machinery.before_serving()
        busy = BusyTime()
        waited_ms = worker.clock.now_ms() - busy.ms()
        while not self._stopping:
            if self._faults is not None:
                self._faults.follow(worker.isolate)
            worker.turn(TURN_S)
            before_ms, waited_ms = waited_ms, worker.clock.now_ms() - busy.ms()
            if (ms := waited_ms - before_ms) >= LONG_MS:
                log.warning("turn.long", ms=ms, text="it waited for brokers in the loop")
            if self.port is not None:
                self.port.see(worker)
            self._tell_ready(is_ready=worker.is_ready)
            if (renewed := renewal.poll()) is not None:
                return renewed
        return None

    def _stop(self, number: int, frame: object) -> None:  # noqa: ARG002
        self._stopping = True

    def _waited(self) -> None:
        if self.port is not None:
            self.port.waited()

    def _reached(self) -> list[str]:
        """Return the Kafka clusters that the node writes or reads."""
        nodes = [self.node, *self.topology.neighbours(self.node)]
        return sorted({self.topology.nodes[name].kafka: None for name in nodes})

    def _clusters(self) -> dict[str, KafkaCluster]:
        return {name: self._kafka(self.topology, name) for name in self._reached()}

    def _kafka(self, topology: Topology, name: str) -> KafkaCluster:
        return self.machinery.kafka(
            name,
            self._options(topology, name),
            client_prefix=f"mesh-{self.node}",
            batch_bytes_max=topology.max_message_bytes + HEADROOM_BYTES,
            waited=self._waited,
        )

    def _options(self, topology: Topology, name: str) -> Mapping[str, str]:
        """Return how to connect: by the node's own file, else by a record.

        A record's variables are not resolved here, and nothing secret is sent to where it points:
        else whoever may write it could read what only this machine knows.

        Raises:
            ConfigError: A secret is missing, or a record names a Kafka cluster that only the node's
                own file may configure.
        """
        where = f"spec.kafka.{name}"
        own = self.topology.kafka.get(name) or self.read_file().get(name)
        if own is not None:
            return resolve_options(own.options, environment=self.environment, where=where)
        options = published_options(topology.kafka[name].options)
        lacking = "an address" if SERVERS not in options else "credentials"
        if SERVERS not in options or options.get("security.protocol", "").startswith("SASL"):
            message = f"is new to this node and wants {lacking}: add it to the node's own file"
            raise wrong_input(where, message, code="NOT_IN_FILE")
        return options

    def _start(self, clusters: Clients) -> Worker | None:
        """Return a worker; None, after a while, if the own Kafka cluster does not answer."""
        if self.port is not None:
            self.port.forget()
        try:
            return self._make(clusters)
        except TransportDeniedError:
            raise
        except TransportError as error:
            log.warning("kafka.unreachable", fault=str(error))
            self.machinery.clock.wait(RETRY_S)
        return None

    def _make(self, clusters: Clients) -> Worker:
        """Return a worker, or leave nothing open.

        Raises:
            TransportError: It cannot be made now.
        """
        machinery = self.machinery
        with ExitStack() as opened:
            readers: dict[str, Reader] = {}
            for name, kafka in clusters.items():
                readers[name] = kafka.reader("read", patience_ms=WORKER_PATIENCE_MS)
                opened.callback(readers[name].close)
            intake = machinery.intake(readers)
            if self._faults is not None:
                intake = self._faults.begin(intake, machinery.clock.now_ms)
            opened.callback(intake.close)
            worker = machinery.worker(
                self.topology,
                self.node,
                dict(clusters),
                readers,
                intake,
                machinery.clock,
                machinery.errands(),
                lambda: str(uuid.uuid4()),
                connect=self._connect,
                trees=TREES,
                name=f"{socket.gethostname()}-{os.getpid()}",
                traces=self.traces,
                commits=ThreadedCommits(),
            )
            opened.pop_all()
        return worker

    def _connect(self, topology: Topology, name: str) -> tuple[KafkaCluster, Reader]:
        """Open a Kafka cluster that a change of the topology brings.

        Raises:
            MeshError: It cannot be used now.
        """
        kafka = self._kafka(topology, name)
        refuse_aliases({**self._clusters(), name: kafka})
        return kafka, kafka.reader("read", patience_ms=WORKER_PATIENCE_MS)

    def _tell_ready(self, *, is_ready: bool) -> None:
        """Have the ready file say whether the node serves; what its disk refuses is tried again."""
        if is_ready == self._was_ready or self.ready_file is None:
            return
        try:
            if is_ready:
                self.ready_file.write_bytes(READY)
            else:
                self.ready_file.unlink(missing_ok=True)
        except OSError as error:
            if str(error) != self._ready_fault:
                log.warning("ready_file.failed", fault=str(error))
            self._ready_fault = str(error)
            return
        self._was_ready, self._ready_fault = is_ready, ""
