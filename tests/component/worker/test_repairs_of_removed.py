"""What a neighbour misses is sent again, of a source that is read no more announced. K11, K28."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from tests.component.worker.conftest import CHAIN, SmallMesh
from tests.component.worker.stops import announcements, payloads, publish
from tests.component.worker.test_stops_in_a_change import change_to
from tests.said import Said

OUTBOX = "mesh.b.to.c.g"
REPAIR = b"repair "


def lose_one_unread(mesh: SmallMesh) -> None:
    """Have c get `1`, and not read yet that `2` has vanished from its outbox, before `3`."""
    publish(mesh, b"1")
    mesh.run()
    mesh.world.cut("c", ["b"])
    publish(mesh, b"2")
    mesh.run(1_500)
    entries = mesh.kafka.topics[OUTBOX].logs[0].entries
    entries[max(at for at, one in enumerate(entries) if one is not None)] = None
    publish(mesh, b"3")


class FailsOnce(MemoryFaults):
    """The first commit of a repair does not come about."""

    has_failed = False

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is not Call.COMMIT or client != "held-0" or self.has_failed:
            return None
        self.has_failed = True
        return Outcome.FAILED


def test_a_repair_that_fails_is_told_and_made_again(said: Said, mesh: SmallMesh) -> None:
    lose_one_unread(mesh)
    mesh.kafka.faults = FailsOnce()
    mesh.world.cut("c", [])
    mesh.run(40_000)
    [told] = said.of("repair.failed")
    place = {"neighbour": "c", "outbox": OUTBOX}
    assert told == {"log_level": "warning", **place, "fault": told["fault"]}
    assert "a connection was lost" in told["fault"]
    assert payloads(mesh) == [b"1", b"2", b"3"]


def test_what_came_over_a_link_that_was_removed_is_told_as_lost(mesh: SmallMesh) -> None:
    """Else its chain would stay broken, with all that came behind the hole, and say so for ever."""
    lose_one_unread(mesh)
    mesh.run(1_500)
    change_to(mesh, {"Z": {"kind": "multi-hop", "links": [["b", "c"]]}})
    mesh.world.cut("c", [])
    mesh.run(40_000)
    learner = mesh.world.workers["c"].machine.learner
    assert learner.faults.gaps == {}
    [told] = announcements(mesh)
    assert payloads(mesh) == [b"1"]
    assert (told["first"], told["last"]) == (1, 4)  # of the outbox, markers included


def asked(mesh: SmallMesh) -> Mapping[bytes, bytes | None]:
    """Return the requests for repairs that c has written to b, by key, and what stands there."""
    records = mesh.read(mesh.names.to_control("c", "b"))
    return {
        key: record.value() for record in records if (key := record.key() or b"").startswith(REPAIR)
    }


def test_a_request_that_outlived_its_link_ends_when_it_is_answered(
    said: Said, mesh: SmallMesh
) -> None:
    """Else the neighbour would send all of that again at each of its starts. Spec: K11."""
    lose_one_unread(mesh)
    mesh.world.cut("b", ["c"])
    mesh.world.cut("c", [])
    mesh.run(1_500)
    assert None not in asked(mesh).values()
    change_to(mesh, {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}})
    mesh.world.cut("b", [])
    change_to(mesh, CHAIN["zones"], number=4)
    mesh.run(20_000)
    assert asked(mesh)
    assert set(asked(mesh).values()) == {None}
    begun = {"neighbour": "c", "after": 0, "outbox": OUTBOX, "partition": 0}
    assert said.of("repair.begun") == [{"log_level": "warning", **begun}]
    done = {"log_level": "warning", "neighbour": "c", "outbox": OUTBOX}
    assert said.of("repair.done") == [done]
    changed = said.of("topology.changed")
    assert {"log_level": "warning", "gone": ("b",), "added": ("a",)} in changed
