"""Records in `progress` that nobody can read: they end no worker, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mesh.errors import TransportDeniedError, TransportUnreadableError
from mesh.model.control import Stop
from mesh.model.facts import SourceAt
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.node_topics import node_topics
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_stop
from mesh.wire.keys import StopKey, fact_key, parse_control_key
from mesh.wire.state import decode_ledger, encode_fact, encode_ledger
from mesh.worker.process.recall import Recall, read_progress
from schemas import VERSION
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said

PROGRESS = "mesh.a.progress"
SOURCE = b"source mesh.a.in.g 0"
GARBAGE = [b"", b"\x02", b"order 17", b"\xff" * 40]
NEWER = bytes([2 * (VERSION + 1)]) + b"x"


def record(key: bytes | None, value: bytes | None, offset: int) -> MemoryRecord:
    return MemoryRecord(PROGRESS, 0, offset, key, value, None, (0, 0))


def position(offset: int) -> tuple[bytes, bytes]:
    told = SourceAt(TopicPartition("mesh.a.in.g", 0), bytes(16), offset)
    return fact_key(told.key), encode_fact(told)


def log(*records: tuple[bytes | None, bytes | None]) -> list[MemoryRecord]:
    return [record(key, value, offset) for offset, (key, value) in enumerate(records)]


@pytest.mark.parametrize("value", GARBAGE)
@pytest.mark.parametrize("key", [None, b"", b"order 17", b"sources", b"\xff\xfe"])
def test_under_a_key_of_nobody_it_says_nothing(key: bytes | None, value: bytes) -> None:
    kept = read_progress(log(position(5), (key, value)))
    assert [one.next for one in kept.facts.values() if isinstance(one, SourceAt)] == [5]
    assert len(kept.strays) == 1


@pytest.mark.parametrize("value", GARBAGE)
def test_behind_what_the_lane_wrote_the_lane_s_word_holds(said: Said, value: bytes) -> None:
    """For nobody else moves its positions."""
    kept = read_progress(log(position(5), (SOURCE, value)))
    assert [one.next for one in kept.facts.values() if isinstance(one, SourceAt)] == [5]
    [(_, fault)] = kept.strays
    place = {"topic": PROGRESS, "partition": 0, "offset": 1, "key": SOURCE.decode()}
    told = {"log_level": "warning", **place, "fault": str(fault)}
    assert said.of("progress.stray") == [told]


@pytest.mark.parametrize("value", [*GARBAGE, NEWER])
def test_where_it_stands_alone_nobody_knows_where_the_lane_stood(value: bytes) -> None:
    """Compaction has taken away what the lane wrote."""
    with pytest.raises(TransportUnreadableError, match=r"progress\[0\] offset 0, key source mesh"):
        read_progress(log((SOURCE, value)))


def test_what_a_newer_program_wrote_is_not_passed_over() -> None:
    """It was the lane's owner, and went further."""
    with pytest.raises(TransportUnreadableError, match="version"):
        read_progress(log(position(5), (SOURCE, NEWER)))


@pytest.mark.parametrize("then", [position(7), (SOURCE, None)])
def test_what_the_lane_writes_later_holds(then: tuple[bytes, bytes | None]) -> None:
    kept = read_progress(log((SOURCE, b"x"), then))
    assert [*kept.facts] == ([] if then[1] is None else [SOURCE])
    assert not kept.strays


# -- on a mesh ------------------------------------------------------------------------------------


def numbers(mesh: SmallMesh) -> list[int]:
    return [int(one.value() or b"-1") for one in mesh.delivered()]


def publish(mesh: SmallMesh, *values: int) -> None:
    for value in values:
        mesh.publish(b"%d" % value, [subject("x")])
    mesh.run()


def restart(mesh: SmallMesh) -> None:
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(15_000)


def compact(mesh: SmallMesh, topic: str, partition: int = 0) -> None:
    """Leave of each key its newest record alone."""
    found = mesh.kafka.topics[topic].logs[partition]
    newest = {one.key(): index for index, one in enumerate(found.entries) if one is not None}
    for index, one in enumerate(found.entries):
        if one is not None and newest[one.key()] != index:
            found.entries[index] = None


