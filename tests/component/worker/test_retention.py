"""Records stay for a time after their reader has passed them."""

from __future__ import annotations

import pytest

from mesh.core.read_positions import ReadPositions
from mesh.errors import TransportUnavailableError
from mesh.model.control import LinkState, OutboxPosition
from mesh.model.frames import MessageClass
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import Passed, TopicPartition, TopicSpec
from mesh.view.lane_reports import LaneReports
from mesh.wire.control import encode_link_state
from mesh.wire.keys import link_key
from mesh.wire.state import decode_fact
from mesh.worker.topics.readership import Readership
from mesh.worker.topics.retention import CHECK_MS, Retention
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.stops import INGRESS, OUTBOX, accept, payloads, publish, stops
from tests.said import Said

PLACE = TopicPartition("mesh.a.in.g", 0)


def test_only_what_was_passed_long_ago_is_deletable() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    retention.passed({PLACE: 5}, 0)
    retention.passed({PLACE: 9}, 600)
    assert retention.deletable(999) == {}
    assert retention.deletable(1000) == {PLACE: 5}
    assert retention.deletable(1000) == {}
    assert retention.deletable(5000) == {PLACE: 9}


def test_it_looks_once_a_minute() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    assert retention.is_due(CHECK_MS)
    assert not retention.is_due(CHECK_MS + 1)
    assert retention.is_due(2 * CHECK_MS)


