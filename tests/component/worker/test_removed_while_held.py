"""Sources that a change removes while a target is held: the others come to it all the same."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import OUTBOX, STUCK, is_held, publish, refuse
from tests.component.worker.stops import stops
from tests.component.worker.test_stops_in_a_change import change_to
from tests.said import Said

WITHOUT_C = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}


@pytest.mark.parametrize("source", ["read", "stopped", "not found yet"])
def test_a_target_is_written_again_that_lacks_something_of_a_link_that_is_removed(
    said: Said, mesh: SmallMesh, source: str
) -> None:
    """Nothing of that link is read any more: the target would be held for it for ever. K20, K28."""
    publish(mesh, 0)
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 4)
    mesh.run(10_000)
    publish(mesh, 8)
    mesh.run(1_000)
    assert is_held(mesh, "c", STUCK)
    if source == "stopped":
        mesh.kafka.truncate(TopicPartition(OUTBOX, 0), 1)
        mesh.run()
        assert stops(mesh, "c")
    if source == "not found yet":
        mesh.world.kill("c")
    change_to(mesh, WITHOUT_C)
    if source == "not found yet":
        mesh.world.start("c")
        mesh.run()
    refuse(mesh, STUCK, is_refusing=False)
    ingress = mesh.names.ingress("c", MessageClass.GUARANTEED)
    mesh.write(ingress, b"1", headers=[subject("x")])
    mesh.run(20_000)
    assert mesh.read(STUCK)[-1].value() == b"1"
    assert not is_held(mesh, "c", STUCK)
    told = said.of("target.lacks")
    assert {(one["target"], one["source"], one["log_level"]) for one in told} == {
        (STUCK, OUTBOX, "error")
    }
