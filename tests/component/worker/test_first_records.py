"""Topics that are made anew before anything of them was read: their records are their own. R6, K9."""

from __future__ import annotations

import pytest

from mesh.model.control import StopReason
from mesh.model.frames import MessageClass
from mesh.transport.headers import headers_of
from mesh.transport.port import TopicPartition
from mesh.wire.deliveries import delivery_of
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.gates import Gate

INGRESS = TopicPartition("mesh.a.in.g", 0)


def publish(mesh: SmallMesh, *values: bytes) -> None:
    for value in values:
        mesh.publish(value, [subject("x")])


def delivered(mesh: SmallMesh) -> list[tuple[bytes | None, bytes]]:
    """Return what came, each with the id of the topic that it says it was published in."""
    return [(one.value(), delivery_of(headers_of(one)).source.topic_id) for one in mesh.delivered()]


def id_of(mesh: SmallMesh, topic: str) -> bytes:
    return mesh.kafka.admin().describe([topic])[topic].topic_id


def test_an_ingress_that_is_made_anew_before_anything_was_read_is_another_one() -> None:
    mesh = SmallMesh()
    mesh.kafka.recreate(INGRESS.topic)
    publish(mesh, b"0", b"1")
    mesh.run(10_000)
    publish(mesh, b"2")
    mesh.run(10_000)
    new = id_of(mesh, INGRESS.topic)
    assert delivered(mesh) == [(b"0", new), (b"1", new), (b"2", new)]


def test_an_outbox_that_is_made_anew_before_anything_was_read_loses_nothing_of_the_new_one() -> (
    None
):
    mesh = SmallMesh()
    mesh.kafka.recreate(mesh.names.outbox("a", "b", MessageClass.GUARANTEED))
    publish(mesh, b"0", b"1")
    mesh.run(10_000)
    publish(mesh, b"2")
    mesh.run(10_000)
    assert [value for value, _ in delivered(mesh)] == [b"0", b"1", b"2"]


def test_what_is_read_first_waits_for_the_look_and_comes_once() -> None:
    gate = Gate("_asking")
    mesh = SmallMesh(errands=lambda: gate)
    gate.is_shut = True
    publish(mesh, b"0", b"1", b"2")
    mesh.run(3_000)
    publish(mesh, b"3")
    mesh.run(3_000)
    assert delivered(mesh) == []
    gate.is_shut = False
    mesh.run(3_000)
    assert [value for value, _ in delivered(mesh)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_between_the_look_and_the_first_fetch_of_a_lane_that_is_taken(count: int) -> None:
    """The position is inside of the new log: nothing but the id tells that it is another."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1")
    mesh.run()
    former = id_of(mesh, INGRESS.topic)
    mesh.world.kill("a")
    mesh.world.start("a")
    workers = mesh.world.workers

    def is_assigned() -> bool:
        lanes = workers["a"].lanes if "a" in workers else None
        return lanes is not None and any(INGRESS in one.sources for one in lanes.owned.values())

    assert mesh.world.run_until(is_assigned, 10_000)
    mesh.kafka.recreate(INGRESS.topic)
    publish(mesh, *(b"new %d" % number for number in range(count)))
    mesh.run(10_000)
    assert delivered(mesh) == [(b"0", former), (b"1", former)]
    lanes = workers["a"].lanes
    assert lanes is not None
    [stop] = [stop for one in lanes.owned.values() for stop in one.positions.stopped.values()]
    assert (stop.topic_id, stop.first) == (former, 2)


@pytest.mark.parametrize("come", [0, 1, 2])
def test_a_log_that_is_cut_off_meanwhile_is_found(come: int) -> None:
    """What was read first is delivered, and what came in its place is not passed over."""
    gate = Gate("_asking")
    mesh = SmallMesh(errands=lambda: gate)
    gate.is_shut = True
    publish(mesh, b"0", b"1")
    mesh.run(1_000)
    mesh.kafka.truncate(INGRESS, 1)
    publish(mesh, *(b"new %d" % number for number in range(come)))
    gate.is_shut = False
    mesh.run(10_000)
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    stops = [stop for one in lanes.owned.values() for stop in one.positions.stopped.values()]
    told = [(stop.reason, stop.first, stop.next) for stop in stops]
    assert told == [(StopReason.TRUNCATED, 1, 2)]
    assert [value for value, _ in delivered(mesh)] == [b"0", b"1"]
