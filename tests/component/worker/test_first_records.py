"""Topics that are recreated before anything of them was read: their records are their own. R6, K9."""

from __future__ import annotations

from functools import partial

import pytest

from mesh.model.control import StopReason
from mesh.model.frames import MessageClass
from mesh.transport.headers import headers_of
from mesh.transport.memory_clients import MemoryReader
from mesh.transport.port import TopicPartition
from mesh.wire.deliveries import delivery_of
from mesh.worker.process.errands import SteppedErrands
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.gates import Gate
from tests.component.worker.test_commits import ZERO, Slow

INGRESS = TopicPartition("mesh.a.in.g", 0)


def publish(mesh: SmallMesh, *values: bytes) -> None:
    for value in values:
        mesh.publish(value, [subject("x")])


def delivered(mesh: SmallMesh) -> list[tuple[bytes | None, bytes]]:
    """Return what came, each with the id of the topic that it says it was published in."""
    return [(one.value(), delivery_of(headers_of(one)).source.topic_id) for one in mesh.delivered()]


def id_of(mesh: SmallMesh, topic: str) -> bytes:
    return mesh.kafka.admin().describe([topic])[topic].topic_id


def test_an_ingress_that_is_recreated_before_anything_was_read_is_another_one() -> None:
    mesh = SmallMesh()
    mesh.kafka.recreate(INGRESS.topic)
    publish(mesh, b"0", b"1")
    mesh.run(10_000)
    publish(mesh, b"2")
    mesh.run(10_000)
    new = id_of(mesh, INGRESS.topic)
    assert delivered(mesh) == [(b"0", new), (b"1", new), (b"2", new)]


def test_an_outbox_that_is_recreated_before_anything_was_read_loses_nothing_of_the_new_one() -> (
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


@pytest.mark.parametrize(("commits", "looks"), [(0, 3), (12, 3), (12, 6), (6, 12)])
def test_a_lane_whose_commits_take_longer_than_the_look_reads_a_new_part_all_the_same(
    commits: int, looks: int
) -> None:
    """What was looked at while a commit was under way is routed after it, not read once more."""
    slow, rest = Slow(), [0]
    errands = partial(SteppedErrands, rest=lambda: rest[0])
    two = {**CHAIN, "nodes": {node: {"partitions": 2} for node in "abc"}}
    mesh = SmallMesh(two, errands=errands, commits=lambda: slow)
    mesh.subscribe("a", "own", "x")
    mesh.run()
    publish(mesh, b"0")
    mesh.run()
    slow.looks[ZERO], rest[0] = commits, looks
    mesh.publish(b"first", [subject("x")], partition=1)
    for number in range(60):
        publish(mesh, b"%d" % number)
        mesh.run(60)
    assert b"first" in [one.value() for one in mesh.read(mesh.names.endpoint("a", "own"))]


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
    [stop] = [stop for one in lanes.owned.values() for stop in one.progress.stopped.values()]
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
    stops = [stop for one in lanes.owned.values() for stop in one.progress.stopped.values()]
    told = [(stop.reason, stop.first, stop.next) for stop in stops]
    assert told == [(StopReason.TRUNCATED, 1, 2)]
    assert [value for value, _ in delivered(mesh)] == [b"0", b"1"]


@pytest.mark.parametrize("topic", ["mesh.a.in.g", "mesh.b.control"])
def test_a_reader_learns_anew_when_a_topic_is_another_one(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is assigned: real readers would seek its leader where the former one's was. R6."""
    mesh = SmallMesh()
    publish(mesh, b"0")
    mesh.run()
    renewed: list[str] = []
    monkeypatch.setattr(MemoryReader, "renew", lambda reader: renewed.append(reader.name))
    mesh.run(40_000)
    assert renewed == []
    mesh.kafka.recreate(topic)
    mesh.run(40_000)
    assert renewed
