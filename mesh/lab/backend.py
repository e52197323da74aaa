"""What a scenario needs of the place it runs in: real brokers and processes, or a simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mesh.errors import StartError
from mesh.lab.world import World
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.trees.settings import Settings as TreeSettings
from mesh.worker.process.drills import Drill

PAUSE_S = 0.05
"""How long is rested between two looks at what is waited for."""

TASK_MS = 50
"""How often what accompanies a scenario is called on the simulator."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What the auditor found.

    Attributes:
        findings, certificates: As it wrote them.
        fault: What was not certified in time, in one line, or empty.
    """

    findings: Sequence[Mapping[str, object]]
    certificates: Sequence[Mapping[str, object]]
    fault: str = ""


class Backend(Protocol):
    """Runs nodes; everything else is done through Kafka.

    Attributes:
        kafka: Every Kafka cluster that any topology of the scenario had so far.
    """

    kafka: Mapping[str, KafkaCluster]

    def now_ms(self) -> int:
        """Return the time that deadlines are counted in."""

    def advance(self, at_most_s: float = PAUSE_S) -> None:
        """Let a little time pass; where it is real, not more than that."""

    def bring(self, topology: Topology) -> Topology:
        """Start the Kafka clusters of a topology that are not there yet.

        Returns:
            It with the addresses of those: nodes that run already know only the first ones.
        """

    def adopt(self, topology: Topology) -> None:
        """Have nodes that start from now on be given this topology file."""

    def start(self, node: str, workers: int = 1) -> None:
        """Start the node's worker processes; returns when they run, not when they serve."""

    def kill(self, node: str) -> None:
        """SIGKILL; returns when they are gone."""

    def stop(self, node: str) -> None:
        """SIGTERM; returns when they are gone."""

    def kill_worker(self, node: str, worker: int) -> None:
        """SIGKILL one worker of several."""

    def start_worker(self, node: str, worker: int) -> None:
        """Start it again."""

    def pause(self, node: str) -> None:
        """SIGSTOP all workers of the node."""

    def resume(self, node: str) -> None:
        """SIGCONT all workers of the node."""

    def drill(self, node: str, drill: Drill, *, awaited: bool = True) -> None:
        """Have the node pretend exactly this from now on; returns when it does, if awaited."""

    def kill_broker(self, kafka: str, broker: int | None) -> None:
        """SIGKILL all brokers of a Kafka cluster, or one."""

    def start_broker(self, kafka: str, broker: int | None, *, awaited: bool = True) -> None:
        """Start what does not run of them, or one; returns when it serves, if awaited."""

    def truncate(self, place: TopicPartition, kafka: str, records: int) -> int:
        """Take the newest records of a partition away; return where its log now ends."""

    def delete_topic(self, topic: str, kafka: str) -> None:
        """Delete a topic with its records."""

    def accompany(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Call these again and again while time passes, until `part`."""

    def part(self) -> None:
        """Stop calling them; raises what one of them died of."""

    def guard(self) -> None:
        """From now on start workers again that end by themselves, as an orchestrator would."""

    def guarded(self) -> Sequence[str]:
        """Return the names and last words of those that were started again."""

    def begin_audit(self) -> None:
        """Start the real auditor, where there is one."""

    def found(self) -> Mapping[str, int] | None:
        """Return how many findings of each kind the auditor has made so far; None without one."""

    def audit(self, delivered: Mapping[str, int]) -> Audited | None:
        """Return what the auditor found, once all that was delivered is certified.

        Args:
            delivered: Guaranteed messages per endpoint, `node/name`.

        Returns:
            What it found, or None without an auditor.
        """

    def close(self) -> None:
        """End everything."""


class SimulatedBackend:
    """The pure core under a virtual clock. Spec: lab.md, `--backend sim`.

    Args:
        topology: What runs.
        seed: Decides every order and delay.
        trees: Whether nodes have the tree layer: what does not use it need not pay for it.
        apart: Files of nodes that are configured apart from the others.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        *,
        trees: bool = False,
        apart: Mapping[str, Topology] | None = None,
    ) -> None:
        settings = TreeSettings() if trees else None
        self._world = World(topology, seed, apart=dict(apart or {}), trees=settings)
        self.kafka: Mapping[str, KafkaCluster] = self._world.kafka
        self._tasks: Sequence[Callable[[], None]] = ()
        self._called_ms = 0

    def now_ms(self) -> int:
        """Return virtual time."""
        return self._world.clock.ms

    def advance(self, at_most_s: float = PAUSE_S) -> None:  # noqa: ARG002
        """Let one worker take its turn."""
        self._world.advance()
        if self._tasks and self.now_ms() - self._called_ms >= TASK_MS:
            self._called_ms = self.now_ms()
            for task in self._tasks:
                task()

    def bring(self, topology: Topology) -> Topology:
        """Make the Kafka clusters that are not there yet; they need no address."""
        self._world.add_kafka(topology)
        return topology

    def adopt(self, topology: Topology) -> None:
        """Give it to nodes that start from now on."""
        self._world.adopt(topology)

    def start(self, node: str, workers: int = 1) -> None:
        """Start the node's workers."""
        for index in range(workers):
            self._world.start(node, index)

    def kill(self, node: str) -> None:
        """Drop the node's volatile state."""
        self._world.kill(node)

    def stop(self, node: str) -> None:
        """Stop the node in good order."""
        self._world.stop(node)

    def kill_worker(self, node: str, worker: int) -> None:
        """Drop the volatile state of one worker."""
        self._world.kill(node, worker)

    def start_worker(self, node: str, worker: int) -> None:
        """Start it again."""
        self._world.start(node, worker)

    def pause(self, node: str) -> None:
        """Suspend the node's workers: they take no turns."""
        self._world.pause(node)

    def resume(self, node: str) -> None:
        """Let them go on."""
        self._world.resume(node)

    def drill(self, node: str, drill: Drill, *, awaited: bool = True) -> None:  # noqa: ARG002
        """Let the node pretend this, at once."""
        self._world.cut(node, drill.cuts)
        self._world.slow(node, drill.slow)
        self._world.set_clock(node, drill.clock_s)

    def kill_broker(self, kafka: str, broker: int | None) -> None:
        """Take brokers down: they no longer answer."""
        self._world.kill_broker(kafka, broker)

    def start_broker(
        self,
        kafka: str,
        broker: int | None,
        *,
        awaited: bool = True,  # noqa: ARG002
    ) -> None:
        """Let them answer again."""
        self._world.start_broker(kafka, broker)

    def truncate(self, place: TopicPartition, kafka: str, records: int) -> int:
        """Take the newest records away; open transactions end before, as at a restart."""
        broker = self._world.kafka[kafka]
        named = f"{place.topic}[{place.partition}]"
        if place.topic not in broker.topics:
            raise StartError(f"no log of {named} in Kafka cluster {kafka}")
        log = broker.topics[place.topic].logs[place.partition]
        held = sum(entry is not None for entry in log.entries)
        if held < records:
            raise StartError(f"{named} has {held} records and cannot lose {records}")
        broker.end_transactions()
        return broker.truncate(place, records)

    def delete_topic(self, topic: str, kafka: str) -> None:
        """Delete a topic with its records."""
        self._world.kafka[kafka].delete_topic(topic)

    def accompany(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Call these at intervals of virtual time, until `part`."""
        self._tasks = tasks

    def part(self) -> None:
        """Stop calling them."""
        self._tasks = ()

    def guard(self) -> None:
        """Do nothing: no worker ends for good by itself here."""

    def guarded(self) -> Sequence[str]:
        """Return no workers: none ends by itself here."""
        return ()

    def begin_audit(self) -> None:
        """Do nothing: nobody audits here."""

    def found(self) -> None:
        """Say that nobody audits here."""

    def audit(self, delivered: Mapping[str, int]) -> None:
        """Say that nobody audits here."""

    def close(self) -> None:
        """Do nothing: the world is garbage."""
