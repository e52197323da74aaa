"""A drain ends when nothing is under way, also where a look at all topics takes its time."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.driver import COPIES_MS, Driver
from mesh.lab.play import run_step
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Publish, Settle, Slow, Step, Subscribe
from mesh.lab.tally import Tally
from mesh.transport.port import TopicPartition
from mesh.view.mesh_view import MeshView

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
        while self.backend.now_ms() - begun_ms < 2 * COPIES_MS:
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
    for number, step in enumerate(taken):
        run_step(driver, number, step)
    assert tally.endpoints["b/s"].count == 5
    driver.close()
