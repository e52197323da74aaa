"""What goes wrong at the calls of the ports, armed by the schedule, fired at the n-th call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from mesh.errors import TransportUnavailableError
from mesh.transport.memory_faults import Call, CrashNow, MemoryFaults, Outcome
from mesh.worker.process.errands import Errand, SteppedErrands, Steps, T


@dataclass(slots=True)
class Armed:
    """One thing that will happen to a worker at its `left`-th call of a kind from now."""

    call: Call
    left: int
    outcome: Outcome | None


@dataclass(slots=True)
class SwarmFaults(MemoryFaults):
    """Shared by all Kafka clusters of one world.

    Attributes:
        actor: The worker whose turn it is, or empty for clients.
        armed: By worker.
        storms: Worker -> every so manyth begin or commit of it has this outcome.
        deaf: Workers that neither hear their group nor are heard by it.
        late, tiny: Workers whose fetches return nothing, or one record.
        dirty: Partitions of which readers may see more, since somebody last looked.
        reached: Counts rare states.
        committed: Called right after each commit.
        changed: Called when records of a partition come or go.
        waited_ms: How long real calls of this turn would have waited for brokers.
        beside: Whether what is called now is asked beside the turn.
    """

    reached: Counter[str]
    committed: Callable[[], None]
    actor: str = ""
    armed: dict[str, list[Armed]] = field(default_factory=dict)
    storms: dict[str, tuple[int, Outcome]] = field(default_factory=dict)
    calls: int = 0
    deaf: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    tiny: dict[str, int] = field(default_factory=dict)
    dirty: dict[tuple[str, int], None] = field(default_factory=dict)
    changed: Callable[[str, int], None] | None = None
    waited_ms: int = 0
    beside: bool = False

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is Call.COMMITTED:
            self.committed()
        armed = self.armed.get(self.actor)
        if armed:
            for one in armed:
                if one.call is call:
                    one.left -= 1
                    if one.left <= 0:
                        armed.remove(one)
                        return self._fire(one, client)
        if call is Call.POLL and self.actor in self.deaf:
            self.reached["worker does not hear its group"] += 1
            return Outcome.FAILED
        if self.storms and call in (Call.BEGIN, Call.COMMIT) and self.actor in self.storms:
            every, outcome = self.storms[self.actor]
            self.calls += 1
            if self.calls % every == 0:
                return self._fire(Armed(call, 0, outcome), client)
        return None

    def late_records(self) -> int:
        """Tear transactions now here, now there."""
        self.calls += 1
        return 1 + self.calls % 5

    def _fire(self, one: Armed, client: str) -> Outcome:
        kind = client.partition("-")[0]
        if one.outcome is None:
            self.reached[f"crash at {one.call}"] += 1
            raise CrashNow
        self.reached[f"{one.call} {one.outcome} ({kind})"] += 1
        return one.outcome

    def fetch_limit(self, client: str, limit: int) -> int:
        if self.armed:
            self.called(Call.READ, client, "")
        if not client.startswith("mesh-"):
            return limit  # who recalls its own state waits for it
        if self.actor in self.late:
            return 0
        return 1 if self.actor in self.tiny else limit

    def waited(self, client: str, timeout_s: float) -> None:
        """Give up at once: nobody else has a turn before this call returns."""
        self.reached[f"{client} waited in vain"] += 1
        raise TransportUnavailableError(f"{client}: nothing came; an open transaction hides it")

    def costs(self, what: str, ms: int) -> None:
        """Add up what a turn waits for."""
        if what == "commit" and ms:
            self.reached["commit took long"] += 1
        if not (self.beside or what.startswith("read mesh-")):  # the intake has its own thread
            self.waited_ms += ms

    def appended(self, topic: str, partition: int) -> None:
        self.dirty[topic, partition] = None
        if self.changed is not None:
            self.changed(topic, partition)


class Counting(Protocol):
    """Adds up what a turn waits for, but for what goes on beside it."""

    beside: bool


@contextmanager
def aside(faults: Counting) -> Iterator[None]:
    """Have nothing added up meanwhile."""
    before, faults.beside = faults.beside, True
    try:
        yield
    finally:
        faults.beside = before


@dataclass(frozen=True, slots=True)
class Beside(SteppedErrands):
    """Errands of the swarm: what they wait for makes no turn longer."""

    faults: Counting | None = None

    def begin(self, steps: Steps[T]) -> Errand[T]:
        """Have the steps done, one after the other."""
        return SteppedErrands(self.rest).begin(self._aside(steps))

    def _aside(self, steps: Steps[T]) -> Steps[T]:
        while True:
            try:
                with aside(self.faults):
                    next(steps)
            except StopIteration as end:
                return end.value
            try:
                yield
            except GeneratorExit:
                steps.close()
                raise
