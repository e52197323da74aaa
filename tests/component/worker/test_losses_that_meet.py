"""Losses that meet other losses, holds and deaths: nothing is accepted, passed or kept unasked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from mesh.model.control import Pause, Stop
from mesh.model.facts import Held, SourceAt
from mesh.transport.port import Record, TopicPartition
from mesh.wire.control import encode_pause
from mesh.wire.frames import decode_header, encode_header
from mesh.wire.keys import SubjectPauseKey, subject_pause_key
from mesh.wire.state import decode_fact
from mesh.worker.topics.retention import CHECK_MS
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.held import is_held, refuse
from tests.component.worker.stops import INGRESS, accept, announcements, stops

AT = TopicPartition(INGRESS, 0)
OUTBOX = "mesh.a.to.b.g"
PLACE = (TopicPartition(OUTBOX, 0), 0)
STUCK = "mesh.c.ep.s"


def publish(mesh: SmallMesh, *numbers: int, partition: int = 0) -> None:
    for number in numbers:
        mesh.publish(b"%d" % number, [subject("x")], partition=partition)


def values(mesh: SmallMesh, topic: str = STUCK) -> list[int | None]:
    """Return what is in an endpoint; None where a loss is announced."""
    found = [record.value() for record in mesh.read(topic)]
    return [None if value is None else int(value) for value in found]


def hold(mesh: SmallMesh, passed: Iterable[int], waiting: Iterable[int]) -> None:
    """Have the link held once some messages have passed; others wait at its sender."""
    publish(mesh, *passed)
    mesh.run()
    refuse(mesh, OUTBOX, is_refusing=True)
    publish(mesh, *waiting)
    mesh.run(10_000)
    assert is_held(mesh, "a", OUTBOX)


def stop_of(mesh: SmallMesh) -> Stop:
    """Return what is stopped of the first partition of the ingress."""
    [stop] = [one for one in stops(mesh, "a").values() if one.partition == AT.partition]
    return stop


def truncate_and_stop(mesh: SmallMesh, records: int) -> Stop:
    mesh.kafka.truncate(AT, records)
    mesh.run()
    [stop] = stops(mesh, "a").values()
    return stop


def test_the_same_offsets_lost_once_more_are_another_loss(mesh: SmallMesh) -> None:
    """A consent is good for one loss: the log may be cut off at the same place again. Spec: R6."""
    publish(mesh, 0, 1, 2, 3)
    mesh.run()
    stop = truncate_and_stop(mesh, 2)
    accept(mesh, "a", stop)
    assert stops(mesh, "a") == {}
    publish(mesh, 4, 5)
    mesh.run()
    again = truncate_and_stop(mesh, 2)
    mesh.run(20_000)
    assert list(stops(mesh, "a").values()) == [again]
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(20_000)
    assert list(stops(mesh, "a").values()) == [again]
    accept(mesh, "a", again)
    publish(mesh, 6)
    mesh.run()
    assert values(mesh) == [0, 1, 2, 3, None, 4, 5, None, 6]


def test_a_topic_recreated_while_another_loss_waits_is_a_loss_of_its_own(mesh: SmallMesh) -> None:
    """What stands in the new topic is read from its beginning. Spec: R6, K-2."""
    publish(mesh, 0, 1, 2, 3)
    mesh.run()
    mesh.world.kill("a")
    publish(mesh, 4, 5, 6)
    mesh.kafka.admin().delete_before({AT: 6})
    mesh.world.start("a")
    mesh.run()
    [stop] = stops(mesh, "a").values()
    mesh.kafka.recreate(INGRESS)
    publish(mesh, *range(10, 20))
    accept(mesh, "a", stop)
    mesh.run(10_000)
    second = stop_of(mesh)
    assert (second.reason, second.first) == ("recreated", 4)
    accept(mesh, "a", second)
    mesh.run(10_000)
    assert values(mesh) == [0, 1, 2, 3, None, *range(10, 20)]
    told = [one for one in announcements(mesh) if one["partition"] == 0]
    assert [(one["first"], one["last"]) for one in told] == [(4, None)]


def test_a_log_cut_off_before_what_a_held_target_lacks_lets_it_go(mesh: SmallMesh) -> None:
    """Nothing is left to be read for it, and the loss is told to it as to the others. K20, R6."""
    mesh.subscribe("a", "t", ">")
    mesh.run()
    hold(mesh, range(3), range(3, 6))
    mesh.kafka.truncate(AT, 5)
    mesh.run(3_000)
    [stop] = stops(mesh, "a").values()
    assert stop.first == 1
    refuse(mesh, OUTBOX, is_refusing=False)
    accept(mesh, "a", stop)
    mesh.run(60_000)
    assert (stops(mesh, "a"), is_held(mesh, "a", OUTBOX)) == ({}, False)
    publish(mesh, 6)
    mesh.run()
    assert values(mesh, "mesh.a.ep.t") == [0, 1, 2, 3, 4, 5, None, 6]
    assert values(mesh) == [0, 1, 2, None, 6]


def another_version(frame: Record) -> bytes:
    """The frame's key as a later major version might begin it."""
    key = frame.key() or b""
    return key[:2] + bytes([4]) + key[3:]


