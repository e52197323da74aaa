"""A target is held while a neighbour's Kafka cluster is away: what others send comes. Spec: K20."""

from __future__ import annotations

import pytest

from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import STUCK, is_held, refuse, take_from

APART = {
    "kafka": {"k": {}, "far": {}},
    "nodes": {"a": {"kafka": "far"}, "b": {"kafka": "k"}, "c": {"kafka": "k"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}},
}


def _publish(mesh: SmallMesh, *values: str) -> None:
    """Publish each at the node that its first letter names."""
    for value in values:
        node = value[0]
        writer = mesh.world.kafka["far" if node == "a" else "k"].writer("client")
        writer.produce(f"mesh.{node}.in.g", value.encode(), None, 0, headers=[subject("x")])


def _came(mesh: SmallMesh) -> list[str]:
    return [(record.value() or b"").decode() for record in mesh.read(STUCK)]


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("lacks", [False, True])
def test_who_can_be_read_is_written(*, is_taken: bool, lacks: bool, is_away: bool) -> None:
    """Whether the target lacks something of who is away, and whether the lane is taken meanwhile.

    Nobody knows when a region comes back that is dead, or a partition finds a leader again.
    """
    mesh = SmallMesh(APART)
    far = mesh.world.kafka["far"]
    _publish(mesh, "a0", "b0", "c0")
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    _publish(mesh, *["a1"] * lacks, "b1", "c1")
    mesh.run(10_000)
    assert is_held(mesh, "c", STUCK)
    if is_away:
        far.available = False
    else:
        far.leaderless.update(TopicPartition("mesh.a.to.c.g", n) for n in range(4))
    if is_taken:
        take_from(mesh, "c").close()  # who has it notices, and takes it again
        _publish(mesh, "c-")
    mesh.run(20_000)
    refuse(mesh, STUCK, is_refusing=False)
    _publish(mesh, "b2", "c2")
    mesh.run(15_000)
    came = ["a0", "b0", "b1", "b2", *["c-"] * is_taken, "c0", "c1", "c2"]
    assert sorted(_came(mesh)) == came
    assert is_held(mesh, "c", STUCK) == lacks
    far.available = True
    far.leaderless.clear()
    mesh.run(20_000)
    _publish(mesh, "a2", "b3")
    mesh.run(10_000)
    assert sorted(_came(mesh)) == sorted([*came, *["a1"] * lacks, "a2", "b3"])
    assert not is_held(mesh, "c", STUCK)
