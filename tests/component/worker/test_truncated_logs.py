"""An ingress that lost its end, and has grown beyond where it was read before anybody looked. R6."""

from __future__ import annotations

import pytest

from mesh.model.control import Pause, Stop, StopReason
from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_pause, encode_stop
from mesh.wire.keys import SubjectPauseKey, accept_key, subject_pause_key
from tests.component.worker import test_stops
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import is_held, refuse
from tests.component.worker.test_commits import ZERO, Slow
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


def told(mesh: SmallMesh) -> list[tuple[str, int, int]]:
    return [(stop.reason, stop.first, stop.next) for stop in stops(mesh)]


def accept_all(mesh: SmallMesh) -> None:
    for stop in stops(mesh):
        mesh.write(
            mesh.names.config(), encode_stop(stop), key=accept_key("a", stop.topic, stop.partition)
        )
    mesh.run(10_000)


@pytest.mark.parametrize("dies", [False, True])
def test_a_log_that_is_cut_off_again_before_its_loss_is_accepted_is_another_loss(
    *, dies: bool
) -> None:
    """Where it is to go on, new records stand before the position. Spec: R6."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1", b"2", b"3")
    mesh.run()
    mesh.kafka.truncate(INGRESS, 1)
    mesh.run(6_000)
    publish(mesh, b"unread", b"unread")
    mesh.kafka.truncate(INGRESS, 3)
    publish(mesh, b"new 0", b"new 1", b"new 2")
    if dies:
        mesh.world.kill("a")
        mesh.world.start("a")
        mesh.run(6_000)
    accept_all(mesh)
    assert told(mesh) == [(StopReason.TRUNCATED, 2, 4)]
    accept_all(mesh)
    assert stops(mesh) == []
    assert delivered(mesh) == [b"0", b"1", b"2", b"3", b"new 0", b"new 1", b"new 2"]


def test_a_log_that_is_cut_off_again_as_soon_as_its_loss_is_accepted_is_found() -> None:
    """By which leader it was read is known still, though nothing was read since. Spec: R6."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1", b"2", b"3")
    mesh.run()
    mesh.kafka.truncate(INGRESS, 1)
    mesh.run(6_000)
    accept_all(mesh)
    mesh.world.kill("a")
    mesh.kafka.truncate(INGRESS, 2)
    publish(mesh, b"new 0", b"new 1", b"new 2")
    mesh.world.start("a")
    mesh.run(10_000)
    assert told(mesh) == [(StopReason.TRUNCATED, 1, 3)]
    accept_all(mesh)
    assert delivered(mesh) == [b"0", b"1", b"2", b"3", b"new 0", b"new 1", b"new 2"]


@pytest.mark.parametrize("come", [0, 1])
def test_a_marker_may_stand_where_the_last_record_stood(come: int) -> None:
    """Nobody sees it: the first record behind it, or none, says nothing of those before. R6."""
    mesh = SmallMesh()
    publish(mesh, b"0", b"1", b"2", b"3")
    mesh.run()
    mesh.world.kill("a")
    mesh.kafka.truncate(INGRESS, 2)
    writer = mesh.kafka.writer("client", "client")
    writer.begin()
    writer.produce(INGRESS.topic, b"new", partition=0, headers=[subject("x")])
    writer.commit()
    publish(mesh, *(b"newer" for _ in range(come)))
    mesh.world.start("a")
    mesh.run(20_000)
    assert told(mesh) == [(StopReason.TRUNCATED, 2, 4)]
    accept_all(mesh)
    news = [b"new", *(b"newer" for _ in range(come))]
    assert delivered(mesh) == [b"0", b"1", b"2", b"3", *news]


def test_a_marker_before_the_position_is_no_loss() -> None:
    """A log may be cut off behind one, and nothing is read before the next record comes."""
    mesh = SmallMesh()
    writer = mesh.kafka.writer("client", "client")
    writer.begin()
    writer.produce(INGRESS.topic, b"0", partition=0, headers=[subject("x")])
    writer.commit()
    publish(mesh, b"1")
    mesh.run()
    mesh.kafka.truncate(INGRESS, 1)
    mesh.kafka.topics[INGRESS.topic].logs[0].append(None, None, None, (1, 0), 1 << 40)
    mesh.kafka.topics[INGRESS.topic].logs[0].end_transaction(1 << 40, committed=False)
    mesh.run(6_000)
    accept_all(mesh)
    mesh.run(60_000)
    publish(mesh, b"2")
    mesh.run(10_000)
    assert stops(mesh) == []
    assert delivered(mesh) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_source_that_rests_looks_again_before_it_reads_on(*, is_paused: bool) -> None:
    """Nobody reads there meanwhile, and nobody is told that the log has lost its end. R6."""
    slow = Slow()
    mesh = SmallMesh(commits=lambda: slow)
    paused = subject_pause_key(SubjectPauseKey("a", "y"))
    publish(mesh, b"0", b"1", b"2", b"3")
    if is_paused:
        mesh.run()
        mesh.write(mesh.names.config(), encode_pause(Pause("")), key=paused)
        mesh.publish(b"awaited", [subject("y")])
        mesh.run(1_000)
    else:
        slow.looks[ZERO] = 100
        mesh.run(300)
    mesh.kafka.truncate(INGRESS, 3)
    publish(mesh, *(b"new %d" % number for number in range(5)))
    slow.looks[ZERO] = 0
    mesh.write(mesh.names.config(), None, key=paused)
    mesh.run(10_000)
    assert [(reason, end) for reason, _, end in told(mesh)] == [(StopReason.TRUNCATED, 4)]
    accept_all(mesh)
    news = [b"new %d" % number for number in range(5)]
    assert delivered(mesh) == [b"0", b"1", b"2", b"3", *news]
