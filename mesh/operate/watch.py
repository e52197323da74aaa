"""A mesh that somebody watches for hours: everything that its topics show, second by second.

One thread calls `look`, about once a second; other threads take `Watch.seen`, which is immutable.
Nothing is kept that the topics could not restore, no group is joined, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from mesh.errors import ConfigError, ProtocolError
from mesh.model.control import Heartbeat
from mesh.model.topology import Topology
from mesh.operate.audit.trail import AuditTrail
from mesh.operate.changes.in_force import TopologyInForce, highest_of, records_seen
from mesh.operate.links.flows import LinkFlow, link_flows
from mesh.operate.links.traffic import Traffic
from mesh.operate.state_history import StateHistory
from mesh.operate.status import OBSERVE_S, NodeStatus, node_statuses, observe
from mesh.transport.clock import Timekeeper
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView, RunningMesh

ASK_MS = 5_000
"""How often to check whether brokers answer, and to look for topics that did not exist yet."""

Open = Callable[[Topology, Sequence[str]], Mapping[str, KafkaCluster]]
"""Opens clients of Kafka clusters of a topology, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(RunningMesh):
    """A mesh at one moment; its view is not refreshed.

    Attributes:
        in_force: What is in force, or what a file says if nobody has written that.
        faults: Kafka clusters that do not answer, with the reason.
        nodes: Every node, in the order of the file.
        flows: Every direction of a link; how much waits is not requested.
        at_ms: When, ms since 1970 by this machine's clock.
    """

    in_force: TopologyInForce
    faults: Mapping[str, str]
    nodes: Sequence[NodeStatus]
    flows: Sequence[LinkFlow]
    at_ms: int

    def rates_on(self, link: LinkFlow, traffic: Traffic) -> tuple[float, float] | None:
        """Return guaranteed and direct messages per second on one direction of a link.

        None while the Kafka cluster of its sender does not answer: nothing is counted there.
        """
        if self.topology.nodes[link.source].kafka in self.faults:
            return None
        flow = traffic.links.get((link.source, link.target))
        return (0.0, 0.0) if flow is None else flow.rates


class Watch:
    """Looks at one mesh again and again.

    Args:
        topology: As its file says, with the addresses that are known.
        opens: Opens clients, also those of later topologies.
        now_ms: Monotonic clock.
        wall_ms: This machine's clock, ms since 1970: for people, never for order.
        executor: Reads Kafka clusters side by side.
        gathers: Whether updates may be seen half a second late, for a tenth of the requests.

    Attributes:
        seen: The mesh as of the last look.
        traffic: What its ledgers say.
        trail: What its auditor reports.
        history: States of nodes (`tk1`) and directions of links (`tk1->ny1`).
        wall_ms: This machine's clock.
    """

    def __init__(
        self,
        topology: Topology,
        opens: Open,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        executor: Executor | None = None,
        *,
        gathers: bool = False,
    ) -> None:
        self._opens = opens
        self._now_ms = now_ms
        self.wall_ms = wall_ms
        self._known = topology
        self._in_force = TopologyInForce(number=0, topology=topology)
        self._topology = topology
        self._kafka = dict(opens(topology, list(topology.kafka)))
        self._view = MeshView(
            topology, self._kafka, now_ms, name="watch", executor=executor, gathers=gathers
        )
        self._heard: dict[str, tuple[Heartbeat | None, int]] = {}
        self._asked_ms = -ASK_MS
        self._records = 0
        self.traffic = Traffic(topology, self._kafka)
        audit = self._kafka.get(topology.audit_kafka)
        self.trail = AuditTrail(topology, audit, now_ms, gathers=gathers)
        self.history = StateHistory()
        self.seen = self._as_seen()

    def begin(self, pause: Callable[[float], object]) -> None:
        """Read what is there, and find out who is up; takes as long as `mesh status` does."""
        self._view.refresh()
        self._follow_topology()
        beats = observe(self._view, Timekeeper(self._now_ms, pause), hears_each=False)
        now_ms = self._now_ms()
        for node, seen in self._view.nodes.items():
            heard_ms = now_ms if beats.get(node) else now_ms - int(OBSERVE_S * 1000) - 1
            self._heard[node] = (seen.heartbeat, heard_ms)
        self.look()

    def look(self) -> None:
        """Take what has come since the last look."""
        now_ms = self._now_ms()
        asks = now_ms - self._asked_ms >= ASK_MS
        if asks:
            self._asked_ms = now_ms
            self._view.refresh()
        else:
            self._view.glance()
        self._follow_topology()
        self._listen()
        self.traffic.look(looks_for_new=asks)
        self.traffic.tick(now_ms / 1000)
        self.trail.look(asks_brokers=asks)
        self.seen = seen = self._as_seen()
        states: dict[str, str] = {one.node: one.state for one in seen.nodes}
        states |= {f"{one.source}->{one.target}": one.state for one in seen.flows}
        self.history.note(states, seen.at_ms)

    def _as_seen(self) -> Seen:
        topology, view = self._topology, self._view.still()
        beats = {node: self._is_up(node) for node in topology.nodes}
        mesh = RunningMesh(topology=topology, kafka={}, view=view, beats=beats)
        return Seen(
            in_force=self._in_force,
            topology=topology,
            kafka=self._kafka,
            view=view,
            beats=beats,
            faults=dict(view.unreachable),
            nodes=node_statuses(mesh),
            flows=link_flows(mesh),
            at_ms=self.wall_ms(),
        )

    def _listen(self) -> None:
        for node, seen in self._view.nodes.items():
            before = self._heard.get(node, (None, 0))[0]
            if seen.heartbeat is not before:
                self._heard[node] = (seen.heartbeat, self._now_ms())

    def _is_up(self, node: str) -> bool:
        beat, heard_ms = self._heard.get(node, (None, 0))
        is_fresh = self._now_ms() - heard_ms <= OBSERVE_S * 1000
        return beat is not None and is_fresh and not self._view.is_unreachable(node)

    def _follow_topology(self) -> None:
        """Switch to the topology in force, if it has changed."""
        records = sum(map(len, self._view.in_force.values()))
        if records == self._records:
            return
        self._records = records
        try:
            found = highest_of(records_seen(self._view))
        except (ConfigError, ProtocolError):
            return  # written by a newer version: keep showing the previous topology
        if found is None or found.number <= self._in_force.number:
            return
        known = {
            name: self._known.kafka.get(name, one) for name, one in found.topology.kafka.items()
        }
        topology = replace(found.topology, kafka=known)
        fresh = [name for name in topology.kafka if name not in self._kafka]
        try:
            opened = self._opens(topology, fresh) if fresh else {}
        except ConfigError:
            return  # the address of a new Kafka cluster is unknown: keep showing the known ones
        self._kafka = {**self._kafka, **opened}
        self._view.extend(topology, opened)
        self.traffic.extend(topology, self._kafka)
        self._in_force, self._topology = found, topology

    def close(self) -> None:
        """Release readers and clients."""
        self.traffic.close()
        self.trail.close()
        self._view.close()
        for cluster in self._kafka.values():
            cluster.close()
