"""A whole mesh on this machine: embedded Kafka where none is given, and a process per worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mesh.config.references import resolve_options
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError, TransportUnavailableError
from mesh.local.broker_settings import Outside
from mesh.local.brokers import KafkaClusters, start_brokers
from mesh.local.jars import KafkaSoftware, Progress, silent
from mesh.local.processes import Process, spawn, stop_all
from mesh.model.topology import Topology, with_addresses
from mesh.operate.changes.founding import publish
from mesh.transport.identity import refuse_aliases
from mesh.transport.kafka import RealKafka
from mesh.transport.node_topics import config_topic, node_topics
from mesh.transport.port import KafkaCluster
from mesh.worker.process.fault_file import seen_file
from mesh.worker.process.injected_faults import InjectedFaults, read_injected_faults

FOUNDING_DEADLINE_S = 60.0
STOP_S = 10.0
INJECT_S = 20.0
INJECT_POLL_S = 0.02


@dataclass(slots=True)
class Fleet:
    """Brokers and workers of one mesh.

    Attributes:
        topology: The mesh, every Kafka cluster with its address.
        file: The topology file that workers read.
        directory: Logs, broker data and files of injected faults.
        brokers: The embedded Kafka clusters.
        workers: Worker processes by node.
        files: Files of nodes that have their own.
        connect: Makes clients of one Kafka cluster, as `RealKafka` does.
        launch: Starts embedded Kafka clusters, as `start_brokers` does.
        niceness: How far behind us workers come where the processor is short, 0 to 19.
    """

    topology: Topology
    file: Path
    directory: Path
    addresses: Mapping[str, str]
    brokers: KafkaClusters
    workers: dict[str, list[Process]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    connect: Callable[..., KafkaCluster] = RealKafka
    launch: Callable[..., KafkaClusters] = start_brokers
    niceness: int = 0
    _paused: dict[str, None] = field(default_factory=dict)
    _brought: dict[str, str] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        topology: Topology,
        file: Path,
        directory: Path,
        *,
        addresses: Mapping[str, str] | None = None,
        apart: Mapping[str, Topology] | None = None,
        outside: Mapping[str, Outside] | None = None,
        software: KafkaSoftware | None = None,
        progress: Progress = silent,
        connect: Callable[..., KafkaCluster] = RealKafka,
    ) -> Fleet:
        """Start the Kafka clusters that nobody gave an address; no node runs yet.

        Args:
            topology: The mesh.
            file: Its file.
            directory: Where everything is kept.
            addresses: Bootstrap addresses of Kafka clusters that run already.
            apart: Topologies of nodes that read files of their own; then nothing is put in force.
            outside: Ways in from other machines to embedded Kafka clusters, by name.
            software: Java and Kafka's jars; None finds or fetches them where they are needed.
            progress: Called with lines about what is going on.
            connect: As in a fleet.

        Raises:
            StartError: A broker could not be started.
            TransportUnavailableError: A given Kafka cluster does not answer.
        """
        given = dict(addresses or {})
        embedded = {
            name: kafka.brokers
            for name, kafka in topology.kafka.items()
            if kafka.is_embedded and name not in given
        }
        brokers = (
            start_brokers(
                embedded,
                directory / "kafka",
                software=software,
                outside=outside,
                progress=progress,
            )
            if embedded
            else KafkaClusters({})
        )
        given |= {name: broker.bootstrap_servers for name, broker in brokers.items()}
        addressed = with_addresses(topology, given)
        fleet = cls(addressed, file, directory, given, brokers, connect=connect)
        try:
            fleet.provision(progress)
            if apart:
                fleet.write_apart(apart)
            else:
                fleet.publish(topology, progress)
        except BaseException:
            fleet.stop()
            raise
        return fleet

    def provision(self, progress: Progress) -> None:
        """Make every node's topics; refuse one Kafka cluster under two names. Spec: EMS-16."""
        clusters = {name: self.kafka(name) for name in self.topology.kafka}
        try:
            refuse_aliases(clusters)
            for name, kafka in clusters.items():
                nodes = [n for n, declared in self.topology.nodes.items() if declared.kafka == name]
                progress(f"making the topics of {', '.join(nodes)} on {name}")
                specs = [spec for node in nodes for spec in node_topics(self.topology, node)]
                make = partial(kafka.admin().create, [config_topic(self.topology), *specs])
                if name in self.brokers or _is_there(kafka):
                    _until_answered(make, "its topics are not there yet", progress)
                else:
                    make()
        finally:
            for kafka in clusters.values():
                kafka.close()

    def write_apart(self, apart: Mapping[str, Topology]) -> None:
        """Give nodes files of their own, beside the common one."""
        for node, topology in apart.items():
            self.files[node] = self.directory / f"{node}.yaml"
            write_topology(topology, self.files[node])

    def publish(self, topology: Topology, progress: Progress = silent) -> None:
        """Put a topology in force as its file says it, without addresses of embedded Kafka.

        Whoever wants it to stop meanwhile says so by what `progress` raises.
        """
        clusters = {name: self.kafka(name) for name in topology.kafka}
        try:
            _until_answered(partial(publish, topology, clusters), "not in force yet", progress)
        finally:
            for kafka in clusters.values():
                kafka.close()

    def bring(self, topology: Topology) -> Topology:
        """Start the embedded Kafka clusters of a topology that are not there yet.

        Returns:
            It with the addresses of all that joined after the fleet's start: running workers
            know only those of the start, so the others must stand in what is put in force.

        Raises:
            StartError: A broker could not be started.
        """
        fresh = {
            name: one.brokers
            for name, one in topology.kafka.items()
            if one.is_embedded and name not in self.addresses
        }
        if fresh:
            more = self.launch(fresh, self.directory / "kafka")
            self.brokers = KafkaClusters({**self.brokers, **more})
            brought = {name: broker.bootstrap_servers for name, broker in more.items()}
            self.addresses = {**self.addresses, **brought}
            self._brought |= brought
        found = with_addresses(topology, self._brought)
        new = {name: one for name, one in found.kafka.items() if name not in self.topology.kafka}
        self.topology = replace(self.topology, kafka={**self.topology.kafka, **new})
        return found

    def adopt(self, topology: Topology) -> None:
        """Have workers that start from now on read another topology, without addresses."""
        write_topology(topology, self.file)
        self.topology = with_addresses(topology, self.addresses)

    def options(self, name: str) -> Mapping[str, str]:
        """Return the client options of one Kafka cluster."""
        return resolve_options(
            self.topology.kafka[name].options, environment=os.environ, where=f"spec.kafka.{name}"
        )

    def kafka(self, name: str, client_prefix: str = "mesh") -> KafkaCluster:
        """Return a new client of one Kafka cluster."""
        return self.connect(name, self.options(name), client_prefix=client_prefix)

    @property
    def bootstrap_options(self) -> Sequence[str]:
        """The part of a command line that says where its Kafka clusters are."""
        return [part for pair in self.addresses.items() for part in ("--bootstrap", "=".join(pair))]

    def start_node(self, node: str, workers: int = 1) -> None:
        """Start the worker processes of a node; returns when they run."""
        first = len(self.workers.get(node, ()))
        for index in range(first, first + workers):
            self.start_worker(node, index)

    def start_worker(self, node: str, index: int) -> None:
        """Start a worker process, or again one that has ended."""
        running = self.workers.setdefault(node, [])
        if index < len(running):
            self.kill_worker(node, index)
        running[index : index + 1] = [self._spawn(node, index)]

    def _spawn(self, node: str, index: int) -> Process:
        return spawn(
            [*self.command(node, index)],
            name=f"worker {index} of {node}",
            log=self.directory / "log" / f"{node}-{index}.log",
            niceness=self.niceness,
        )

    def command(self, node: str, index: int) -> Sequence[str]:
        """Return the command line of one worker."""
        return [
            sys.executable,
            "-m",
            "mesh",
            "node",
            "run",
            node,
            "-f",
            str(self.files.get(node, self.file)),
            *self.bootstrap_options,
            "--ready-file",
            str(self.ready_file(node, index)),
            "--cuts-file",
            str(self.fault_file(node)),
        ]

    def ready_file(self, node: str, index: int = 0) -> Path:
        """Return the file that exists while a worker serves."""
        return self.directory / "run" / f"{node}-{index}.ready"

    def fault_file(self, node: str) -> Path:
        """Return the file by which a node's workers know what to pretend."""
        return self.directory / "run" / f"{node}.faults.json"

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have the node read nothing of exactly these neighbours; see `inject`."""
        self.inject(node, InjectedFaults(cuts=tuple(neighbours)))

    def inject(self, node: str, faults: InjectedFaults, *, awaited: bool = True) -> None:
        """Have the workers of a node pretend exactly this; returns when they do, if awaited.

        A worker that does not serve yet sees to it before it reads anything; a paused one does
        when it goes on.

        Raises:
            StartError: A serving worker did not follow in time.
        """
        path = self.fault_file(node)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(faults.written(), encoding="utf-8")
        fresh.rename(path)
        deadline_s = time.monotonic() + INJECT_S
        while awaited and not self._follows(node, faults):
            if time.monotonic() > deadline_s:
                raise StartError(f"node {node} did not follow its faults within {INJECT_S:.0f} s")
            time.sleep(INJECT_POLL_S)

    def _follows(self, node: str, faults: InjectedFaults) -> bool:
        """Return whether all workers of the node that serve and run pretend exactly this."""
        if node in self._paused:
            return True
        for index, process in enumerate(self.workers.get(node, [])):
            if not (process.is_alive() and self.ready_file(node, index).exists()):
                continue
            if _read_seen(seen_file(self.fault_file(node), process.pid)) != faults:
                return False
        return True

    def pause_node(self, node: str) -> None:
        """SIGSTOP all workers of a node."""
        self._paused[node] = None
        for process in self.workers.get(node, []):
            process.pause()

    def resume_node(self, node: str) -> None:
        """SIGCONT all workers of a node."""
        self._paused.pop(node, None)
        for process in self.workers.get(node, []):
            process.resume()

    def kill_worker(self, node: str, index: int) -> None:
        """SIGKILL one worker of a node; returns when it is gone."""
        self.workers[node][index].kill()
        self.ready_file(node, index).unlink(missing_ok=True)

    def kill_node(self, node: str) -> None:
        """SIGKILL all workers of a node; returns when they are gone."""
        self._paused.pop(node, None)
        for process in self.workers.pop(node, []):
            process.kill()
        self._forget_ready(node)

    def stop_node(self, node: str) -> None:
        """SIGTERM all workers of a node; returns when they are gone."""
        self.resume_node(node)
        stop_all(self.workers.pop(node, []), STOP_S)
        self._forget_ready(node)

    def _forget_ready(self, node: str) -> None:
        for path in (self.directory / "run").glob(f"{node}-*.ready"):
            path.unlink(missing_ok=True)

    def fallen(self) -> Sequence[Process]:
        """Return worker processes that ended by themselves."""
        return [p for running in self.workers.values() for p in running if not p.is_alive()]

    def stop(self) -> None:
        """Stop workers first, then brokers; nothing is left."""
        for node in list(self._paused):
            self.resume_node(node)  # a paused process does not end when asked to
        try:
            stop_all([p for running in self.workers.values() for p in running], STOP_S)
        finally:
            self.workers.clear()
            self.brokers.stop()


def _read_seen(path: Path) -> InjectedFaults | None:
    """Return what a worker says it pretends; nothing before it ever did, None while it writes."""
    try:
        return read_injected_faults(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return InjectedFaults()
    except ValueError:
        return None


def _is_there(kafka: KafkaCluster) -> bool:
    """Return whether brokers say who they are: what others ask of them they will come to then."""
    try:
        kafka.admin().cluster_id()
    except TransportUnavailableError:
        return False
    return True


def _until_answered(ask: Callable[[], object], lacking: str, progress: Progress) -> None:
    """Ask brokers that are there until they answer.

    The topics of a mesh, and a broker's first transaction, which waits for topics that it makes for
    itself, may take longer on a machine that starts much else than one answer may ever take.
    """
    end_s = time.monotonic() + FOUNDING_DEADLINE_S
    while True:
        try:
            ask()
        except TransportUnavailableError as fault:
            if time.monotonic() > end_s:
                raise
            progress(f"{lacking}, trying again: {fault}")
        else:
            return