@pytest.mark.parametrize("is_led_by_another", [False, True])
def test_a_frame_of_a_later_version_can_be_accepted_as_a_loss(
    mesh: SmallMesh, *, is_led_by_another: bool
) -> None:
    """It is announced, and the one hole that it leaves is asked for by nobody. Spec: K10, R6."""
    publish(mesh, 0)
    mesh.run()
    [frame] = [one for one in mesh.read(OUTBOX) if one.partition() == 0]
    mesh.kafka.topics[OUTBOX].logs[0].leader_epoch += is_led_by_another
    mesh.write(OUTBOX, frame.value(), key=another_version(frame))
    header = decode_header(frame.key() or b"")
    chain = replace(header.hop.chain, previous=7, first=8, last=8)
    behind = replace(header, hop=replace(header.hop, chain=chain))
    mesh.write(OUTBOX, frame.value(), key=encode_header(behind))
    mesh.run()
    [stop] = stops(mesh, "b").values()
    assert stop.reason == "version"
    accept(mesh, "b", stop)
    mesh.run(5_000)
    assert stops(mesh, "b") == {}
    assert values(mesh) == [0, None, 0]
    assert [loss["reason"] for loss in announcements(mesh)] == ["version"]
    assert not [r for r in mesh.read("mesh.b.to.a.c") if (r.key() or b"").startswith(b"repair ")]
    further = replace(chain, previous=20, first=21, last=21)
    another = replace(header, hop=replace(header.hop, chain=further))
    mesh.write(OUTBOX, frame.value(), key=encode_header(another))
    mesh.run()
    assert values(mesh) == [0, None, 0]
    assert [r for r in mesh.read("mesh.b.to.a.c") if (r.key() or b"").startswith(b"repair ")]


@pytest.mark.parametrize("lost", [1, 2])
def test_what_takes_the_place_of_a_frame_of_a_later_version_is_read(
    mesh: SmallMesh, lost: int
) -> None:
    """The outbox loses it, perhaps with what was read before it, before that is accepted. R6."""
    publish(mesh, 0)
    mesh.run()
    [frame] = [one for one in mesh.read(OUTBOX) if one.partition() == 0]
    mesh.write(OUTBOX, frame.value(), key=another_version(frame))
    mesh.run()
    [stop] = stops(mesh, "b").values()
    assert stop.reason == "version"
    mesh.kafka.truncate(TopicPartition(OUTBOX, 0), lost)
    publish(mesh, 1)
    mesh.run()
    publish(mesh, 2)
    mesh.run()
    accept(mesh, "b", stop)
    mesh.run(20_000)
    for one in list(stops(mesh, "b").values()):
        assert one.reason == "truncated"
        accept(mesh, "b", one)
    mesh.run(20_000)
    assert stops(mesh, "b") == {}
    assert [one for one in values(mesh) if one is not None] == [0, 1, 2]


def test_a_lane_that_cannot_write_a_target_holds_up_no_other_lane() -> None:
    """One partition of an endpoint may stay without a leader when others have one again. K20."""
    mesh = SmallMesh({**CHAIN, "nodes": {"a": {}, "b": {}, "c": {"lanes": 2, "partitions": 2}}})
    publish(mesh, 0, partition=0)
    publish(mesh, 1, partition=1)
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 2, partition=0)
    publish(mesh, 3, partition=1)
    mesh.run(15_000)
    lanes = mesh.world.workers["c"].lanes
    assert lanes is not None
    assert [lane.held_targets for lane in lanes.owned.values()] == [[STUCK], [STUCK]]
    refuse(mesh, STUCK, is_refusing=False)
    first = next(iter(lanes.owned))
    topic = mesh.kafka.topics[STUCK]
    takes = topic.log_for
    topic.log_for = lambda at, key: None if at == first else takes(at, key)
    mesh.run(60_000)
    held = [number for number, lane in lanes.owned.items() if lane.held_targets]
    assert held == [first]


def _ended_beside(mesh: SmallMesh) -> bool:
    """Return whether a catch-up of a has written all, and the lane has yet to end the hold."""
    told = [(one.partition(), decode_fact(one.value())) for one in mesh.read("mesh.a.progress")]
    reached = max((one.next for _, one in told if isinstance(one, SourceAt)), default=0)
    return any(at >= 1 and isinstance(one, Held) and one.next == reached for at, one in told)


