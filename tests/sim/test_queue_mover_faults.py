"""A mover dies, or its transaction fails, at every single call. Spec: R3, DESIGN 6."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.transport.memory_faults import Call, CrashNow, MemoryFaults, Outcome
from tests.component.in_memory_mesh import Mesh
from tests.sim.queue_stage import ANY, CHAIN, HOME, Stage


class _Unkind(MemoryFaults):
    """Lets the mover's calls of one kind fail, every second one, a few times."""

    def __init__(self, call: Call, outcome: Outcome | None, times: int) -> None:
        self._call, self._outcome, self.left = call, outcome, times
        self._count = 0

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if client != "moved-0" or call is not self._call or not self.left:
            return None
        self._count += 1
        if self._count % 2 and call is not Call.OPENED:
            return None
        self.left -= 1
        if self._outcome is None:
            raise CrashNow
        return self._outcome


@pytest.fixture
def stage_of() -> Iterator[Callable[[Mapping[str, object]], Stage]]:
    running: list[Mesh] = []

    def start(spec: Mapping[str, object]) -> Stage:
        running.append(Mesh(topology_from_mapping({**CHAIN, **spec})))
        return Stage(running[-1])

    yield start
    for mesh in running:
        mesh.close()


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (Call.OPENED, None),
        (Call.BEGIN, None),
        (Call.PRODUCE, None),
        (Call.COMMIT, None),
        (Call.COMMITTED, None),
        (Call.COMMIT, Outcome.FAILED),
        (Call.COMMIT, Outcome.UNKNOWN_COMMITTED),
        (Call.COMMIT, Outcome.UNKNOWN_ABORTED),
    ],
)
@pytest.mark.parametrize(
    ("spec", "node", "kafka"), [(HOME, "r", "two"), (ANY, "p", "one")], ids=["home", "any"]
)
def test_nothing_is_lost_or_doubled(
    stage_of: Callable[[Mapping[str, object]], Stage],
    spec: Mapping[str, object],
    node: str,
    kafka: str,
    call: Call,
    outcome: Outcome | None,
) -> None:
    """Copies and the group's offsets are one, wherever that ends."""
    stage = stage_of(spec)
    stage.queue("p", "r", "s") if spec is HOME else stage.queue("p", "t")
    faults = _Unkind(call, outcome, 3)
    stage.mesh.world.kafka[kafka].faults = faults
    stage.consume("s" if spec is HOME else "t")
    for _ in range(6):
        stage.publish("p", 7)
        for _ in range(8):
            try:
                stage.step(0.5)
            except CrashNow:
                stage.mesh.world.kill(node)
                stage.mesh.world.start(node)
    stage.until_all(200)
    assert faults.left < 3, "the fault never happened"
