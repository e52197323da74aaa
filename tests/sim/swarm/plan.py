"""What a schedule is: a topology, what clients do, and what goes wrong, all by virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.seeds import Seed


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens at one moment of virtual time, in ms.

    Attributes:
        word: What.
        who: A node, a worker (`node/number`), a Kafka cluster or a topic.
        more: The rest, by name.
    """

    at: int
    word: str
    who: str
    more: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.more.items())
        return f"{self.at:6d} ms  {self.word} {self.who} {told}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule.

    Attributes:
        seed: Decides also the order of turns.
        oracle: The topology and what it demands.
        workers: The workers that are there from the start.
        moves: What clients do.
        faults: What goes wrong; each mends itself.
        session_ms: How long a silent member keeps its lanes.
        slow: Each step of a taking comes at most so many looks late.
        consent_ms: After how long an operator accepts a loss; 0 if nothing is lost on purpose.
        targets: The topologies that operators may put in force; None if it is always the same.
        crew: All workers that may be there, those of new nodes included; if that may change.
        before: The schedule that it follows, once that has come to rest: its mesh is the same.
    """

    seed: Seed
    oracle: Oracle
    workers: Sequence[str]
    moves: Sequence[Step]
    faults: Sequence[Step]
    session_ms: int
    slow: int = 0
    consent_ms: int = 0
    targets: Sequence[Oracle] | None = None
    crew: Sequence[str] = ()
    before: Plan | None = None

    def lines(self) -> list[str]:
        """Return the schedule as people read it."""
        lines: list[str] = []
        for number, one in enumerate([self.oracle, *(self.targets or ())]):
            if self.targets:
                lines.append(f"target {number - 1}" if number else "topology")
            lines += one.lines()
        lines.append(f"workers {', '.join(self.workers)}; session timeout {self.session_ms} ms")
        lines.append(f"steps of takings come up to {self.slow} looks late")
        if self.before is not None:
            lines += [f"before  {step}" for step in self.before.moves]
            lines.append("then, when the mesh is at rest:")
        return lines + [str(step) for step in self.steps]

    @property
    def steps(self) -> Sequence[Step]:
        """All that happens, in order."""
        return in_order([*self.moves, *self.faults])


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Return steps as they come."""
    return sorted(steps, key=lambda step: step.at)
