"""An ingress that lost its end, and has grown beyond where it was read before anybody looked. R6."""

from __future__ import annotations

import pytest

from mesh.model.control import Stop, StopReason
from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_stop
from mesh.wire.keys import accept_key
from tests.component.worker import test_stops
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import is_held, refuse
from tests.said import Said

INGRESS = TopicPartition("mesh.a.in.g", 0)


def publish(mesh: SmallMesh, *values: bytes) -> None:
    for value in values:
        mesh.publish(value, [subject("x")])


def stops(mesh: SmallMesh) -> list[Stop]:
    workers = mesh.world.workers
    lanes = workers["a"].lanes
    assert lanes is not None
    return [stop for lane in lanes.owned.values() for stop in lane.progress.stopped.values()]


def delivered(mesh: SmallMesh) -> list[bytes]:
    return [value for one in mesh.delivered() if (value := one.value()) is not None]


def outgrow(mesh: SmallMesh, lost: int, come: int = 6) -> None:
    """Have a read four records, lose the last of them, and others come in their place."""
    publish(mesh, b"0", b"1", b"2", b"3")
    mesh.run()
    mesh.world.kill("a")
    mesh.kafka.truncate(INGRESS, lost)
    publish(mesh, *(b"new %d" % number for number in range(come)))
    mesh.world.start("a")
    mesh.run(10_000)


@pytest.mark.parametrize(("lost", "come"), [(1, 6), (2, 6), (4, 6), (2, 1), (4, 3), (3, 3)])
def test_it_stops_where_the_log_is_another_and_goes_on_there_once_that_is_accepted(
    said: Said, lost: int, come: int
) -> None:
    """What took the offsets of what was lost is neither passed over nor taken for it.

    Also where it does not reach as far as the position: the log's end is not where it was cut off.
    """
    mesh = SmallMesh()
    outgrow(mesh, lost, come)
    [stop] = stops(mesh)
    assert (stop.reason, stop.first, stop.next) == (StopReason.TRUNCATED, 4 - lost, 4)
    outgrown = [one["offset"] for one in said.of("source.outgrown")]
    assert outgrown == ([3] if come >= lost else [])
    assert delivered(mesh) == [b"0", b"1", b"2", b"3"]
    accepted = accept_key("a", stop.topic, stop.partition)
    mesh.write(mesh.names.config(), encode_stop(stop), key=accepted)
    mesh.run(10_000)
    assert stops(mesh) == []
    assert delivered(mesh) == [
        *(b"%d" % number for number in range(4)),
        *(b"new %d" % number for number in range(come)),
    ]


def test_it_is_found_while_the_worker_lives_too(said: Said) -> None:
    """The Kafka cluster is away for the election: whoever reads again looks again."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1", b"2")
    mesh.run()
    workers = mesh.world.workers
    lanes = workers["a"].lanes
    assert lanes is not None
    mesh.kafka.truncate(INGRESS, 2)
    publish(mesh, b"3", b"4", b"5")
    lanes.sources.lost(lanes.owned, [INGRESS])
    mesh.run(10_000)
    [stop] = stops(mesh)
    assert (stop.reason, stop.first, stop.next) == (StopReason.TRUNCATED, 1, 3)
    place = {"log_level": "error", "topic": INGRESS.topic, "partition": INGRESS.partition}
    assert said.of("source.lost") == [place]


def test_a_log_under_a_later_leader_is_read_on() -> None:
    """A clean election loses nothing: the record read last has its epoch still."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1")
    mesh.run()
    mesh.world.kill("a")
    mesh.kafka.topics[INGRESS.topic].logs[0].leader_epoch += 1
    publish(mesh, b"2")
    mesh.world.start("a")
    mesh.run(10_000)
    assert stops(mesh) == []
    assert delivered(mesh) == [b"0", b"1", b"2"]


def test_where_the_record_read_last_is_deleted_nothing_can_be_told() -> None:
    """It is no loss that what was read is gone."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1")
    mesh.run()
    mesh.world.kill("a")
    mesh.kafka.admin().delete_before({INGRESS: 2})
    publish(mesh, b"2")
    mesh.world.start("a")
    mesh.run(10_000)
    assert stops(mesh) == []
    assert delivered(mesh) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_an_outbox_that_has_grown_beyond_what_it_lost_stops_as_well(*, is_noticed: bool) -> None:
    """Else a target that is held gets what follows twice, and lacks without a word what is lost.

    Its reader may have noticed before the log has grown again, or nobody was there. Spec: K20.
    """
    mesh, outbox = SmallMesh(), TopicPartition("mesh.a.to.b.g", 0)
    onward = mesh.names.outbox("b", "c", MessageClass.GUARANTEED)
    mesh.subscribe("b", "t", ">")
    mesh.run()
    publish(mesh, b"0")
    mesh.run()
    refuse(mesh, onward, is_refusing=True)
    for value in (b"1", b"2", b"3"):
        publish(mesh, value)
        mesh.run(2_000)
    assert is_held(mesh, "b", onward)
    workers = mesh.world.workers
    if is_noticed:
        mesh.kafka.blocked.add(("mesh-b", outbox.topic))
    else:
        mesh.world.kill("b")
    mesh.kafka.truncate(outbox, 1)
    for value in (b"4", b"5", b"6"):
        publish(mesh, value)
        mesh.run(500)
    if is_noticed:
        lanes = workers["b"].lanes
        assert lanes is not None
        mesh.kafka.blocked.clear()
        lanes.sources.lost(lanes.owned, [outbox])
    else:
        mesh.world.start("b")
    mesh.run(5_000)
    refuse(mesh, onward, is_refusing=False)
    mesh.run(20_000)
    for stop in test_stops.stops(mesh, "b").values():
        assert stop.reason == StopReason.TRUNCATED
        test_stops.accept(mesh, "b", stop)
    mesh.run(20_000)
    publish(mesh, b"7")
    mesh.run(20_000)
    came = [one.value() for one in mesh.read(mesh.names.endpoint("b", "t"))]
    assert came == [b"0", b"1", b"2", b"3", None, b"4", b"5", b"6", b"7"]
    # What c lacks of it is lost: where it was to be read from other records stand.
    came = [one.value() for one in mesh.delivered()]
    assert came == [b"0", b"1", b"2", None, b"4", b"5", b"6", b"7"]
