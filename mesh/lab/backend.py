"""What a scenario needs of where it runs: real brokers and processes, or the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.worker.process.injected_faults import InjectedFaults

PAUSE_S = 0.05
"""How long to rest between two looks at what is waited for."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What the auditor found.

    Attributes:
        findings, certificates: As it wrote them.
        fault: What was not certified in time, in one line, or empty.
    """

    findings: Sequence[Mapping[str, object]]
    certificates: Sequence[Mapping[str, object]]
    fault: str = ""


class Backend(Protocol):
    """Runs nodes; everything else is done through Kafka."""

    @property
    def kafka(self) -> Mapping[str, KafkaCluster]:
        """Every Kafka cluster that any topology of the scenario had so far."""

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

    def start(self, node: str, worker: int = 0) -> None:
        """Start a worker of the node; returns when it runs, not when it serves."""

    def kill(self, node: str, worker: int | None = None) -> None:
        """SIGKILL all workers of the node, or one; returns when they are gone."""

    def stop(self, node: str) -> None:
        """SIGTERM all workers of the node; returns when they are gone."""

    def pause(self, node: str) -> None:
        """SIGSTOP all workers of the node."""

    def resume(self, node: str) -> None:
        """SIGCONT all workers of the node."""

    def inject(self, node: str, faults: InjectedFaults, *, awaited: bool = True) -> None:
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

    def audit(self, delivered: Mapping[str, int]) -> AuditResult | None:
        """Return what the auditor found, once all that was delivered is certified.

        Args:
            delivered: Guaranteed messages per endpoint, `node/name`.

        Returns:
            What it found, or None without an auditor.
        """

    def close(self) -> None:
        """End everything."""