def test_a_worker_trims_what_its_readers_have_passed(mesh: SmallMesh) -> None:
    """Ingress by its own progress, outboxes by the neighbour's, endpoints by the slowest group."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    mesh.kafka.commit_group("billing", {endpoint: 2})
    mesh.run(CHECK_MS)
    mesh.kafka.commit_group("billing", {endpoint: 600})
    kept = TopicPartition("mesh.a.in.g", 0)
    assert mesh.kafka.admin().starts([kept, endpoint]) == {kept: 0, endpoint: 0}
    for worker in mesh.world.workers.values():
        worker._service.upkeep._retention.keep_ms = CHECK_MS
    mesh.run(2 * CHECK_MS)
    passed = [PLACE, TopicPartition("mesh.a.to.b.g", 0), endpoint]
    starts = mesh.kafka.admin().starts(passed)
    assert starts[PLACE] == 3
    assert starts[passed[1]] > 0
    assert starts[endpoint] == mesh.kafka.admin().ends([endpoint])[endpoint]


def trim(mesh: SmallMesh, ms: int = 3 * CHECK_MS) -> None:
    for worker in mesh.world.workers.values():
        worker._service.upkeep._retention.keep_ms = CHECK_MS
    mesh.run(ms)


def start_of(mesh: SmallMesh, place: TopicPartition) -> int:
    return mesh.kafka.admin().starts([place])[place]


def read_by(mesh: SmallMesh, place: TopicPartition) -> int:
    """Return how far a source is read, as changes of the mesh and mates of a worker see it."""
    node = "a" if place.topic == INGRESS else "b"
    reports = LaneReports(mesh.world.topology, {"k": mesh.kafka})
    reports.read()
    mates = ReadPositions()
    for record in mesh.read(mesh.names.progress(node)):
        mates.apply(record.partition(), decode_fact(record.value()))
    [told] = [at for at in mates.of_topics([place.topic]).values() if at.partition == 0]
    assert told.read == told.needed
    assert reports.of(node).read.reached(place) == told.read
    return told.read


@pytest.mark.parametrize("topic", [INGRESS, OUTBOX])
def test_what_takes_the_place_of_what_was_read_is_not_deleted_with_it(
    mesh: SmallMesh, topic: str
) -> None:
    """A log that was cut off goes on, while nobody has accepted the loss yet. Spec: K5, R6."""
    for value in (b"1", b"2", b"3"):
        publish(mesh, value)
        mesh.run(500)
    mesh.run(CHECK_MS)
    place = TopicPartition(topic, 0)
    mesh.kafka.truncate(place, 2)
    mesh.run(500)
    for value in (b"4", b"5", b"6"):
        publish(mesh, value)
        mesh.run(500)
    trim(mesh)
    [stop] = [*stops(mesh, "a").values(), *stops(mesh, "b").values()]
    assert (stop.topic, stop.reason) == (topic, "truncated")
    assert start_of(mesh, place) <= stop.first
    assert read_by(mesh, place) == stop.first
    accept(mesh, "a" if topic == INGRESS else "b", stop)
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert read_by(mesh, place) > stop.first


def test_nothing_is_deleted_of_an_ingress_while_it_is_stopped(mesh: SmallMesh) -> None:
    """It may lose its end once more, and nobody sees that before its loss is accepted. K5, R6."""
    for value in (b"1", b"2", b"3", b"4"):
        publish(mesh, value)
    mesh.run(CHECK_MS)
    place = TopicPartition(INGRESS, 0)
    mesh.kafka.truncate(place, 1)
    mesh.run(3_000)
    assert len(stops(mesh, "a")) == 1
    mesh.kafka.truncate(place, 2)
    publish(mesh, b"5", b"6", b"7")
    trim(mesh)
    for _ in range(2):
        [stop] = stops(mesh, "a").values()
        accept(mesh, "a", stop)
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]


def test_what_takes_the_place_of_what_a_group_had_passed_is_not_deleted_with_it(
    mesh: SmallMesh,
) -> None:
    """The endpoint has lost its end, and nobody of the group has come since. Spec: K5, R6."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    log = mesh.kafka.topics[endpoint.topic].logs[0]
    mesh.kafka.pass_on("billing", {endpoint: Passed(log.end, leader_epoch=log.leader_epoch)})
    mesh.run(CHECK_MS // 2)
    begin = mesh.kafka.truncate(endpoint, 2)
    for value in (b"4", b"5"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    trim(mesh, 4 * CHECK_MS)
    assert start_of(mesh, endpoint) == begin
    mesh.kafka.pass_on("billing", {endpoint: Passed(log.end, leader_epoch=log.leader_epoch)})
    trim(mesh, 4 * CHECK_MS)
    assert start_of(mesh, endpoint) == log.end


def test_a_worker_deletes_nothing_by_what_it_knew_of_a_lane_that_it_gave_away() -> None:
    """Whoever has it now knows better: its log may have been cut off since. Spec: K5, R6."""
    mesh = SmallMesh({**CHAIN, "nodes": {"a": {"lanes": 2}, "b": {}, "c": {}}})
    for value in (b"1", b"2", b"3"):
        for partition in range(2):
            mesh.publish(value, [subject("x")], partition=partition)
        mesh.run(500)
    mesh.run(CHECK_MS)
    first = next(iter(mesh.world.workers.values()))
    before = set(first.lanes.owned)
    mesh.world.start("a", 1)
    mesh.run(5_000)
    [moved] = before - set(first.lanes.owned)
    place = TopicPartition(INGRESS, moved)
    mesh.kafka.truncate(place, 2)
    mesh.run(500)
    mesh.publish(b"4", [subject("x")], partition=moved)
    mesh.run(500)
    trim(mesh)
    assert start_of(mesh, place) <= 1
    assert start_of(mesh, TopicPartition(INGRESS, 1 - moved)) == 3


def test_an_endpoint_keeps_what_its_slowest_group_has_not_read_and_all_without_a_group(
    mesh: SmallMesh,
) -> None:
    """Who reads it later, and for the first time, finds what was never read. Spec: K5."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    trim(mesh)
    assert start_of(mesh, endpoint) == 0
    mesh.kafka.commit_group("quick", {endpoint: 3})
    mesh.kafka.commit_group("slow", {endpoint: 1})
    trim(mesh)
    assert start_of(mesh, endpoint) == 1


def test_what_nobody_subscribes_any_more_is_trimmed_as_far_as_it_is_read(mesh: SmallMesh) -> None:
    """Spec: K5."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    mesh.subscribe("c", "s", ">", None)
    mesh.kafka.commit_group("billing", {endpoint: 2})
    trim(mesh)
    assert start_of(mesh, endpoint) == 2


def test_what_consumers_of_a_queue_gave_up_stays_although_somebody_has_read_it(
    mesh: SmallMesh,
) -> None:
    """Its topic keeps it for a week: whoever reads it by a group may want to see it again. K5."""
    mesh.subscribe("c", "q", ">", b'{"kind": "queue"}')
    letters = TopicPartition(mesh.names.queue_letters("c", "q"), 0)
    kept = {"retention.ms": "604800000", "retention.bytes": "-1"}
    mesh.kafka.admin().create([TopicSpec(name=letters.topic, partitions=1, settings=kept)])
    mesh.write(letters.topic, b"given up")
    mesh.kafka.commit_group("repair", {letters: 1})
    trim(mesh)
    assert start_of(mesh, letters) == 0


def test_a_group_that_is_hidden_or_has_lost_its_offsets_keeps_what_it_may_want(
    mesh: SmallMesh,
) -> None:
    """Only endpoints wait: what the mesh itself has read is deleted all the same. Spec: K5, K-5."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    mesh.kafka.commit_group("quick", {endpoint: 3})
    mesh.kafka.hides_groups = True
    trim(mesh)
    assert (start_of(mesh, endpoint), start_of(mesh, PLACE)) == (0, 3)
    mesh.kafka.hides_groups = False
    mesh.kafka.commit_group("slow", {endpoint: 1})
    mesh.run(CHECK_MS)
    del mesh.kafka.groups["slow"]  # it rested for longer than brokers keep offsets
    trim(mesh)
    assert start_of(mesh, endpoint) == 1


def test_a_group_that_is_gone_and_one_that_cannot_be_asked_about_are_told(said: Said) -> None:
    """What the one had not read stays; of the other nothing is deleted by a guess. Spec: K5."""
    kafka, at = MemoryKafka("k"), TopicPartition("mesh.c.ep.s", 0)
    kafka.admin().create([TopicSpec(name=at.topic, partitions=1)])
    kafka.commit_group("slow", {at: 1})
    readership, admin = Readership([]), kafka.admin()
    assert readership.passed(admin, [at.topic]) == {at: 1}
    del kafka.groups["slow"]
    for _ in range(2):
        assert readership.passed(admin, [at.topic]) == {at: 1}
    text = "what it has not read is kept until this worker starts again"
    gone = {"log_level": "warning", "group": "slow", "text": text}
    assert said.of("endpoint.reader_gone") == [gone]
    kafka.faults = AdminFaults(passed=TransportUnavailableError("no broker answers"))
    assert readership.agreed(admin, {at: 1}) == {}
    unasked = {"log_level": "warning", "fault": "no broker answers"}
    assert said.of("endpoints.not_trimmed") == [unasked]


def test_what_is_remembered_of_readers_is_as_much_as_there_are(mesh: SmallMesh) -> None:
    retention = Retention(keep_ms=1000)
    for now in range(1_000):
        retention.passed({PLACE: 5}, now)  # a reader that rests
        assert len(retention._passed[PLACE]) == 1
    for at in range(100):
        retention.passed({TopicPartition(f"gone-{at}", 0): 5}, 1_000)
    retention.deletable(2_000)
    assert retention._passed == {}


def test_a_neighbour_has_a_word_on_its_own_outbox_alone() -> None:
    """Whatever it claims to have read of other topics of this Kafka cluster, they stay. Spec: K5."""
    mesh = SmallMesh({**CHAIN, "keep": "1s"})
    admin, writer = mesh.kafka.admin(), mesh.kafka.writer("stranger")
    admin.create([TopicSpec(name="payments", partitions=1)])
    ingress = mesh.names.ingress("b", MessageClass.GUARANTEED)
    other = mesh.names.outbox("b", "a", MessageClass.GUARANTEED)
    mesh.world.kill("c", 0)
    mesh.world.kill("a", 0)
    positions = []
    for topic in ("payments", ingress, other):
        writer.produce(topic, b"x", None, 0)
        assert writer.flush() == 0
        topic_id = admin.describe([topic])[topic].topic_id
        positions.append(OutboxPosition(topic, topic_id, 0, 10**9, 10**9))
    state = LinkState(1, 10**6, tuple(positions))
    writer.produce(mesh.names.to_control("c", "b"), encode_link_state(state), link_key(), 0)
    assert writer.flush() == 0
    mesh.run(200_000)
    kept = [TopicPartition("payments", 0), TopicPartition(other, 0)]
    assert list(admin.starts(kept).values()) == [0, 0]


def test_what_waits_in_an_ingress_that_was_recreated_is_not_deleted_by_what_was_read_before(
    mesh: SmallMesh,
) -> None:
    """It stands still until somebody accepts the loss: positions of the former one say nothing."""
    for number in range(40):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.run()
    trim(mesh)
    mesh.kafka.recreate(INGRESS)
    mesh.run(8_000)
    for number in range(30):
        mesh.publish(b"%d" % number, [subject("x")])
    trim(mesh, 6 * CHECK_MS)
    assert start_of(mesh, TopicPartition(INGRESS, 0)) == 0


def test_what_waits_in_an_endpoint_that_was_recreated_is_not_deleted_by_what_a_group_had_read(
    mesh: SmallMesh,
) -> None:
    """The group rests, and brokers know no position of it any more. Spec: K4, K5."""
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    for number in range(4):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.run()
    mesh.kafka.commit_group("billing", {endpoint: 3})
    trim(mesh)
    assert start_of(mesh, endpoint) == 3
    mesh.kafka.recreate(endpoint.topic)
    mesh.run(8_000)
    for number in range(4, 10):
        mesh.publish(b"%d" % number, [subject("x")])
    trim(mesh, 6 * CHECK_MS)
    assert start_of(mesh, endpoint) == 0
    assert len(mesh.delivered()) == 6
    mesh.kafka.commit_group("billing", {endpoint: 2})
    trim(mesh, 6 * CHECK_MS)
    assert start_of(mesh, endpoint) == 2
