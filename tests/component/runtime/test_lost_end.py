"""A neighbour's control topic loses its end, as in an election of a broker that lags. Spec: K23."""

from __future__ import annotations

import pytest

from mesh.codec.control import decode_acknowledgement
from mesh.codec.keys import subscribed_key
from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import CHAIN, SmallMesh, subject


def is_known_everywhere(mesh: SmallMesh, node: str, version: int) -> bool:
    records = mesh.read(mesh.names.control(node))
    told = [record.value() for record in records if record.key() == subscribed_key()]
    return decode_acknowledgement(told[-1] or b"").complete == version


@pytest.mark.parametrize("later_ms", [100, 600])
@pytest.mark.parametrize("lost", [4, 10, 14])
@pytest.mark.parametrize("kind", ["multi-hop", "external"])
def test_nothing_that_was_acknowledged_is_taken_back(kind: str, lost: int, later_ms: int) -> None:
    """Marks of long ago prove what was offered then; the neighbour is about to write again."""
    mesh = SmallMesh({**CHAIN, "zones": {"Z": {"kind": kind, "links": [["b", "c"]]}}})
    mesh.subscribe("c", "s", ">", None)
    mesh.run(10_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.world.run_until(lambda: is_known_everywhere(mesh, "c", 2), 2_000)
    mesh.run(later_ms)
    mesh.kafka.truncate(TopicPartition(mesh.names.control("c"), 0), lost)
    for number in range(40):
        mesh.write("mesh.b.in.g", b"%d" % number, headers=[subject("y/1")])
        mesh.run(30)
    mesh.run(40_000)
    got = {record.value() for record in mesh.read(mesh.names.endpoint("c", "f"))}
    assert got == {b"%d" % number for number in range(40)}
