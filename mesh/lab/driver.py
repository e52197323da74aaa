"""A mesh under test: what steps do to it, and what they promised. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mesh.errors import TransportError
from mesh.lab import steps
from mesh.lab.backend import Backend
from mesh.lab.clients import ScenarioClients
from mesh.lab.consuming import ScenarioConsumers
from mesh.lab.draining import lacking_copies, open_ledgers, undrained
from mesh.lab.faults import FaultRunner, StepFailedError
from mesh.lab.proposals import Proposal
from mesh.lab.steps import Detail
from mesh.lab.tally import Tally
from mesh.lab.topologies import Topologies
from mesh.lab.tree_sends import LabApplications
from mesh.model.topology import Topology
from mesh.operate.audit.drills import DrillKind, Planted, ends_of
from mesh.operate.audit.planting import Planter
from mesh.operate.changes.founding import publish as publish_topology
from mesh.operate.interest.propagation import laggards
from mesh.transport.clock import Timekeeper
from mesh.transport.node_topics import config_topic, node_topics
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.view.mesh_view import MeshView, RunningMesh

COPIES_MS = 10_000
"""How long a direct copy may be under way once the position behind it is committed: then the client
library has given it up, and whoever died with it does not write it any more."""

COUNT_S = 120.0
"""How long a count may wait for brokers: one of a machine that is full may not answer for long."""


@dataclass(slots=True)
class Driver:
    """Acts on a mesh and remembers what was promised.

    Attributes:
        clients: What subscribes and publishes.
        drains: Steps that were a drain.
        settles: Steps that were a settle.
        workers: Processes of nodes that have more than one.
        proposals: What each `apply` step leads to, by its number.
        refusals: Why some were refused: problems with the number of the step.
        topologies: Every one so far.
        faults: What is broken just now.
        history: Where a storm writes its history, or None.
        is_apart: Whether nodes have files of their own, and nothing is put in force.
        planted: The newest drill, or None.
        verdict: What the checker says of the storm, or None before one.
        consumers: Of queues.
        applications: That take roles and send to roles.
    """

    topology: Topology
    backend: Backend
    tally: Tally
    view: MeshView
    clients: ScenarioClients = field(init=False)
    drains: list[int] = field(default_factory=list)
    settles: list[int] = field(default_factory=list)
    workers: Mapping[str, int] = field(default_factory=dict)
    proposals: Mapping[int, Proposal] = field(default_factory=dict)
    is_apart: bool = False
    refusals: list[Mapping[str, object]] = field(default_factory=list)
    topologies: Topologies = field(init=False)
    faults: FaultRunner = field(init=False)
    history: Path | None = None
    verdict: Mapping[str, object] | None = None
    planted: Planted | None = None
    consumers: ScenarioConsumers = field(init=False)
    applications: LabApplications = field(init=False)
    _lost_copies: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make every node's topics, then start every node."""
        self.clients = ScenarioClients(self.topology, self.backend, self.tally)
        self.consumers = ScenarioConsumers(self.backend)
        self.faults = FaultRunner(self.topology, self.backend, self.view, self.workers)
        self.applications = LabApplications(self.topology, self.backend, self.consumers)
        self.topologies = Topologies([(-1, self.topology)])
        for name in self.topology.kafka:
            self.backend.kafka[name].admin().create([config_topic(self.topology)])
        self._make_topics(list(self.topology.nodes))
        if not self.is_apart:
            publish_topology(self.topology, self.backend.kafka)
        for node in self.topology.nodes:
            self.faults.start(node)

    def _make_topics(self, nodes: Sequence[str]) -> None:
        specs: dict[str, list[TopicSpec]] = {}
        for node in nodes:
            home = specs.setdefault(self.topology.nodes[node].kafka, [])
            home += node_topics(self.topology, node)
        for kafka, listed in specs.items():
            self.backend.kafka[kafka].admin().create(listed)

    def adopt(self, topology: Topology) -> None:
        """Have nodes that start from now on work by another topology."""
        self.topology = self.faults.topology = self.applications.topology = topology
        self.clients.topology = topology
        self.backend.adopt(topology)
        self.view.extend(topology, self.backend.kafka)

    def took_force(self, number: int) -> None:
        """Count by the topology that was adopted, which a step has put in force."""
        self.topologies.found.append((number, self.topology))
        self.tally.extend(self.topology)

    def start_nodes(self, nodes: Sequence[str]) -> None:
        """Make the topics of new nodes, and start them."""
        self._make_topics(nodes)
        for node in nodes:
            self.faults.start(node)

    def stop_nodes(self, nodes: Sequence[str]) -> None:
        """Stop nodes that are no part of the mesh."""
        for node in nodes:
            self.faults.forget(node)

    # -- waiting --------------------------------------------------------------------------

    def wait(self, timeout_s: float, missing: Callable[[], Sequence[str]]) -> None:
        """Let time pass, and consumers of queues consume, until nothing is missing.

        Raises:
            StepFailedError: Something still is, after so long.
        """
        deadline = self.backend.now_ms() + int(timeout_s * 1000)
        while left := missing():
            if self.backend.now_ms() > deadline:
                shown = "; ".join(left[:5]) + ("; ..." if len(left) > 5 else "")
                raise StepFailedError(f"not done within {timeout_s:g} s: {shown}")
            self.backend.advance()
            self.consumers.step()
            self.applications.step()

    def await_findings(self, kinds: Mapping[str, int], timeout_s: float) -> Detail:
        """Wait until the auditor has found so much; where there is none, nothing is asked.

        Returns:
            After a drill, how long that took since it was planted.

        Raises:
            StepFailedError: It has not, in time.
        """

        def missing() -> Sequence[str]:
            found = self.backend.found()
            if found is None:
                return []
            return [
                f"{found.get(kind, 0)} findings {kind}, expected {count}"
                for kind, count in sorted(kinds.items())
                if found.get(kind, 0) < count
            ]

        self.wait(timeout_s, missing)
        if self.planted is None or self.backend.found() is None:
            return {}
        return {"ms": self.backend.now_ms() - self.planted.at_ms}

    def inject(self, step: steps.Inject) -> Detail:
        """Plant a drill; its subscription stays to the end of the run.

        Raises:
            TransportError: Kafka did not take it, or a node did not do its part in time.
        """
        source, target = ends_of(self.topology, step.from_, step.to)
        self.view.refresh()
        mesh = RunningMesh(
            topology=self.topology,
            kafka=self.backend.kafka,
            view=self.view,
            beats={},  # whoever does not run does not do its part in time
            time=Timekeeper(self.backend.now_ms, self.backend.advance),
        )
        self.planted = Planter(mesh).plant(DrillKind(step.drill), source, target)
        return {
            "endpoint": self.planted.endpoint,
            "message": self.planted.message,
            "records": self.planted.evidence,
        }

    def settle(self, number: int, timeout_s: float) -> Detail:
        """Wait until every subscription is known everywhere. Spec: lab.md 1."""
        self.view.refresh()
        wanted = {node: self.view.nodes[node].clients_offset for node in self.faults.serving()}

        def missing() -> Sequence[str]:
            self.view.refresh()
            return list(
                laggards(
                    self.topology,
                    self.view,
                    wanted,
                    self.faults.least_epochs,
                    self.faults.is_excused,
                )
            )

        began = self.backend.now_ms()
        self.wait(timeout_s, missing)
        self.settles.append(number)
        self.clients.note_settled(number)
        return {"ms": self.backend.now_ms() - began}

    def drain(self, number: int, timeout_s: float) -> Detail:
        """Wait until nothing is left to read but what waits for a fault's end. Spec: lab.md 1.

        One look is no snapshot: by the time a position is read, what its transaction wrote may lie
        behind an end that was read before. Where all has been read, and no log has grown by the
        next look, nothing was under way in between.
        """
        waiting: dict[str, int] = {}
        quiet_ms = self.backend.now_ms()
        ends_when_read: dict[TopicPartition, int] | None = None

        def missing() -> Sequence[str]:
            nonlocal quiet_ms, ends_when_read
            left, found = undrained(self.tally, self.faults)
            waiting.clear()
            waiting.update(found)
            now = self.backend.now_ms()
            if left:
                quiet_ms, ends_when_read = now, None
                return left
            if ends_when_read != self.tally.ends:
                hidden = open_ledgers(self.faults)
                ends_when_read = None if hidden else dict(self.tally.ends)
                return hidden or ["more may have been written since it was read"]
            return self._late_copies() if now - quiet_ms < COPIES_MS else []

        self.wait(timeout_s, missing)
        self._lost_copies = lacking_copies(self.tally, self.clients.direct_endpoints())
        self.drains.append(number)
        return {"waiting": dict(sorted(waiting.items()))}

    def _late_copies(self) -> Sequence[str]:
        """Return, in words, the direct copies that are still to be seen."""
        lacking = lacking_copies(self.tally, self.clients.direct_endpoints())
        serving = self.faults.serving()
        return [
            f"{count} direct messages for {place} are not written"
            for (node, place), count in lacking.items()
            if node in serving and count > self._lost_copies.get((node, place), 0)
        ]

    def count_everything(self) -> None:
        """Have the tally read all there is, once every Kafka cluster answers.

        Raises:
            TransportError: One did not in time.
        """
        deadline = self.backend.now_ms() + int(COUNT_S * 1000)
        while True:
            try:
                self.tally.refresh()
            except TransportError:
                if self.backend.now_ms() > deadline:
                    raise
                self.backend.advance()
            else:
                return

    def close(self) -> None:
        """Release what the driver opened."""
        self.consumers.close()
        self.applications.close()
        self.clients.close()
        self.tally.close()
        self.view.close()
