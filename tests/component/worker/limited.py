"""The chain a, b, c, where an endpoint has a limit and another one has none."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.losses import Loss
from mesh.transport.port import TopicPartition
from mesh.view.messages import announced
from mesh.worker.process.errands import SteppedErrands
from tests.component.worker.conftest import CHAIN, SmallMesh, subject

SIZE = 1_000
LIMIT = 10 * SIZE
FULL, OTHER = "mesh.c.ep.s", "mesh.c.ep.t"
AT = TopicPartition(FULL, 0)


def limited(when_full: str, *, late: int = 0, **limit: object) -> SmallMesh:
    """The chain a, b, c; `c/s` has a limit, `c/t` has none, and `c/s` has one reader.

    What is asked beside the loop is answered so many looks late.
    """
    mesh = SmallMesh.__new__(SmallMesh)
    limits = [{"endpoint": "s", "node": "c", **limit, "whenFull": when_full}]
    topology = topology_from_mapping({**CHAIN, "limits": limits})
    mesh.world = World(topology, seed=3, errands=lambda: SteppedErrands(lambda: late))
    mesh.names = SmallMesh().names
    for node in "abc":
        mesh.world.start(node)
    for endpoint in "st":
        mesh.subscribe("c", endpoint, ">")
    mesh.run()
    read_to(mesh, 0)
    return mesh


def read_to(mesh: SmallMesh, offset: int) -> None:
    """Have the one group of `c/s` commit that it has read everything below."""
    mesh.kafka.commit_group("slow", {AT: offset})


def read_all(mesh: SmallMesh) -> None:
    read_to(mesh, mesh.kafka.admin().stable_ends([AT])[AT])


def publish(mesh: SmallMesh, first: int, end: int, node: str = "a") -> None:
    for number in range(first, end):
        topic = f"mesh.{node}.in.g"
        mesh.write(topic, b"%04d" % number + b"x" * (SIZE - 4), headers=[subject("x")])
        mesh.run(300)


def there(mesh: SmallMesh, topic: str) -> list[int]:
    """Return the numbers of the messages in an endpoint, in order."""
    return [
        int((record.value() or b"")[:4]) for record in mesh.read(topic) if announced(record) is None
    ]


def losses(mesh: SmallMesh) -> list[Loss]:
    return [loss for record in mesh.read(FULL) if (loss := announced(record)) is not None]


def pushed_out(mesh: SmallMesh) -> list[int]:
    return [int((record.value() or b"")[:4]) for record in mesh.dead_letters("c")]
