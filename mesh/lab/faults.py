"""What is broken just now in a scenario's mesh, and the steps that break and mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import MeshError
from mesh.lab.backend import Backend
from mesh.lab.steps import BrokerStep, Clock, NodeStep, Slow
from mesh.model.control import Pause
from mesh.model.topology import Topology
from mesh.view.disabling import ends_of, write_disabled
from mesh.view.mesh_view import MeshView
from mesh.worker.process.drills import Drill, SlowLink

_Ends = frozenset[str]


class StepFailedError(MeshError):
    """A step that did not come to its end; the text says what was still missing."""


@dataclass(slots=True)
class Faults:
    """Runs the steps of faults and remembers what they broke.

    Attributes:
        topology, backend, view: The mesh.
        workers: Processes of nodes that have more than one.
        running: Nodes whose workers run, paused ones included.
        least_epochs: Least epoch of each node's present run.
        is_hasty: Whether drills and brokers begin without waiting until that is done.
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

    def is_closed(self, one: str, other: str) -> bool:
        """Return whether nothing comes over the link of two nodes: it is cut or disabled."""
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
        self._drill(node)
        for worker in range(self.workers.get(node, 1)):
            self.backend.start(node, worker)
        self.running[node] = None

    def forget(self, node: str) -> None:
        """Stop a node for good, if it runs."""
        if node in self.running:
            self.backend.stop(node)
            del self.running[node]
        self._paused.pop(node, None)
        self._lone = {one: None for one in self._lone if one[0] != node}

    def node(self, word: str, step: NodeStep) -> None:
        """Run a step about a node's workers.

        Raises:
            StepFailedError: They are in no state for it.
        """
        node = step.node
        if step.worker is not None:
            self._worker(word, node, step.worker)
            return
        if word == "start":
            if node in self.running:
                raise StepFailedError(f"{node} runs already")
            self.start(node)
            return
        if node not in self.running:
            raise StepFailedError(f"{node} does not run")
        if (word == "resume") != (node in self._paused) and word != "kill":
            state = "is paused" if node in self._paused else "is not paused"
            raise StepFailedError(f"{node} {state}")
        match word:
            case "pause":
                self._paused[node] = None
                self.backend.pause(node)
            case "resume":
                del self._paused[node]
                self.backend.resume(node)
            case _:
                self._paused.pop(node, None)
                self._lone = {one: None for one in self._lone if one[0] != node}
                (self.backend.kill if word == "kill" else self.backend.stop)(node)
                del self.running[node]

    def _worker(self, word: str, node: str, worker: int) -> None:
        is_gone = (node, worker) in self._lone
        if node not in self.running or is_gone != (word == "start"):
            state = "runs already" if word == "start" else "does not run"
            raise StepFailedError(f"worker {worker} of {node} {state}")
        if word == "kill":
            self._lone[node, worker] = None
            self.backend.kill(node, worker)
        else:
            del self._lone[node, worker]
            self.backend.start(node, worker)

    # -- links and clocks -----------------------------------------------------------------

    def link(self, word: str, ends: Sequence[str], only: str | None = None) -> None:
        """Cut or heal a link, or cut one end off; healing ends slowness too."""
        if word == "cut":
            self._cut[frozenset(ends)] = only
        else:
            self._cut.pop(frozenset(ends), None)
            self._slow.pop(frozenset(ends), None)
        self._drill(*ends)

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

    def slow(self, step: Slow) -> None:
        """Have both ends read late over a link."""
        self._slow[frozenset(step.link)] = (step.delay_ms, float(step.loss))
        self._drill(*step.link)

    def clock(self, step: Clock) -> None:
        """Have the wall clock of a node jump."""
        self._clocks[step.node] = self._clocks.get(step.node, 0.0) + step.jump_s
        self._drill(step.node)

    def _drill(self, *nodes: str) -> None:
        for node in nodes:
            others = self.topology.neighbours(node)
            slow = {other: self._slow.get(frozenset((node, other))) for other in others}
            drill = Drill(
                cuts=tuple(other for other in others if self._reads_nothing(node, other)),
                slow=tuple(SlowLink(other, *how) for other, how in slow.items() if how),
                clock_s=self._clocks.get(node, 0.0),
            )
            self.backend.drill(node, drill, awaited=not self.is_hasty)

    # -- brokers --------------------------------------------------------------------------

    def broker(self, word: str, step: BrokerStep) -> None:
        """Kill or start brokers."""
        if word == "kill_broker":
            self._hit[step.kafka] = None
            self.backend.kill_broker(step.kafka, step.broker)
        else:
            self.backend.start_broker(step.kafka, step.broker, awaited=not self.is_hasty)

    def await_brokers(self) -> None:
        """Wait until all brokers serve that were ever killed; start those that do not run."""
        for kafka in self._hit:
            self.backend.start_broker(kafka, None)
