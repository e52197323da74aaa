"""What a node keeps of neighbours in a Kafka cluster that it reads no more stays until it is told.

Nodes come and go under names that never come again, and an operator deletes their topics. Of each,
lanes keep where they stood in its outboxes: a node that comes back with them goes on there, and
whether they are deleted is known in its Kafka cluster alone. Workers that read it still look there,
and forget them; one that starts when no link leads there any more does not, and an operator has to
say that they are deleted (`mesh node forget`).
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
from mesh.worker.topics.left_outboxes import LOOK_MS

POINT = "what is kept of neighbours in a Kafka cluster that is read no more"
GUESTS = 3


def run(*, is_read_no_more: bool = True) -> str:
    """Return what is wrong, or nothing."""
    before = topology_with()
    backend = SimulatedBackend(before, 1)
    view = MeshView(before, backend.kafka, backend.now_ms)
    tally = Tally(before, backend.kafka, backend.now_ms)
    driver = Driver(before, backend, tally, view, workers={"a": 1, "b": 1})
    for number in range(GUESTS):
        guest = f"guest{number}"
        apply(driver, topology_with(guest))
        wants = Subscribe(node=guest, endpoint="e", filter="x")
        run_step(driver, 0, wants)
        run_step(driver, 0, Settle())
        apply(driver, topology_with())
        if is_read_no_more:
            begin_again(backend)
        for kafka in backend.kafka.values():
            for topic in [one for one in kafka.topics if f".{guest}." in one]:
                kafka.delete_topic(topic)
    live(backend, LOOK_MS + 5_000)
    begin_again(backend)  # what is over ends when a lane is taken
    kept = len([key for key in keys_of(backend) if b"guest" in key])
    return f"{kept} keys name {GUESTS} nodes that are gone" if kept else ""


def live(backend: SimulatedBackend, ms: int) -> None:
    """Let time pass."""
    until = backend.now_ms() + ms
    while backend.now_ms() < until:
        backend.advance()


def begin_again(backend: SimulatedBackend) -> None:
    """Have another worker of `a` take over."""
    backend.kill("a")
    backend.start("a")
    live(backend, 20_000)


def topology_with(*guests: str) -> Topology:
    """Return a mesh of two nodes, and those that do not stay."""
    links = [["a", "b"], *(["a", guest] for guest in guests)]
    return topology_from_mapping(
        {
            "kafka": {"near": {}, "far": {}},
            "nodes": {
                **{node: {"kafka": "near"} for node in ("a", "b")},
                **{guest: {"kafka": "far"} for guest in guests},
            },
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
        for log in backend.kafka["near"].topics[topic].logs:
            for one in log.entries:
                if one is not None:
                    found[topic, log.partition, one.key() or b""] = one.value()
    return [key for (_, _, key), value in found.items() if value is not None]
