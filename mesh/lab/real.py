"""The lab on real brokers, real worker processes and, if asked for, the real auditor.

Spec: lab.md, `--backend kafka`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.errors import StartError
from mesh.lab.auditing import spawn_auditor
from mesh.lab.fleet import Fleet
from mesh.lab.processes import Process
from mesh.lab.verdicts import Verdicts
from mesh.runtime.clock import MonotonicClock
from mesh.transport.port import KafkaCluster

_PAUSE_S = 0.05
AUDIT_MS = 120_000
"""How long a scenario waits until all that drained is certified."""

AUDIT_STOP_S = 30.0


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

    def begin_audit(self) -> None:
        """Start the real auditor; it reads everything from the beginning."""
        self._auditor = spawn_auditor(self._fleet)

    def audit(self, delivered: Mapping[str, int]) -> Mapping[str, object] | None:
        """Return what the auditor says once so many messages per endpoint are certified.

        Raises:
            StartError: The auditor died, or did not come to its end in time.
        """
        auditor = self._auditor
        if auditor is None:
            return None
        topology = self._fleet.topology
        verdicts = Verdicts(topology, self.kafka, self.now_ms)
        deadline = self.now_ms() + AUDIT_MS
        wanted = {name: count for name, count in delivered.items() if count}
        try:
            while not (verdicts.is_live and verdicts.covers(wanted)):
                if not auditor.is_alive():
                    raise StartError(f"the auditor ended by itself: {auditor.log_tail(1)}")
                if self.now_ms() > deadline:
                    break  # what is not certified is missing from the result, for all to see
                self.advance()
                verdicts.refresh()
            auditor.stop(AUDIT_STOP_S)
            verdicts.refresh()
            return {
                "findings": list(verdicts.findings.values()),
                "certificates": list(verdicts.certificates.values()),
            }
        finally:
            verdicts.close()

    def close(self) -> None:
        """Release the clients, and end the auditor if it still runs."""
        if self._auditor is not None:
            self._auditor.stop(AUDIT_STOP_S)
        for kafka in self._clients.values():
            kafka.close()
