"""The lab on real brokers, real worker processes and, if asked for, the real auditor.

Spec: lab.md, `--backend kafka`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.lab.fleet import Fleet
from mesh.runtime.clock import MonotonicClock
from mesh.transport.port import KafkaCluster

_PAUSE_S = 0.05


class RealBackend:
    """Runs a fleet's nodes; the brokers are there already.

    Args:
        fleet: Brokers and worker processes; the caller stops it.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._clock = MonotonicClock()
        self._clients = {name: fleet.kafka(name, "mesh-lab") for name in fleet.topology.kafka}
        self.kafka: Mapping[str, KafkaCluster] = self._clients

    def now_ms(self) -> int:
        """Return real time."""
        return self._clock.now_ms()

    def advance(self) -> None:
        """Let a little time pass."""
        self._clock.wait(_PAUSE_S)

    def start(self, node: str) -> None:
        """Start the node's worker process."""
        self._fleet.start_node(node)

    def kill(self, node: str) -> None:
        """SIGKILL."""
        self._fleet.kill_node(node)

    def stop(self, node: str) -> None:
        """SIGTERM."""
        self._fleet.stop_node(node)

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have the node read nothing of these neighbours."""
        self._fleet.cut(node, neighbours)

    def audit(self) -> Mapping[str, object] | None:
        """Return what the auditor found."""
        return None

    def close(self) -> None:
        """Release the clients."""
        for kafka in self._clients.values():
            kafka.close()
