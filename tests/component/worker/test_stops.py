"""What cannot be read without loss is not read until somebody accepts exactly that loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.errors import TransportUnavailableError
from mesh.model.control import Stop
from mesh.model.frames import FrameKind, MessageClass
from mesh.model.record_headers import GAP_HEADER, MESH_HEADER
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.wire.control import decode_heartbeat
from mesh.wire.deliveries import decode_delivery
from mesh.wire.frames import decode_header
from mesh.wire.keys import accept_key
from mesh.worker.lanes.read_topics import RETRY_MS
from mesh.worker.lanes.truncated_logs import AWAITED_MS
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.stops import (
    INGRESS,
    OUTBOX,
    accept,
    announcements,
    delete_while_down,
    payloads,
    publish,
    stops,
)
from tests.said import Said


def test_what_was_deleted_before_it_was_read_stops_the_source_and_nothing_else(
    said: Said, mesh: SmallMesh
) -> None:
    """Topic, partition and exact range are told; other partitions go on. Spec: R6, DESIGN 6."""
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, INGRESS, "a", 3)
    [stop] = stops(mesh, "a").values()
    assert (stop.topic, stop.partition, stop.reason) == (INGRESS, 0, "retention")
    assert (stop.first, stop.next) == (1, 3)
    place = {"lane": 0, "reason": "retention", "range": stop.range}
    assert said.of("source.stopped") == [{"log_level": "error", **place}]
    mesh.publish(b"other", [subject("x")], partition=1)
    mesh.run()
    assert payloads(mesh) == [b"1", b"other"]


def test_a_loss_that_was_accepted_is_announced_before_anything_else(mesh: SmallMesh) -> None:
    """The GAP crosses each link once and reaches every endpoint. Spec: K10, DESIGN 4, G6."""
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, INGRESS, "a", 3)
    [stop] = stops(mesh, "a").values()
    accept(mesh, "a", stop)
    publish(mesh, b"5")
    mesh.run()
    assert stops(mesh, "a") == {}
    assert payloads(mesh) == [b"1", b"4", b"5"]
    [told] = announcements(mesh)
    assert (told["topic"], told["first"], told["last"]) == (INGRESS, 1, 2)
    assert (told["reason"], told["path"]) == ("retention", ["a", "b", "c"])
    headers = [record.headers()[0][0] for record in mesh.delivered()]
    assert headers.index(GAP_HEADER) == 1
    frames = [decode_header(frame.key()).kind for frame in mesh.read(OUTBOX)]
    assert frames.count(FrameKind.GAP) == 1


def test_a_source_that_cannot_be_looked_at_goes_on_later(said: Said, mesh: SmallMesh) -> None:
    """Its loss is accepted, and no broker says what its topic is now. Spec: R6."""
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, INGRESS, "a", 3)
    [stop] = stops(mesh, "a").values()
    mesh.kafka.faults = AdminFaults(describe=TransportUnavailableError("no broker answers"))
    accept(mesh, "a", stop)
    told = {"log_level": "warning", "range": stop.range, "fault": "no broker answers"}
    assert told in said.of("source.not_resumed")
    assert list(stops(mesh, "a").values()) == [stop]
    mesh.kafka.faults = None
    mesh.run(20_000)
    assert stops(mesh, "a") == {}
    assert payloads(mesh) == [b"1", b"4"]


def test_an_announcement_that_vanishes_is_made_once_more(mesh: SmallMesh) -> None:
    """The repair finds the same loss in the source, and tells it before the rest. Spec: K11."""
    publish(mesh, b"1")
    mesh.run()
    read = mesh.kafka.topics[OUTBOX].logs[0].end
    delete_while_down(mesh, INGRESS, "a", 3)
    mesh.world.cut("b", ["a"])
    [stop] = stops(mesh, "a").values()
    accept(mesh, "a", stop)
    mesh.kafka.truncate(TopicPartition(OUTBOX, 0), read)
    mesh.world.cut("b", [])
    publish(mesh, b"5")
    mesh.run(30_000)
    assert payloads(mesh) == [b"1", b"4", b"5"]
    [told] = announcements(mesh)
    assert (told["topic"], told["first"], told["last"]) == (INGRESS, 1, 2)


def test_another_loss_than_the_one_accepted_stays_a_stop(mesh: SmallMesh) -> None:
    """Spec: R6, reliability.md 8 row 75."""
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, INGRESS, "a", 3)
    [stop] = stops(mesh, "a").values()
    accept(mesh, "a", Stop(stop.topic, 0, stop.topic_id, stop.reason, stop.first, stop.next - 1))
    assert list(stops(mesh, "a").values()) == [stop]
    mesh.kafka.admin().delete_before({TopicPartition(INGRESS, 0): 4})
    accept(mesh, "a", stop)
    [grown] = stops(mesh, "a").values()
    assert (grown.first, grown.next) == (1, 4)
    assert payloads(mesh) == [b"1"]


def test_a_consent_that_has_ended_is_good_for_no_loss_that_is_alike(mesh: SmallMesh) -> None:
    """An outbox may lose the same offsets twice: they are of another generation then. Spec: R6."""
    outbox = mesh.kafka.topics[OUTBOX].logs[0]

    def lose() -> Stop:
        mesh.world.kill("b")
        del outbox.entries[2:]
        mesh.world.start("b")
        mesh.run()
        [stop] = stops(mesh, "b").values()
        return stop

    for value in (b"1", b"2", b"3"):
        publish(mesh, value)
        mesh.run()
    stop = lose()
    accept(mesh, "b", stop)
    assert stops(mesh, "b") == {}
    mesh.write(mesh.names.config(), None, key=accept_key("b", stop.topic, stop.partition))
    for value in (b"4", b"5"):
        publish(mesh, value)
        mesh.run()
    again = lose()
    assert again == replace(stop, generation=1)
    accept(mesh, "b", stop)
    assert list(stops(mesh, "b").values()) == [again]
    accept(mesh, "b", again)
    publish(mesh, b"6")
    mesh.run()
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_a_stop_outlives_its_worker_and_shows_in_the_heartbeat(mesh: SmallMesh) -> None:
    """Spec: R6, K12."""
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, OUTBOX, "b", 4)
    [stop] = stops(mesh, "b").values()
    assert stop.topic == OUTBOX
    mesh.world.kill("b")
    mesh.run(1000)
    mesh.world.start("b")
    mesh.run()
    assert list(stops(mesh, "b").values()) == [stop]
    beats = [r for r in mesh.read(mesh.names.control("b")) if r.key() == b"heartbeat"]
    links = {link.neighbour: link for link in decode_heartbeat(beats[-1].value()).links}
    assert (links["a"].state, links["c"].state) == ("stopped", "up")
    assert stop.range in links["a"].reason


def test_what_an_outbox_lost_is_sent_again_once_reading_goes_on(mesh: SmallMesh) -> None:
    """The chain shows the hole, and the sender still has the messages. Spec: K11, K20."""
    publish(mesh, b"1")
    mesh.run()
    mesh.world.kill("b")
    publish(mesh, b"2", b"3")
    mesh.run(1000)
    end = mesh.kafka.topics[OUTBOX].logs[0].end
    mesh.kafka.admin().delete_before({TopicPartition(OUTBOX, 0): end})
    mesh.world.start("b")
    mesh.run()
    [stop] = stops(mesh, "b").values()
    accept(mesh, "b", stop)
    publish(mesh, b"4")
    mesh.run()
    assert payloads(mesh) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("accepted", [False, True])
def test_a_topic_recreated_is_another_topic(mesh: SmallMesh, accepted: bool) -> None:
    """Noticed while it is read; its messages have identities of their own. Spec: K-2, R6, K9."""
    publish(mesh, b"1", b"2")
    mesh.run()
    former = mesh.kafka.topics[INGRESS].info
    mesh.kafka.delete_topic(INGRESS)
    mesh.kafka.admin().create([TopicSpec(name=INGRESS, partitions=former.partitions)])
    publish(mesh, b"3")
    mesh.run(8000)
    [stop] = stops(mesh, "a").values()
    assert (stop.reason, stop.first, stop.next) == ("recreated", 2, -1)
    assert stop.topic_id == former.topic_id
    if not accepted:
        assert payloads(mesh) == [b"1", b"2"]
        return
    accept(mesh, "a", stop)
    assert payloads(mesh) == [b"1", b"2", b"3"]
    [told] = announcements(mesh)
    assert (told["first"], told["last"]) == (2, None)


def test_offsets_that_come_again_are_another_generation(mesh: SmallMesh) -> None:
    """A truncated ingress goes on where it ends; nothing is taken for a duplicate. Spec: K9, R6."""
    publish(mesh, b"1", b"2", b"3")
    mesh.run()
    mesh.world.kill("a")
    log = mesh.kafka.topics[INGRESS].logs[0]
    del log.entries[1:]
    mesh.world.start("a")
    mesh.run()
    [stop] = stops(mesh, "a").values()
    assert (stop.reason, stop.first, stop.next) == ("truncated", 1, 3)
    publish(mesh, b"4")
    accept(mesh, "a", stop)
    publish(mesh, b"5")
    mesh.run()
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5"]
    found = [
        decode_delivery(record.headers()[-1][1])
        for record in mesh.delivered()
        if record.headers()[-1][0] == MESH_HEADER
    ]
    assert [(d.generation, d.offset) for d in found] == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    mesh.world.kill("a")
    mesh.world.start("a")
    publish(mesh, b"6")
    mesh.run()
    assert payloads(mesh)[-1] == b"6"
    assert decode_delivery(mesh.delivered()[-1].headers()[-1][1]).generation == 1


def test_a_direct_source_goes_on_by_itself(mesh: SmallMesh) -> None:
    """At most once: a gap is counted, not waited for. Spec: R6, DESIGN 6."""
    topic = mesh.names.ingress("a", MessageClass.DIRECT)
    for value in (b"1", b"2", b"3"):
        mesh.write(topic, value, headers=[subject("x")])
    mesh.run()
    mesh.world.kill("a")
    del mesh.kafka.topics[topic].logs[0].entries[1:]
    mesh.world.start("a")
    mesh.run()
    mesh.write(topic, b"4", headers=[subject("x")])
    mesh.run()
    assert payloads(mesh) == [b"1", b"2", b"3", b"4"]
    assert stops(mesh, "a") == {}


@pytest.mark.parametrize("topic", ["mesh.c.ep.s", OUTBOX])
def test_a_target_that_somebody_deleted_is_recreated(
    said: Said, mesh: SmallMesh, topic: str
) -> None:
    """What was in it is lost with it; what comes afterwards is delivered. Spec: K20, R6."""
    publish(mesh, b"1")
    mesh.run()
    mesh.kafka.delete_topic(topic)
    publish(mesh, b"2")
    mesh.run(10_000)
    assert said.of("topics.restored") == [{"log_level": "warning", "topics": [topic]}]
    for stop in stops(mesh, "b").values():
        accept(mesh, "b", stop)
    publish(mesh, b"3")
    mesh.run()
    assert payloads(mesh)[-2:] == [b"2", b"3"]


def test_a_target_that_cannot_be_recreated_yet_is_asked_for_again(
    said: Said, mesh: SmallMesh
) -> None:
    away = TransportUnavailableError("no broker answers")
    publish(mesh, b"1")
    mesh.run()
    mesh.kafka.faults = AdminFaults(create=away, times=1)
    mesh.kafka.delete_topic("mesh.c.ep.s")
    publish(mesh, b"2")
    mesh.run(10_000)
    assert said.of("upkeep.failed") == [{"log_level": "warning", "fault": str(away)}]
    assert payloads(mesh) == [b"2"]


def test_a_topic_recreated_has_lost_no_end(mesh: SmallMesh) -> None:
    """Also where its log is looked at for a record that does not come. Spec: K-2, R6."""
    publish(mesh, b"1", b"2")
    mesh.run()
    mesh.kafka.recreate(INGRESS)
    sources, now_ms = mesh.world.workers["a"].lanes.sources, mesh.world.clock.now_ms()
    at = TopicPartition(INGRESS, 0)
    [reader] = sources.readers.values()
    reader.assign({at: 0})  # the last record is read once more, and nobody is told that it is gone
    sources.last_read.expected_epochs[at] = 0
    sources.last_read._awaited_since_ms[at] = now_ms - 2 * AWAITED_MS
    sources.topics._tried_ms, sources.topics._verified_ms = now_ms - RETRY_MS, now_ms
    mesh.run(8000)
    [stop] = stops(mesh, "a").values()
    assert (stop.reason, stop.first, stop.next) == ("recreated", 2, -1)
