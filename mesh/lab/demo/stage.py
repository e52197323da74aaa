"""Everything that runs in the demo, made one after another and closed together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from mesh.errors import StartError, TransportError
from mesh.lab.audit_follower import AuditFollower
from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.lab.demo.publisher import FlightPublisher
from mesh.local.auditor import spawn_auditor
from mesh.local.dashboard import spawn_dashboard
from mesh.local.fleet import Fleet
from mesh.local.jars import Progress
from mesh.local.processes import Process
from mesh.local.stopping import Stopping
from mesh.local.supervisor import TEND_S, Supervisor
from mesh.model.control import Subscription
from mesh.operate.interest.propagation import laggards
from mesh.operate.links.traffic import Traffic
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.process.clock import MonotonicClock

SETTLE_DEADLINE_S = 300.0
"""Longest wait for nodes that start beside Spark, on a slow machine."""
TOPOLOGY_FILE = Path(__file__).with_name("topology.yaml")


@dataclass(slots=True)
class DemoStage:
    """A fleet with its supervisor, and all that watches it.

    Attributes:
        fleet: Brokers that run; `begin` starts the nodes.
        supervisor: Keeps them running.
        kafka: Clients of the demo itself.
        traffic, audit, view: What the ledgers, the auditor and the nodes say.
        publisher: The feed's; None before `publish`.
        memory_max: Most bytes that all processes together held, as far as looked.
    """

    fleet: Fleet
    progress: Progress
    stopping: Stopping
    supervisor: Supervisor = field(init=False)
    kafka: Mapping[str, KafkaCluster] = field(init=False)
    traffic: Traffic = field(init=False)
    audit: AuditFollower = field(init=False)
    view: MeshView = field(init=False)
    publisher: FlightPublisher | None = None
    auditor: list[Process] = field(default_factory=list)
    page: list[Process] = field(default_factory=list)
    memory_max: int = 0
    clock: MonotonicClock = field(default_factory=MonotonicClock)

    def __post_init__(self) -> None:
        """Open the clients."""
        topology, now_ms = self.fleet.topology, self.clock.now_ms
        self.supervisor = Supervisor(self.fleet, self.progress)
        self.kafka = {name: self.fleet.kafka(name, "mesh-demo") for name in topology.kafka}
        self.traffic = Traffic(topology, self.kafka)
        self.audit = AuditFollower(topology, self.kafka, now_ms)
        self.view = MeshView(topology, self.kafka, now_ms, name="view")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Stop publishing, then every process; the clients go last."""
        if self.publisher is not None:
            self.publisher.abandon()
        for process in (*self.auditor, *self.page):
            process.kill()  # it holds nothing that is needed any more
        self.fleet.stop()
        self.traffic.close()
        self.audit.close()
        self.view.close()
        for kafka in self.kafka.values():
            kafka.close()

    def start_auditor(self) -> None:
        """Start Spark; nobody waits for it, for it takes longest."""
        self.auditor.append(spawn_auditor(self.fleet))
        self.supervisor.keep("the auditor", lambda: self.auditor, self._restart_auditor)

    def _restart_auditor(self) -> None:
        self.auditor[0].kill()
        self.auditor[0] = spawn_auditor(self.fleet)

    def show_page(self) -> None:
        """Serve the page of the mesh, and say where; without its packages the demo goes on."""
        try:
            process, address = spawn_dashboard(self.fleet)
        except StartError as error:
            self.progress(str(error))
            return
        self.page.append(process)
        self.progress(f"the page: {address}")
        (worker, *_) = self.fleet.workers["ny1"]
        self.progress(
            f"try first: mesh drill duplicate, and find it at {address}findings or with mesh audit "
            "report"
        )
        self.progress(
            f"try then: kill -9 {worker.pid}  (the worker of ny1), and watch {address}map?node=ny1"
        )

    def subscribe(self) -> None:
        """Write every subscription of the demo.

        Raises:
            StartError: Kafka did not take one.
        """
        topology = self.fleet.topology
        for name, kafka in self.kafka.items():
            writer = kafka.writer("subscribe")
            for endpoint in ENDPOINTS:
                if topology.nodes[endpoint.node].kafka != name:
                    continue
                subscription = encode_subscription(
                    Subscription(message_class=endpoint.message_class)
                )
                for filter_ in endpoint.filters:
                    key = subscription_key(endpoint.endpoint, filter_)
                    writer.produce(topology.names.clients(endpoint.node), subscription, key, 0)
            failed = writer.flush()
            writer.close()
            if failed:
                raise StartError(f"Kafka cluster {name} did not take {failed} subscriptions")

    def settle(self) -> None:
        """Wait until every subscription is known everywhere.

        Raises:
            StartError: Not in time; says who lags.
            StoppedError: The work should stop.
        """
        topology = self.fleet.topology
        end_s = time.monotonic() + SETTLE_DEADLINE_S
        self.view.refresh()
        wanted = {node: seen.clients_offset for node, seen in self.view.nodes.items()}
        while late := self._laggards(wanted):
            if time.monotonic() > end_s:
                shown = "; ".join(late[:3])
                raise StartError(
                    f"not subscribed everywhere within {SETTLE_DEADLINE_S:.0f} s: {shown}; "
                    f"logs: {self.supervisor.log_of(next(iter(topology.nodes)))}"
                )
            self.supervisor.tend()
            self.stopping.wait(TEND_S)
            self.view.refresh()

    def _laggards(self, wanted: Mapping[str, int]) -> Sequence[str]:
        return list(laggards(self.fleet.topology, self.view, wanted, {}, lambda _a, _b: False))

    def wait_until(self, is_done: Callable[[], bool], deadline_s: float) -> bool:
        """Tend the processes until something is so; say whether it was in time.

        Raises:
            StoppedError: The work should stop.
        """
        end_s = time.monotonic() + deadline_s
        while not is_done():
            if time.monotonic() > end_s:
                return False
            self.supervisor.tend()
            self.stopping.wait(TEND_S)
        return True

    def measure_memory(self) -> int:
        """Return the resident bytes of this process and all its children, now."""
        total = 0
        ourselves = psutil.Process()
        for process in (ourselves, *ourselves.children(recursive=True)):
            with suppress(psutil.Error):
                total += int(process.memory_info().rss)
        self.memory_max = max(self.memory_max, total)
        return total

    def peek(self, read: Callable[[], None]) -> None:
        """Read something for the picture alone: a fault there must not end the demo."""
        with suppress(TransportError):
            read()