def test_what_was_sent_beside_a_lane_is_known_after_two_deaths(mesh: SmallMesh) -> None:
    """Else the chain would not show a frame that vanished meanwhile. Spec: K11, K20."""
    hold(mesh, range(2), range(2, 5))
    refuse(mesh, OUTBOX, is_refusing=False)
    mesh.world.run_until(lambda: _ended_beside(mesh), 60_000)
    mesh.world.kill("a")
    for _ in range(2):
        mesh.world.start("a")
        mesh.run(3_000)
        mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(3_000)
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    sent = lanes.owned[0].progress.sent
    assert [at for (place, of), at in sent.items() if (place, of.partition) == PLACE] == [4]


@pytest.mark.parametrize("how", ["recreated", "cut off"])
def test_what_was_passed_in_another_log_deletes_nothing(mesh: SmallMesh, how: str) -> None:
    """Offsets that were passed long ago are given out again, and nobody has read them. K5, K9."""
    publish(mesh, *range(6))
    mesh.run(2 * CHECK_MS)
    mesh.world.workers["a"]._service.upkeep._retention.keep_ms = 5 * CHECK_MS
    if how == "cut off":
        mesh.kafka.truncate(AT, 5)
    else:
        mesh.kafka.recreate(INGRESS)
    mesh.run(6_000)
    accept(mesh, "a", stop_of(mesh))
    mesh.run(CHECK_MS)
    mesh.write(
        mesh.names.config(),
        encode_pause(Pause("")),
        key=subject_pause_key(SubjectPauseKey("a", "x")),
    )
    mesh.run()
    publish(mesh, *range(10, 16))
    mesh.run(8 * CHECK_MS)
    mesh.write(mesh.names.config(), None, key=subject_pause_key(SubjectPauseKey("a", "x")))
    mesh.run(2_000)
    assert AT.partition not in [stop.partition for stop in stops(mesh, "a").values()]
    assert values(mesh) == [*range(6), None, *range(10, 16)]


def test_a_catch_up_takes_nothing_that_follows_a_log_cut_off(mesh: SmallMesh) -> None:
    """It had begun before: what has the lost offsets now comes once, by the lane. Spec: K9, K20."""
    hold(mesh, range(1), range(1, 8))
    beside = mesh.world.workers["a"].background
    assert beside is not None
    holds = beside.holds
    refuse(mesh, OUTBOX, is_refusing=False)
    mesh.kafka.blocked.add(("held", INGRESS))
    mesh.world.run_until(lambda: holds.scheduler.work is not None, 20_000)
    mesh.kafka.truncate(AT, 4)
    mesh.run(2_000)
    [stop] = stops(mesh, "a").values()
    publish(mesh, *range(10, 16))
    mesh.run(1_000)
    assert holds.scheduler.work is not None
    mesh.kafka.blocked.clear()
    mesh.run(10_000)
    accept(mesh, "a", stop)
    mesh.run(20_000)
    assert (stops(mesh, "a"), is_held(mesh, "a", OUTBOX)) == ({}, False)
    assert values(mesh) == [0, 1, 2, 3, None, *range(10, 16)]


def test_a_catch_up_takes_nothing_that_follows_a_log_cut_off_twice(mesh: SmallMesh) -> None:
    """It begins where the first loss is known and the second one is not. Spec: R6, K20."""
    hold(mesh, range(1), range(1, 8))
    mesh.kafka.truncate(AT, 2)
    mesh.run(3_000)
    mesh.kafka.truncate(AT, 3)
    publish(mesh, *range(10, 16))
    refuse(mesh, OUTBOX, is_refusing=False)
    mesh.run(20_000)
    for _ in range(2):
        accept(mesh, "a", stop_of(mesh))
        mesh.run(20_000)
    assert (stops(mesh, "a"), is_held(mesh, "a", OUTBOX)) == ({}, False)
    assert values(mesh) == [0, 1, 2, None, *range(10, 16)]


@pytest.mark.parametrize("topic", ["mesh.c.ep.s", OUTBOX])
def test_a_target_that_is_deleted_while_it_is_left_out_is_recreated(
    mesh: SmallMesh, topic: str
) -> None:
    """No lane writes it then, so whoever catches up has to find that out. Spec: K20, R6."""
    publish(mesh, 0)
    mesh.run()
    refuse(mesh, topic, is_refusing=True)
    publish(mesh, *range(1, 8))
    mesh.run(10_000)
    refuse(mesh, topic, is_refusing=False)
    mesh.kafka.delete_topic(topic)
    mesh.run(20_000)
    for node in ("a", "b", "c"):
        for stop in list(stops(mesh, node).values()):
            accept(mesh, node, stop)
    mesh.run(10_000)
    assert [one for one in values(mesh) if one][-7:] == [*range(1, 8)]
