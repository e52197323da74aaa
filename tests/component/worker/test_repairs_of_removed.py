"""What a neighbour misses of a source that is read no more is announced to it. Spec: K11, K28."""

from __future__ import annotations

from tests.component.worker.conftest import SmallMesh
from tests.component.worker.stops import announcements, payloads, publish
from tests.component.worker.test_stops_in_a_change import change_to

OUTBOX = "mesh.b.to.c.g"


def test_what_came_over_a_link_that_was_removed_is_told_as_lost(mesh: SmallMesh) -> None:
    """Else its chain would stay broken, with all that came behind the hole, and say so for ever."""
    publish(mesh, b"1")
    mesh.run()
    mesh.world.cut("c", ["b"])
    publish(mesh, b"2")
    mesh.run(1_500)
    entries = mesh.kafka.topics[OUTBOX].logs[0].entries
    entries[max(at for at, one in enumerate(entries) if one is not None)] = None
    publish(mesh, b"3")
    mesh.run(1_500)
    change_to(mesh, {"Z": {"kind": "multi-hop", "links": [["b", "c"]]}})
    mesh.world.cut("c", [])
    mesh.run(40_000)
    learner = mesh.world.workers["c"].machine.learner
    assert learner.faults.gaps == {}
    [told] = announcements(mesh)
    assert payloads(mesh) == [b"1"]
    assert (told["first"], told["last"]) == (1, 4)  # of the outbox, markers included
