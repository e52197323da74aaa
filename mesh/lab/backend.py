"""What a scenario needs of the place it runs in: real brokers and processes, or a simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mesh.lab.world import World
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster


class Backend(Protocol):
    """Runs nodes; everything else is done through Kafka.

    Attributes:
        kafka: Every Kafka cluster of the topology.
    """

    kafka: Mapping[str, KafkaCluster]

    def now_ms(self) -> int:
        """Return the time that deadlines are counted in."""

    def advance(self) -> None:
        """Let a little time pass."""

    def start(self, node: str) -> None:
        """Start the node's worker processes; returns when they run, not when they serve."""

    def kill(self, node: str) -> None:
        """SIGKILL; returns when they are gone."""

    def stop(self, node: str) -> None:
        """SIGTERM; returns when they are gone."""

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have the node read nothing of exactly these neighbours from now on."""

    def begin_audit(self) -> None:
        """Start the real auditor, where there is one."""

    def audit(self, delivered: Mapping[str, int]) -> Mapping[str, object] | None:
        """Return what the auditor found, once all that was delivered is certified.

        Args:
            delivered: Guaranteed messages per endpoint, `node/name`.

        Returns:
            `findings` and `certificates`, or None without an auditor.
        """

    def close(self) -> None:
        """End everything."""


class SimulatedBackend:
    """The pure core under a virtual clock. Spec: lab.md, `--backend sim`."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self._world = World(topology, seed)
        self.kafka: Mapping[str, KafkaCluster] = self._world.kafka

    def now_ms(self) -> int:
        """Return virtual time."""
        return self._world.clock.ms

    def advance(self) -> None:
        """Let one worker take its turn."""
        self._world.advance()

    def start(self, node: str) -> None:
        """Start the node."""
        self._world.start(node)

    def kill(self, node: str) -> None:
        """Drop the node's volatile state."""
        self._world.kill(node)

    def stop(self, node: str) -> None:
        """Stop the node in good order."""
        self._world.stop(node)

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have the node read nothing of these neighbours."""
        self._world.cut(node, neighbours)

    def begin_audit(self) -> None:
        """Do nothing: nobody audits here."""

    def audit(self, delivered: Mapping[str, int]) -> None:
        """Say that nobody audits here."""

    def close(self) -> None:
        """Do nothing: the world is garbage."""
