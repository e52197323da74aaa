"""What is broken just now in a scenario's mesh, and the steps that break and mend it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from mesh.errors import MeshError
from mesh.lab import steps
from mesh.lab.backend import Backend
from mesh.model.control import Pause
from mesh.model.topology import Topology
from mesh.view.disabling import ends_of, write_disabled
from mesh.view.mesh_view import MeshView
from mesh.worker.process.injected_faults import InjectedFaults, SlowLink

_Ends = frozenset[str]


class StepFailedError(MeshError):
    """A step that did not come to its end; the text says what was still missing."""


@dataclass(slots=True)
class FaultRunner:
    """Runs the steps of faults and remembers what they broke.

    Attributes:
        topology, backend, view: The mesh.
        workers: Processes of nodes that have more than one.
        running: Nodes whose workers run, paused ones included.
        least_epochs: Least epoch of each node's present run.
        is_hasty: Whether injected faults and brokers begin without waiting until that is done.
    """

    topology: Topology
    backend: Backend
    view: MeshView
    workers: Mapping[str, int] = field(default_factory=dict)
    running: dict[str, None] = field(default_factory=dict)
    least_epochs: dict[str, int] = field(default_factory=dict)
    is_hasty: bool = False
    _paused: dict[str, None] = field(default_factory=dict)
    _lone: dict[tuple[str, int], None] = field(default_factory=dict)
    _cut: dict[_Ends, str | None] = field(default_factory=dict)
    _disabled: dict[_Ends, None] = field(default_factory=dict)
    _slow: dict[_Ends, tuple[int, float]] = field(default_factory=dict)
    _clocks: dict[str, float] = field(default_factory=dict)
    _hit: dict[str, None] = field(default_factory=dict)

    def serving(self) -> Sequence[str]:
        """Return the nodes that can be waited for: they run and are not paused."""
        return [node for node in self.running if node not in self._paused]

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether the link of two nodes is cut."""
        return frozenset((one, other)) in self._cut

    def _reads_nothing(self, node: str, other: str) -> bool:
        """Return whether this end of a link is cut off."""
        return self._cut.get(frozenset((node, other)), other) in (None, node)

    def waits_for_link(self, reader: str, other: str) -> bool:
        """Return whether this end of a link reads no messages of the other: cut off, or disabled.

        Of a link that is cut at one end alone the other end reads on.
        """
        ends = frozenset((reader, other))
        return ends in self._disabled or self._reads_nothing(reader, other)

    def is_closed(self, one: str, other: str) -> bool:
        """Return whether the link of two nodes is cut, be it at one end alone, or disabled."""
        return self.is_cut(one, other) or frozenset((one, other)) in self._disabled

    def is_excused(self, source: str, target: str) -> bool:
        """Return whether nothing need come over a link: it is closed, or an end stands still."""
        serving = self.serving()
        return self.is_closed(source, target) or source not in serving or target not in serving

    # -- nodes ----------------------------------------------------------------------------

    def start(self, node: str) -> None:
        """Start all workers of a node."""
        if not self.is_hasty:  # a dead Kafka cluster would keep everybody waiting
            self.view.refresh()
        self.least_epochs[node] = self.view.nodes[node].epoch + 1
        self._inject(node)
        for worker in range(self.workers.get(node, 1)):
            self.backend.start(node, worker)
        self.running[node] = None

    def forget(self, node: str) -> None:
        """Stop a node for good, if it runs."""
        if node in self.running:
            self._end(node, self.backend.stop)

    def _end(self, node: str, how: Callable[[str], None]) -> None:
        how(node)
        self._paused.pop(node, None)
        self._lone = {one: None for one in self._lone if one[0] != node}
        del self.running[node]

    # -- steps ----------------------------------------------------------------------------

    def run(self, step: steps.Fault) -> None:
        """Break or mend something.

        Raises:
            StepFailedError: A node or a worker is in no state for it.
        """
        match step:
            case steps.Kill(node=node, worker=int(worker)):
                self._refuse_stopped(node)
                if (node, worker) in self._lone:
                    raise StepFailedError(f"worker {worker} of {node} does not run")
                self._lone[node, worker] = None
                self.backend.kill(node, worker)
            case steps.Kill(node=node):
                self._refuse_stopped(node)
                self._end(node, self.backend.kill)
            case steps.Start(node=node, worker=int(worker)):
                self._refuse_stopped(node)
                if (node, worker) not in self._lone:
                    raise StepFailedError(f"worker {worker} of {node} runs already")
                del self._lone[node, worker]
                self.backend.start(node, worker)
            case steps.Start(node=node):
                if node in self.running:
                    raise StepFailedError(f"{node} runs already")
                self.start(node)
            case steps.Stop(node=node):
                self._refuse_paused(node)
                self._end(node, self.backend.stop)
            case steps.Pause(node=node):
                self._refuse_paused(node)
                self._paused[node] = None
                self.backend.pause(node)
            case steps.Resume(node=node):
                self._refuse_stopped(node)
                if node not in self._paused:
                    raise StepFailedError(f"{node} is not paused")
                del self._paused[node]
                self.backend.resume(node)
            case steps.Clock(node=node, jump_s=jump_s):
                self._clocks[node] = self._clocks.get(node, 0.0) + jump_s
                self._inject(node)
            case steps.Cut() | steps.Heal() | steps.Slow():
                self._read_otherwise(step)
            case steps.KillBroker(kafka=kafka, broker=broker):
                self._hit[kafka] = None
                self.backend.kill_broker(kafka, broker)
            case steps.StartBroker(kafka=kafka, broker=broker):
                self.backend.start_broker(kafka, broker, awaited=not self.is_hasty)
            case _:
                assert_never(step)

    def _refuse_stopped(self, node: str) -> None:
        if node not in self.running:
            raise StepFailedError(f"{node} does not run")

    def _refuse_paused(self, node: str) -> None:
        self._refuse_stopped(node)
        if node in self._paused:
            raise StepFailedError(f"{node} is paused")

    def _read_otherwise(self, step: steps.Cut | steps.Heal | steps.Slow) -> None:
        ends = frozenset(step.link)
        match step:
            case steps.Cut(only=only):
                self._cut[ends] = only
            case steps.Slow(delay_ms=delay_ms, loss=loss):
                self._slow[ends] = (delay_ms, float(loss))
            case steps.Heal():
                self._cut.pop(ends, None)
                self._slow.pop(ends, None)
        self._inject(*step.link)

    def disable(self, ends: Sequence[str], *, is_disabled: bool) -> None:
        """Have operators disable a link, or enable it; on `mesh.config` of both its ends.

        Raises:
            StepFailedError: An end could not be told.
        """
        one, other = ends
        why = Pause("a step of the lab") if is_disabled else None
        kafka = self.backend.kafka
        failed = write_disabled(self.topology, kafka, ends_of(one, other), why, {})
        if failed:
            raise StepFailedError("; ".join(failed.values()))
        self._disabled.pop(frozenset(ends), None)
        if is_disabled:
            self._disabled[frozenset(ends)] = None

    def untold(self, ends: Sequence[str], *, is_disabled: bool) -> Sequence[str]:
        """Return, in words, which ends of a link do not say yet that it is so."""
        self.view.refresh()
        return [
            f"{node} does not say yet that its link to {other} is "
            + ("disabled" if is_disabled else "enabled")
            for node, other in (ends, ends[::-1])
            if node in self.serving()
            and self.view.nodes[node].says_disabled(other) is not is_disabled
        ]

    def _inject(self, *nodes: str) -> None:
        for node in nodes:
            others = self.topology.neighbours(node)
            slow = {other: self._slow.get(frozenset((node, other))) for other in others}
            faults = InjectedFaults(
                cuts=tuple(other for other in others if self._reads_nothing(node, other)),
                slow=tuple(SlowLink(other, *how) for other, how in slow.items() if how),
                clock_s=self._clocks.get(node, 0.0),
            )
            self.backend.inject(node, faults, awaited=not self.is_hasty)

    def await_brokers(self) -> None:
        """Wait until all brokers serve that were ever killed; start those that do not run."""
        for kafka in self._hit:
            self.backend.start_broker(kafka, None)
