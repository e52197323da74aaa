"""One embedded Kafka cluster: real brokers on this machine, a Java process each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mesh.errors import StartError, TransportUnavailableError
from mesh.local.broker_jvm import YOUNG_JVM, BrokerJvm, error_lines, new_id
from mesh.local.broker_settings import (
    PATIENT_SESSION_MS,
    SESSION_MS,
    BrokerAddress,
    Outside,
    server_properties,
)
from mesh.local.jars import KafkaSoftware, Progress, find_kafka, silent
from mesh.local.ports import LOOPBACK, free_port, is_free
from mesh.local.processes import Process, stop_all
from mesh.transport.kafka import cluster_id

START_DEADLINE_S = 240.0
"""Longest wait for brokers that start on a busy machine; one that has ended is noticed at once."""
STOP_DEADLINE_S = 15.0
HEAP_MB = 256
_STARTS_MAX = 5  # with new ports each time somebody else was quicker on one
_ASK_S = 1.0
_PAUSE_S = 0.05


class EmbeddedKafka:
    """One Kafka cluster of one or more brokers, each its own controller. No I/O until `begin`.

    Data stay in the folder: a second start on it is the same Kafka cluster with its topics.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        software: KafkaSoftware,
        *,
        port: int | None = None,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = YOUNG_JVM,
        heap_mb: int = HEAP_MB,
        outside: Outside | None = None,
    ) -> None:
        """Describe it.

        Args:
            name: What people call it.
            directory: Its folder; made if absent.
            software: Java and jars, of `find_kafka`.
            port: The first broker's port, the others follow; None takes free ones.
            brokers: How many brokers.
            settings: Broker settings that win over ours.
            jvm: Java options for collector and compiler.
            heap_mb: Java heap of each broker, in MB.
            outside: A way in from other machines, where it has one broker.
        """
        if brokers < 1:
            raise StartError(f"Kafka cluster {name}: brokers: {brokers} must be 1 or more")
        if outside is not None and brokers != 1:
            raise StartError(f"Kafka cluster {name}: from outside one broker alone can be reached")
        self.name = name
        self._port = port
        self._settings = dict(settings or {})
        self._outside = outside
        self._brokers = [
            BrokerJvm(
                f"broker {index} of Kafka cluster {name}",
                directory / f"broker-{index}",
                software,
                jvm,
                heap_mb,
            )
            for index in range(1, brokers + 1)
        ]
        self._addresses: list[BrokerAddress] = []
        self._marks: list[int] = []
        self._id = ""
        self._tools: Sequence[Process] = ()

    @classmethod
    def start(
        cls,
        name: str,
        directory: Path,
        *,
        port: int | None = None,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        software: KafkaSoftware | None = None,
        progress: Progress = silent,
    ) -> EmbeddedKafka:
        """Start one and wait until it serves; see `brokers.start_brokers` for several.

        Raises:
            StartError: No Java, no jars, the port is in use, or it did not come up in time.
        """
        kafka = cls(
            name,
            directory,
            software or find_kafka(progress=progress),
            port=port,
            brokers=brokers,
            settings=settings,
        )
        start_together([kafka])
        return kafka

    @property
    def kafka_cluster_id(self) -> str:
        """Return the identity that the brokers report. Spec: K4."""
        return self._id

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses for clients, also while it is stopped."""
        return ",".join(address.bootstrap for address in self._addresses)

    @property
    def pids(self) -> Sequence[int]:
        """Return the process ids of the running brokers."""
        return [process.pid for process in self.processes if process.is_alive()]

    @property
    def pid(self) -> int | None:
        """Return the process id of the first running broker, None when stopped."""
        return next(iter(self.pids), None)

    @property
    def processes(self) -> Sequence[Process]:
        """Return the processes of the brokers that were started, also of those that ended."""
        return [jvm.process for jvm in self._brokers if jvm.process is not None]

    @property
    def logs(self) -> Sequence[Path]:
        """Return the brokers' log files."""
        return [broker.log for broker in self._brokers]

    def rss(self) -> int:
        """Return the resident memory of all its brokers, in bytes."""
        return sum(process.rss() for process in self.processes)

    def cpu_s(self) -> float:
        """Return the CPU seconds that its running brokers have used."""
        return sum(process.cpu_s() for process in self.processes)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Shut down in order, then by force. Does nothing when stopped."""
        stop_all(self.processes, deadline_s)

    def kill(self, broker: int | None = None) -> None:
        """Send SIGKILL to all brokers, or to number `broker` (from 1) alone."""
        chosen = self._brokers if broker is None else [self._brokers[broker - 1]]
        for jvm in chosen:
            if jvm.process is not None:
                jvm.process.kill()

    def restart(self, broker: int | None = None, deadline_s: float = START_DEADLINE_S) -> None:
        """Start again what does not run, on the same data and client ports, and wait for it.

        Args:
            broker: Number of the one to start, from 1; None starts all. One alone is waited for
                only if all run then: fewer may elect no controller.
            deadline_s: How long to wait, in seconds.

        Raises:
            StartError: It did not come up in time, or somebody has taken its port.
        """
        if not self._addresses:
            raise StartError(f"Kafka cluster {self.name} was never started: start it first")
        self.begin(broker)
        if broker is None or len(self.pids) == len(self._brokers):
            self.wait_ready(time.monotonic() + deadline_s)

    def data(self, broker: int = 1) -> Path:
        """Return the folder in which a broker keeps its logs."""
        return self._brokers[broker - 1].data

    def prepare(self) -> Sequence[Process]:
        """Choose ports and start formatting whatever holds no data yet.

        Returns:
            The storage tools that now run; all must end with code 0 before `begin`. None runs
            where the stock settings are known to do: the tool also judges settings.

        Raises:
            StartError: A requested port is in use.
        """
        known = next(filter(None, (jvm.kafka_cluster_id() for jvm in self._brokers)), None)
        self._id = known or new_id()
        self._choose_addresses()
        tools: list[Process] = []
        for jvm, address in zip(self._brokers, self._addresses, strict=True):
            jvm.write_settings(self._properties(jvm, address))
            if jvm.kafka_cluster_id() is not None:
                continue
            if self._settings or not jvm.format_as_before(self._id, address.node_id):
                tools.append(jvm.begin_format(self._id))
        self._tools = tools
        return tools

    def keep_format(self) -> None:
        """Let later starts do without the storage tool, if it has run and ended well."""
        if self._tools and not self._settings:
            self._brokers[0].keep_format()

    def begin(self, broker: int | None = None) -> None:
        """Start the brokers that do not run, or one of them, without waiting for them.

        When none runs, controllers get new ports: they are nobody's business but ours.
        """
        if not self.pids:
            self._addresses = [
                BrokerAddress(node_id=old.node_id, port=old.port, controller_port=free_port())
                for old in self._addresses
            ]
        self._marks = [jvm.log_size() for jvm in self._brokers]
        for jvm, address in zip(self._brokers, self._addresses, strict=True):
            if broker not in (None, address.node_id):
                continue
            if jvm.process is None or not jvm.process.is_alive():
                if not is_free(address.port) and self._port is not None:
                    raise StartError(self._port_in_use(address.port))
                jvm.begin(self._properties(jvm, address))

    def wait_ready(self, end_s: float) -> None:
        """Wait until every broker answers a client.

        Args:
            end_s: Deadline on the monotonic clock.

        Raises:
            StartError: Not in time, or a broker ended; names its log.
        """
        starts = 1
        while not self._is_ready():
            if time.monotonic() > end_s:
                raise StartError(self._complaint("did not answer in time"))
            if all(process.is_alive() for process in self.processes):
                time.sleep(_PAUSE_S)
                continue
            # A controller may die of its peer's trouble; any port lost to another is the cause.
            if not self._lost_port() or starts == _STARTS_MAX:
                raise StartError(self._complaint("ended while starting"))
            starts += 1
            self._start_elsewhere()

    def _start_elsewhere(self) -> None:
        """Somebody was quicker on one of the ports: take others where we may."""
        self.kill()
        if self._port is None:
            self._choose_addresses()
        self.begin()

    def _choose_addresses(self) -> None:
        self._addresses = []
        for index in range(len(self._brokers)):
            port = free_port() if self._port is None else self._port + index
            if self._port is not None and not is_free(port):
                raise StartError(self._port_in_use(port))
            self._addresses.append(
                BrokerAddress(node_id=index + 1, port=port, controller_port=free_port())
            )

    def _port_in_use(self, port: int) -> str:
        return (
            f"Kafka cluster {self.name}: port {port} on {LOOPBACK} is in use: stop what listens "
            "there or choose another port"
        )

    def _properties(self, jvm: BrokerJvm, address: BrokerAddress) -> str:
        is_replaced = len(self._brokers) > 1 or jvm.was_killed()
        return server_properties(
            address,
            self._addresses,
            str(jvm.data),
            self._settings,
            self._outside,
            SESSION_MS if is_replaced else PATIENT_SESSION_MS,
        )

    def _is_ready(self) -> bool:
        """Ask each broker; each answers only once it is registered and serves."""
        for jvm, address in zip(self._brokers, self._addresses, strict=True):
            if jvm.process is None or not jvm.process.is_alive():
                return False
            try:
                answer = cluster_id(address.bootstrap, _ASK_S)
            except TransportUnavailableError:
                return False
            if answer != self._id:
                return False  # another Kafka took the port; ours will end with a bind error
        return True

    def _errors(self) -> Sequence[str]:
        return [
            line
            for jvm, mark in zip(self._brokers, self._marks, strict=True)
            for line in jvm.errors_since(mark)
        ]

    def _lost_port(self) -> bool:
        return any("BindException" in line or "already in use" in line for line in self._errors())

    def _complaint(self, what: str) -> str:
        cause = next(iter(self._errors()), "nothing was logged")
        return f"Kafka cluster {self.name} {what}: {cause}; log: {self._brokers[0].log}"


def start_together(clusters: Sequence[EmbeddedKafka]) -> None:
    """Format, start and await several side by side; on any failure or Ctrl-C stop them all.

    Raises:
        StartError: One of them could not start; none is left running.
    """
    end_s = time.monotonic() + START_DEADLINE_S
    tools: list[Process] = []
    try:
        for kafka in clusters:
            tools += kafka.prepare()
        for tool in tools:
            _wait_formatted(tool, end_s)
        for kafka in clusters:
            kafka.keep_format()
            kafka.begin()
        for kafka in clusters:
            kafka.wait_ready(end_s)
    except BaseException:
        for tool in tools:
            tool.kill()
        for kafka in clusters:
            kafka.kill()
        raise


def _wait_formatted(tool: Process, end_s: float) -> None:
    if not tool.wait(end_s - time.monotonic()) or tool.returncode != 0:
        cause = next(iter(error_lines(tool.log)), tool.log_tail(1))
        raise StartError(f"{tool.name} failed: {cause}; log: {tool.log}")
