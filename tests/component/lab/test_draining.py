"""A drain ends when nothing is under way, also where a look at all topics takes its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Cut, Drain, Kill, Publish, Settle, Slow, Start, Step, Subscribe
from mesh.lab.tally import Tally
from mesh.transport.port import TopicPartition
from mesh.view.mesh_view import MeshView

DIRECT = {"class": "direct"}
LOOK_MS = 200
"""How long a look at all topics takes here."""

PAIR = topology_from_mapping(
    {
        "kafka": {"k": {}, "l": {}},
        "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "l"}},
        "zones": {"Z": {"kind": "one-hop", "links": [["a", "b"]]}},
    }
)


class SlowTally(Tally):
    """Takes its time for each look, and finds in outboxes what was there before it began.

    Positions that it reads later tell of more: so it is where topics are many and brokers slow.
    """

    def __init__(self, backend: SimulatedBackend) -> None:
        self.backend = backend
        self.found: dict[TopicPartition, int] = {}
        super().__init__(PAIR, backend.kafka, backend.now_ms)

    def refresh(self) -> None:
        before = dict(self.found)
        self.ends = self.found
        super().refresh()
        self.ends = {
            at: end
            for at, latest in self.found.items()
            if (end := before.get(at, 0) if ".to." in at.topic else latest)
        }
        begun_ms = self.backend.now_ms()
        while self.backend.now_ms() - begun_ms < LOOK_MS:
            self.backend.advance()


def test_what_was_written_while_somebody_looked_is_waited_for() -> None:
    backend = SimulatedBackend(PAIR, 1)
    tally = SlowTally(backend)
    driver = Driver(PAIR, backend, tally, MeshView(PAIR, backend.kafka, backend.now_ms))
    taken: list[Step] = [
        Subscribe(node="b", endpoint="s", filter=">"),
        Settle(),
        Slow(link=["a", "b"], delay_ms=1_000, loss=0),
        Publish(node="a", subject="x", key="k", count=5),
        Drain(),
    ]
    run(driver, *taken)
    assert tally.endpoints["b/s"].count == 5
    driver.close()


def run(driver: Driver, *taken: Step) -> None:
    for number, step in enumerate(taken):
        run_step(driver, number, step)


@pytest.fixture
def driver() -> Iterator[Driver]:
    backend = SimulatedBackend(PAIR, 1)
    tally = Tally(PAIR, backend.kafka, backend.now_ms)
    view = MeshView(PAIR, backend.kafka, backend.now_ms)
    driver = Driver(PAIR, backend, tally, view)
    yield driver
    driver.close()


def write_late(driver: Driver, node: str, late_ms: int) -> None:
    """Have a node commit as ever, and write its direct copies so much later."""
    backend = driver.backend
    assert isinstance(backend, SimulatedBackend)
    backend.workers[node].lanes.direct._written_ms = backend.now_ms() + late_ms


@pytest.mark.parametrize(("writer", "of"), [("a", "guaranteed"), ("b", "direct")])
def test_direct_copies_that_come_late_are_waited_for(driver: Driver, writer: str, of: str) -> None:
    """A worker that gets no time writes them long after it has committed what it read."""
    run(driver, Subscribe(node="b", endpoint="s", filter=">", **{"class": of}), Settle())
    write_late(driver, writer, 5_000)
    run(driver, Publish(node="a", subject="x", key="k", count=3, **DIRECT), Drain())
    assert driver.tally.endpoints["b/s"].count == 3


def test_those_that_died_with_their_worker_are_waited_for_once(driver: Driver) -> None:
    run(driver, Subscribe(node="b", endpoint="s", filter=">"), Settle())
    write_late(driver, "a", 100_000)
    backend = driver.backend
    assert isinstance(backend, SimulatedBackend)
    lanes = backend.workers["a"].lanes
    run(driver, Publish(node="a", subject="x", key="k", count=3, **DIRECT))
    backend.run_until(lambda: bool(lanes.owned[0].direct.ready), 10_000)
    run(driver, Kill(node="a"), Start(node="a"), Settle(), Drain())
    begun_ms = backend.now_ms()
    run(driver, Drain())
    assert driver.tally.endpoints["b/s"].count == 0
    assert backend.now_ms() - begun_ms < 1_000


def test_what_the_end_that_still_reads_lacks_is_waited_for(driver: Driver) -> None:
    """A link that is cut at one end alone carries messages the other way; only there they wait."""
    taken: list[Step] = [
        Subscribe(node="a", endpoint="s", filter=">"),
        Subscribe(node="b", endpoint="s", filter=">"),
        Settle(),
        Cut(link=["a", "b"], only="b"),
        Publish(node="a", subject="x", count=5),
        Publish(node="b", subject="x", count=7),
    ]
    for number, step in enumerate(taken):
        run_step(driver, number, step)
    waiting = driver.drain(len(taken), 60)["waiting"]
    assert isinstance(waiting, dict)
    assert driver.tally.endpoints["a/s"].count == 12
    assert driver.tally.endpoints["b/s"].count == 7
    assert waiting
    assert all(place.startswith("mesh.a.to.b.g") for place in waiting)
