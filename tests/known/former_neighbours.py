"""What a node keeps of neighbours that left for good is never deleted.

Nodes come and go under names that never come again, and an operator deletes their topics. Of each,
lanes keep where they stood in its outboxes: a node that comes back with them goes on there, and
whether they are deleted is known in its Kafka cluster alone, which may not be read any more.
"""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply, Settle, Subscribe
from mesh.lab.tally import Tally
from mesh.model.topology import Topology
from mesh.view.mesh_view import MeshView

POINT = "what is kept of neighbours that left for good"
GUESTS = 3


def run(*, comes: bool = True) -> str:
    """Return what is wrong, or nothing."""
    before = topology_with()
    backend = SimulatedBackend(before, 1)
    view = MeshView(before, backend.kafka, backend.now_ms)
    tally = Tally(before, backend.kafka, backend.now_ms)
    driver = Driver(before, backend, tally, view, workers={"a": 1, "b": 1})
    for number in range(GUESTS if comes else 0):
        guest = f"guest{number}"
        apply(driver, topology_with(guest))
        wants = Subscribe(node=guest, endpoint="e", filter="x")
        run_step(driver, 0, wants)
        run_step(driver, 0, Settle())
        apply(driver, topology_with())
        for topic in [one for one in backend.kafka["k"].topics if f".{guest}." in one]:
            backend.kafka["k"].delete_topic(topic)
    backend.kill("a")
    backend.start("a")  # what is over ends when a lane is taken
    until = backend.now_ms() + 20_000
    while backend.now_ms() < until:
        backend.advance()
    kept = len([key for key in keys_of(backend) if b"guest" in key])
    return f"{kept} keys name {GUESTS} nodes that are gone" if kept else ""


def topology_with(*guests: str) -> Topology:
    """Return a mesh of two nodes, and those that do not stay."""
    links = [["a", "b"], *(["a", guest] for guest in guests)]
    return topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {node: {} for node in ("a", "b", *guests)},
            "zones": {"Z": {"kind": "multi-hop", "links": links}},
        }
    )


def apply(driver: Driver, after: Topology) -> None:
    """Put a topology in force."""
    driver.proposals = {0: Proposal(mesh=Mesh(spec={}, topology=after))}
    run_step(driver, 0, Apply(timeout=60))


def keys_of(backend: SimulatedBackend) -> list[bytes]:
    """Return the keys that `a` keeps, without those that were deleted."""
    found: dict[tuple[str, int, bytes], bytes | None] = {}
    for topic in ("mesh.a.progress", "mesh.a.learned"):
        for log in backend.kafka["k"].topics[topic].logs:
            for one in log.entries:
                if one is not None:
                    found[topic, log.partition, one.key() or b""] = one.value()
    return [key for (_, _, key), value in found.items() if value is not None]