def stops(mesh: SmallMesh) -> list[Stop]:
    told: dict[bytes, bytes | None] = {}
    for one in mesh.read(mesh.names.control("a")):
        if isinstance(parse_control_key(one.key() or b""), StopKey):
            told[one.key() or b""] = one.value()
    return [decode_stop(value) for value in told.values() if value is not None]


def refused(mesh: SmallMesh) -> int:
    return mesh.world.workers["a"].refused


@pytest.mark.parametrize("key", [b"order 17", SOURCE])
def test_a_worker_takes_its_lane_all_the_same(mesh: SmallMesh, key: bytes) -> None:
    publish(mesh, 1, 2)
    mesh.write(PROGRESS, b"garbage", key=key)
    restart(mesh)
    publish(mesh, 3)
    assert numbers(mesh) == [1, 2, 3]
    assert refused(mesh) == 1
    assert stops(mesh) == []
    assert mesh.world.troubles == 0


def test_a_lane_of_which_nobody_knows_where_it_stood_waits_for_a_person(
    said: Said, mesh: SmallMesh
) -> None:
    """The worker lives, and says so; all others go on. What came before comes once."""
    mesh.subscribe("a", "own", "x")
    publish(mesh, 1, 2)
    mesh.write(PROGRESS, b"garbage", key=SOURCE)
    compact(mesh, PROGRESS)
    restart(mesh)
    publish(mesh, 3)
    mesh.write("mesh.b.in.g", b"100", headers=[subject("x")])
    mesh.run()
    assert numbers(mesh) == [1, 2, 100]
    (stop,) = stops(mesh)
    assert (stop.topic, stop.partition, stop.reason) == (PROGRESS, 0, "unreadable")
    told = said.of("lane.unreadable")
    assert {(one["log_level"], one["lane"]) for one in told} == {("error", 0)}
    assert all(PROGRESS in one["fault"] for one in told)
    assert mesh.world.workers["a"].lanes is not None
    assert not mesh.world.workers["a"].is_ready
    assert mesh.world.troubles == 0
    mesh.write(PROGRESS, None, key=SOURCE)
    mesh.run(10_000)
    assert numbers(mesh) == [1, 2, 100, 3]
    assert stops(mesh) == []
    assert mesh.world.workers["a"].is_ready


def test_the_node_s_other_lanes_go_on() -> None:
    mesh = SmallMesh({**CHAIN, "nodes": {"a": {"lanes": 2, "partitions": 2}, "b": {}, "c": {}}})
    mesh.publish(b"1", [subject("x")], partition=1)
    mesh.run()
    mesh.write(PROGRESS, b"garbage", key=SOURCE)
    compact(mesh, PROGRESS)
    restart(mesh)
    mesh.publish(b"2", [subject("x")], partition=1)
    mesh.run()
    assert numbers(mesh) == [1, 2]
    assert [(one.partition, one.reason) for one in stops(mesh)] == [(0, "unreadable")]


def hold(mesh: SmallMesh) -> Callable[[], None]:
    """Have c's lane hold its endpoint; return what makes it whole."""
    topic = mesh.kafka.topics[mesh.names.endpoint("c", "s")]
    topic.message_bytes_max = 10
    publish(mesh, 1, 2)
    mesh.run(15_000)

    def mend() -> None:
        topic.message_bytes_max = 1_000_000

    return mend


def test_only_the_held_target_waits_where_its_catch_up_cannot_be_read(
    said: Said, mesh: SmallMesh
) -> None:
    """The lane goes on for all others."""
    mesh.subscribe("c", "other", "x")
    mesh.run()
    mend = hold(mesh)
    (target,) = mesh.world.workers["c"].lanes.owned[0].held_targets
    assert target == mesh.names.endpoint("c", "s")
    caught_up = TopicPartition(mesh.names.progress("c"), 1)
    key = f"held {target} 0 {bytes(16).hex()} 0".encode()
    mesh.write(caught_up.topic, b"garbage", key=key, partition=caught_up.partition)
    mesh.world.kill("c")
    mesh.world.start("c")
    mesh.run(15_000)
    [told] = said.of("targets.not_recovered")
    assert key.decode() in told["fault"]
    mend()
    publish(mesh, 3)
    mesh.run(15_000)
    assert numbers(mesh) == []
    assert [one.value() for one in mesh.read(mesh.names.endpoint("c", "other"))] == [
        b"1",
        b"2",
        b"3",
    ]
    mesh.write(caught_up.topic, None, key=key, partition=caught_up.partition)
    mesh.run(30_000)
    assert numbers(mesh) == [1, 2, 3]


