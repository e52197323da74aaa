"""A repair whose source cannot be read keeps no other waiting. Spec: K20.

Two neighbours miss something. What the first misses stood in an outbox of a Kafka cluster that is
away: what the second misses is in the node's own ingress.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.model.inputs import Input
from mesh.transport.port import TopicPartition
from mesh.worker.second_writer.catching_up import CHUNK, CatchUp
from tests.component.worker.conftest import SmallMesh, subject

APART = {
    "kafka": {"k": {}, "far": {}},
    "nodes": {"a": {"kafka": "far"}, "b": {"kafka": "k"}, "c": {"kafka": "k"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}
OUTBOX = "mesh.b.to.c.g"


def _publish(mesh: SmallMesh, node: str, value: bytes) -> None:
    kafka = mesh.world.kafka["far" if node == "a" else "k"]
    writer = kafka.writer("client")
    writer.produce(f"mesh.{node}.in.g", value, None, 0, headers=[subject("x")])


def torn(mesh: SmallMesh) -> None:
    """Let an outbox lose what came of both sources, before c has read it."""
    for round_ in range(3):
        if round_ == 1:
            mesh.world.cut("c", ["b"])
        if round_ == 2:
            mesh.kafka.truncate(TopicPartition(OUTBOX, 0), 2)
        for node in "ab":
            _publish(mesh, node, f"{node}{round_}".encode())
            mesh.run(2_000)


def came(mesh: SmallMesh, node: str) -> list[bytes]:
    """Return what c has got of what a node published."""
    values = [record.value() or b"" for record in mesh.delivered()]
    return [value for value in values if value.startswith(node.encode())]


@pytest.mark.parametrize("at_ms", [0, 100])
def test_what_can_be_read_is_repaired(at_ms: int) -> None:
    """Whether the Kafka cluster is away before the repair begins, or goes while it reads."""
    mesh = SmallMesh(APART)
    torn(mesh)
    far = mesh.world.kafka["far"]
    if at_ms == 0:
        far.available = False
    mesh.world.cut("c", [])
    if at_ms:
        mesh.run(at_ms)
        far.available = False
    mesh.run(60_000)
    assert came(mesh, "b") == [b"b0", b"b1", b"b2"]
    far.available = True
    mesh.run(60_000)
    assert came(mesh, "a") == [b"a0", b"a1", b"a2"]
    assert came(mesh, "b") == [b"b0", b"b1", b"b2"]


def test_a_source_that_goes_away_while_it_is_read_is_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its readers are open, and nothing comes of them any more."""
    mesh = SmallMesh(APART)
    torn(mesh)
    far, read = mesh.world.kafka["far"], CatchUp.read
    cut: list[bool] = []

    def reading(self: CatchUp, most: int = CHUNK) -> Iterator[Input]:
        if not cut and any(source.at.topic == "mesh.a.to.b.g" for source in self.sources):
            cut.append(True)
            far.available = False
        yield from read(self, most)

    monkeypatch.setattr(CatchUp, "read", reading)
    mesh.world.cut("c", [])
    mesh.run(60_000)
    assert cut == [True]
    assert (came(mesh, "a"), came(mesh, "b")) == ([b"a0"], [b"b0", b"b1", b"b2"])
    far.available = True
    mesh.run(60_000)
    assert came(mesh, "a") == [b"a0", b"a1", b"a2"]
