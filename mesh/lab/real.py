"""The lab on real brokers, real worker processes and, if asked for, the real auditor.

Spec: lab.md, `--backend kafka`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mesh.errors import StartError, TransportError
from mesh.lab.audit_follower import AuditFollower
from mesh.lab.backend import PAUSE_S, AuditResult
from mesh.lab.companions import Companions
from mesh.lab.segments import cut_newest
from mesh.local.auditor import spawn_auditor
from mesh.local.fleet import Fleet
from mesh.local.processes import Process
from mesh.model.topology import Topology
from mesh.transport.node_topics import node_topics
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.worker.process.clock import MonotonicClock
from mesh.worker.process.injected_faults import InjectedFaults

_GUARD_MS = 2_000
AUDIT_MS = 300_000
"""How long a scenario waits until all that drained is certified."""

AUDIT_STOP_S = 30.0
OFFSETS_MS = 60_000
"""How long brokers may take after a start until they answer questions about offsets."""

GONE_MS = 30_000
"""How long the brokers may take to forget a deleted topic."""


class RealBackend:
    """Runs a fleet's nodes; the brokers are there already.

    Args:
        fleet: Brokers and worker processes; the caller stops it.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._clock = MonotonicClock()
        self._clients = {name: fleet.kafka(name, "mesh-lab") for name in fleet.topology.kafka}
        self._auditor: Process | None = None
        self._follower: AuditFollower | None = None
        self._companions: Companions | None = None
        self._killed: dict[tuple[str, int], None] = {}
        self._guards = False
        self._guarded_ms = 0
        self._fallen: list[str] = []

    @property
    def kafka(self) -> Mapping[str, KafkaCluster]:
        """Clients of the lab itself."""
        return self._clients

    def now_ms(self) -> int:
        """Return real time."""
        return self._clock.now_ms()

    def advance(self, at_most_s: float = PAUSE_S) -> None:
        """Let a little time pass."""
        self._clock.wait(min(at_most_s, PAUSE_S))
        if self._guards and self.now_ms() - self._guarded_ms >= _GUARD_MS:
            self._guarded_ms = self.now_ms()
            self._revive()

    def bring(self, topology: Topology) -> Topology:
        """Start embedded Kafka clusters that are not there yet."""
        found = self._fleet.bring(topology)
        for name in found.kafka:
            if name not in self._clients:
                self._clients[name] = self._fleet.kafka(name, "mesh-lab")
        return found

    def adopt(self, topology: Topology) -> None:
        """Write the topology file again."""
        self._fleet.adopt(topology)

    def start(self, node: str, worker: int = 0) -> None:
        """Start a worker process of the node."""
        self._killed.pop((node, worker), None)
        self._fleet.start_worker(node, worker)

    def kill(self, node: str, worker: int | None = None) -> None:
        """SIGKILL."""
        if worker is not None:
            self._fleet.kill_worker(node, worker)
            self._killed[node, worker] = None
            return
        self._killed = {one: None for one in self._killed if one[0] != node}
        self._fleet.kill_node(node)

    def stop(self, node: str) -> None:
        """SIGTERM."""
        self._killed = {one: None for one in self._killed if one[0] != node}
        self._fleet.stop_node(node)

    def pause(self, node: str) -> None:
        """SIGSTOP."""
        self._fleet.pause_node(node)

    def resume(self, node: str) -> None:
        """SIGCONT."""
        self._fleet.resume_node(node)

    def inject(self, node: str, faults: InjectedFaults, *, awaited: bool = True) -> None:
        """Have the node's workers suffer these, by their file."""
        self._fleet.inject(node, faults, awaited=awaited)

    def kill_broker(self, kafka: str, broker: int | None) -> None:
        """SIGKILL."""
        self._fleet.brokers[kafka].kill(broker)

    def start_broker(self, kafka: str, broker: int | None, *, awaited: bool = True) -> None:
        """Start what does not run, on the same data and ports."""
        if awaited:
            self._fleet.brokers[kafka].restart(broker)
            self._await_offsets(kafka)
        else:
            self._fleet.brokers[kafka].begin(broker)

    def _await_offsets(self, kafka: str) -> None:
        """Wait until clients that knew a broker before its restart can ask it for offsets.

        For a while it knows less of its own epochs than they do, and refuses.

        Raises:
            TransportError: It still does after a time.
        """
        topology, admin = self._fleet.topology, self._clients[kafka].admin()
        topics = [spec.name for node in topology.nodes for spec in node_topics(topology, node)]
        deadline = self.now_ms() + OFFSETS_MS
        while True:
            try:
                admin.ends([TopicPartition(topic, 0) for topic in admin.describe(topics)])
            except TransportError:
                if self.now_ms() > deadline:
                    raise
                self.advance()
            else:
                return

    def truncate(self, place: TopicPartition, kafka: str, records: int) -> int:
        """Kill the one broker, cut its newest segment, and start it again."""
        broker = self._fleet.brokers[kafka]
        broker.kill()
        try:
            return cut_newest(broker.data(), place.topic, place.partition, records)
        finally:
            self.start_broker(kafka, None)

    def delete_topic(self, topic: str, kafka: str) -> None:
        """Delete a topic with its records; returns when nobody sees it any more."""
        admin = self._clients[kafka].admin()
        admin.delete([topic])
        deadline = self.now_ms() + GONE_MS
        while admin.describe([topic]):
            if self.now_ms() > deadline:
                raise StartError(f"topic {topic} is still there {GONE_MS // 1000} s after deletion")
            self.advance()

    def accompany(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Have each called again and again in a thread of its own, until `part`."""
        self._companions = Companions(tasks)

    def part(self) -> None:
        """Wait until each has ended; raises what one of them died of."""
        companions, self._companions = self._companions, None
        if companions is not None:
            companions.stop()

    def guard(self) -> None:
        """From now on start workers again that end by themselves, as an orchestrator would."""
        self._guards = True

    def guarded(self) -> Sequence[str]:
        """Return the names and last words of those that were started again."""
        return self._fallen

    def _revive(self) -> None:
        for node, running in self._fleet.workers.items():
            for index, process in enumerate(running):
                if not process.is_alive() and (node, index) not in self._killed:
                    self._fallen.append(f"{process.name}: {process.log_tail(1)}")
                    self._fleet.start_worker(node, index)

    def begin_audit(self) -> None:
        """Start the real auditor; it reads everything from the beginning."""
        self._auditor = spawn_auditor(self._fleet)
        self._follower = AuditFollower(self._fleet.topology, self.kafka, self.now_ms)

    def found(self) -> Mapping[str, int] | None:
        """Return how many findings of each kind the auditor has made so far."""
        if self._follower is None:
            return None
        self._follower.refresh()
        return self._follower.found()

    def audit(self, delivered: Mapping[str, int]) -> AuditResult | None:
        """Return what the auditor says once so many messages per endpoint are certified.

        What is not in time is named in its `fault`.

        Raises:
            StartError: The auditor died, or did not come to its end in time.
        """
        auditor, follower = self._auditor, self._follower
        if auditor is None or follower is None:
            return None
        deadline = self.now_ms() + AUDIT_MS
        wanted = {name: count for name, count in delivered.items() if count}
        while not (follower.is_live and follower.covers(wanted)):
            if not auditor.is_alive():
                raise StartError(f"the auditor ended by itself: {auditor.log_tail(1)}")
            if self.now_ms() > deadline:
                break  # what is not certified is told below
            self.advance()
            follower.refresh()
        auditor.stop(AUDIT_STOP_S)
        follower.refresh()
        return AuditResult(
            list(follower.findings),
            list(follower.certificates),
            follower.lacks(wanted, AUDIT_MS // 1000),
        )

    def close(self) -> None:
        """Release the clients, and end the auditor if it still runs."""
        if self._companions is not None:
            self._companions.stop()
        if self._auditor is not None:
            self._auditor.stop(AUDIT_STOP_S)
        if self._follower is not None:
            self._follower.close()
        for kafka in self._clients.values():
            kafka.close()