@pytest.mark.parametrize("lives", [True, False])
def test_a_node_whose_progress_is_gone_waits_for_a_person(
    said: Said, mesh: SmallMesh, lives: bool
) -> None:
    """With an empty one it would deliver all that its ingress still keeps once more."""
    mesh.subscribe("a", "own", "x")
    publish(mesh, 1, 2)
    if not lives:
        mesh.world.kill("a")
    mesh.kafka.delete_topic(PROGRESS)
    if not lives:
        mesh.world.start("a")
    publish(mesh, 3)
    mesh.run(20_000)
    assert PROGRESS not in mesh.kafka.topics
    assert numbers(mesh) == [1, 2]
    (stop,) = stops(mesh)
    assert (stop.topic, stop.partition, stop.reason) == (PROGRESS, 0, "unreadable")
    restart(mesh)
    mesh.run(20_000)
    assert numbers(mesh) == [1, 2]
    assert {one["topic"] for one in said.of("progress.missing")} == {PROGRESS}
    made = [spec for spec in node_topics(mesh.world.topology, "a") if spec.name == PROGRESS]
    mesh.kafka.admin().create(made)
    mesh.run(10_000)
    assert numbers(mesh) == [1, 2, 3]
    assert stops(mesh) == []


def test_direct_messages_of_a_node_whose_progress_was_made_by_hand_go_on(mesh: SmallMesh) -> None:
    """Its lane does not begin below the epochs that neighbours have read of it. Spec: K18."""

    def publish_direct(*values: int) -> None:
        for value in values:
            mesh.write("mesh.a.in.d", b"%d" % value, headers=[subject("x")])
        mesh.run()

    for _ in range(3):
        restart(mesh)
    publish_direct(1)
    epoch = mesh.world.workers["a"].lanes.owned[0].progress.epoch
    ledger = mesh.names.ledger("a")
    told = decode_ledger(mesh.read(ledger)[-1].value())
    for forged in (
        replace(told, lane_epoch=(1 << 63) - 1),
        replace(told, node="b", lane_epoch=9_000),
        replace(told, lane=1, lane_epoch=9_000),
    ):
        mesh.write(ledger, encode_ledger(forged))
    mesh.world.kill("a")
    mesh.kafka.delete_topic(PROGRESS)
    made = [spec for spec in node_topics(mesh.world.topology, "a") if spec.name == PROGRESS]
    mesh.kafka.admin().create(made)
    mesh.world.start("a")
    mesh.run(15_000)
    publish_direct(2)
    assert set(numbers(mesh)) == {1, 2}
    assert epoch < mesh.world.workers["a"].lanes.owned[0].progress.epoch < 9_000


def test_a_progress_that_may_not_be_read_is_not_taken_for_empty(mesh: SmallMesh) -> None:
    """Its lanes are not taken: they would begin from the beginning. Spec: K16."""
    mesh.subscribe("a", "own", "x")
    publish(mesh, 1, 2)
    mesh.world.kill("a")

    def refuse(_: Recall, place: TopicPartition) -> Sequence[MemoryRecord]:
        raise TransportDeniedError(f"read {place.topic}: not authorized")

    records = Recall.records
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Recall,
            "records",
            lambda recall, at: (refuse if at.topic == PROGRESS else records)(recall, at),
        )
        mesh.world.start("a")
        mesh.run(20_000)
        assert mesh.world.workers["a"].lanes is not None
        assert not mesh.world.workers["a"].lanes.owned
    mesh.run(20_000)
    own = [one.value() for one in mesh.read(mesh.names.endpoint("a", "own"))]
    assert own == [b"1", b"2"]
