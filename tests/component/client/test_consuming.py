"""Consumers of a queue: each message by one of them, again until it is acknowledged. DESIGN 6."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import fields

import pytest

from mesh.client import MeshClient, QueueConsumer, QueueMessage
from mesh.core.redelivery import WINDOW
from mesh.errors import ClosedError, SubjectError, TransportError
from mesh.model.losses import Loss
from mesh.operate.messages.dead_letters import read_letters
from mesh.transport.port import Passed, TopicPartition
from mesh.wire.announcements import encode_announcement
from tests.component.in_memory_mesh import Mesh

TOPIC = "mesh.a.ep.orders"
WAIT_S = 5.0
LOSS = Loss(
    node="a",
    topic="mesh.b.out.a.g",
    topic_id="00" * 16,
    partition=0,
    generation=0,
    first=1,
    last=2,
    reason="truncated",
    path=("b",),
)


@pytest.fixture
def client(mesh: Mesh) -> MeshClient:
    """A client of a node with an endpoint called orders."""
    client = mesh.client("a")
    client.wait(client.subscribe("orders", "acme/>"))
    return client


def _publish(client: MeshClient, *payloads: bytes, key: bytes = b"k") -> None:
    for payload in payloads:
        client.publish("acme/eu", payload, key=key)
    client.flush()


def _payloads(messages: object) -> list[bytes | None]:
    assert isinstance(messages, list | tuple)
    return [one.message.payload for one in messages]


def _read(consumer: QueueConsumer, count: int) -> list[QueueMessage]:
    found: list[QueueMessage] = []
    for _ in range(20):
        found += consumer.read(WAIT_S / 5)
        if len(found) >= count:
            break
    return found


def test_what_is_acknowledged_is_not_handed_out_again(client: MeshClient) -> None:
    """The next consumer of the group gets the rest, and knows that it was handed out before."""
    _publish(client, b"1", b"2", b"3")
    first = client.consume("orders")
    messages = _read(first, 3)
    assert [(one.message.payload, one.deliveries) for one in messages] == [
        (b"1", 1),
        (b"2", 1),
        (b"3", 1),
    ]
    assert messages[0].message.subject == "acme/eu"
    assert first.ack(messages[1])
    assert not first.ack(messages[1]), "it is done already"
    first.close()
    second = client.consume("orders")
    again = _read(second, 2)
    assert [(one.message.payload, one.deliveries) for one in again] == [(b"1", 2), (b"3", 2)]


def test_two_consumers_share_a_queue(client: MeshClient) -> None:
    """Each message is handed to exactly one of them."""
    one, two = client.consume("orders"), client.consume("orders")
    one.read(0.0), two.read(0.0)
    for number in range(40):
        _publish(client, b"%d" % number, key=b"%d" % number)
    found: list[bytes | None] = []
    counts = {"one": 0, "two": 0}
    for _ in range(60):
        for name, consumer in (("one", one), ("two", two)):
            for message in consumer.read(0.1):
                found.append(message.message.payload)
                counts[name] += 1
                consumer.ack(message)
    assert sorted(found, key=str) == sorted([b"%d" % n for n in range(40)], key=str)
    assert all(counts.values())


def test_what_stays_here_while_others_join_is_not_forgotten(client: MeshClient) -> None:
    """An acknowledgement that comes too late for one partition loses nothing of the others."""
    wanted = {b"%d" % number for number in range(80)}
    for number in range(40):
        _publish(client, b"%d" % number, key=b"%d" % number)
    first = client.consume("orders", deliveries_max=2)
    shown = _read(first, 40)
    done = [one for one in shown if int(one.message.payload or b"") % 5 == 0]
    assert all(first.ack(one) for one in done)
    found = {one.message.payload for one in done}
    second = client.consume("orders", deliveries_max=2)
    second.read(0.0)
    for number in range(40, 80):
        _publish(client, b"%d" % number, key=b"%d" % number)
    for _ in range(20):
        for consumer in (first, second):
            for one in consumer.read(0.1):
                assert consumer.ack(one)
                found.add(one.message.payload)
    for consumer in (first, second):
        consumer.close()
    last = client.consume("orders", deliveries_max=2)
    found |= {one.message.payload for one in _read(last, 40)}
    assert found == wanted
    assert (first.given_up, second.given_up, last.given_up) == (0, 0, 0)


def test_who_dies_over_a_message_leaves_the_count_behind(client: MeshClient, mesh: Mesh) -> None:
    """A message that kills every consumer ends as a dead letter, once. Spec: DESIGN 6."""
    _publish(client, b"poison", b"good")
    for deliveries in (1, 2):
        victim = client.consume("orders", deliveries_max=2)
        poison, good = _read(victim, 2)
        assert (poison.message.payload, poison.deliveries) == (b"poison", deliveries)
        assert good.message.payload == b"good"
        _expel(mesh)  # as after a kill: nothing more is told
    last = client.consume("orders", deliveries_max=2)
    assert _payloads(last.read(WAIT_S)) == []
    assert last.given_up == 2
    letters = list(read_letters(mesh.topology, mesh.world.kafka["left"], "a", 100, queue="orders"))
    assert [letter.subject for letter in letters] == ["acme/eu", "acme/eu"]
    header = letters[0].header
    assert header is not None
    assert (header.reason, header.target) == ("MAX_DELIVERIES", TOPIC)
    assert header.identity == str(poison.message.identity)


def _expel(mesh: Mesh) -> None:
    group = mesh.world.kafka["left"].member_groups[TOPIC]
    for member in list(group._members):
        member.crash()
        member.close()


def test_given_back_it_comes_again_until_the_cap(client: MeshClient) -> None:
    """nack hands out again, with the count; at the cap it becomes a dead letter."""
    _publish(client, b"1", b"2")
    consumer = client.consume("orders", deliveries_max=3)
    times: list[int] = []
    for _ in range(10):
        for message in consumer.read(0.2):
            if message.message.payload == b"2":
                consumer.ack(message)
            else:
                times.append(message.deliveries)
                consumer.nack(message)
    assert times == [1, 2, 3]
    assert consumer.given_up == 1
    consumer.close()
    assert client.consume("orders", deliveries_max=3).read(2.0) == ()


def test_without_a_cap_it_comes_as_often_as_it_takes(client: MeshClient) -> None:
    _publish(client, b"1")
    consumer = client.consume("orders")
    for expected in range(1, 20):
        [message] = _read(consumer, 1)
        assert message.deliveries == expected
        consumer.nack(message)


def test_late_acks_of_who_lost_the_partition_do_not_count(client: MeshClient, mesh: Mesh) -> None:
    """Somebody else has the message then, and the late one is told so."""
    _publish(client, b"1")
    late = client.consume("orders")
    [message] = _read(late, 1)
    _expel(mesh)
    heir = client.consume("orders")
    assert _payloads(_read(heir, 1)) == [b"1"]
    late.ack(message)
    with pytest.raises(TransportError):
        late.commit()
    assert not late.ack(message)


def test_plain_consumers_of_the_group_go_on_where_a_mesh_consumer_was(
    client: MeshClient, mesh: Mesh
) -> None:
    """And the other way round: the group's offset is the oldest that is open."""
    _publish(client, b"1", b"2", b"3")
    consumer = client.consume("orders")
    first, *_ = _read(consumer, 3)
    consumer.ack(first)
    consumer.close()
    kafka = mesh.world.kafka["left"]
    [at] = [place for place in kafka.groups[TOPIC] if kafka.groups[TOPIC][place]]
    assert kafka.groups[TOPIC][at] == first.message.offset + 1
    end = kafka.admin().ends([at])[at]
    kafka.commit_group(TOPIC, {at: end})
    assert client.consume("orders").read(1.0) == ()


def test_a_consumer_may_be_there_before_its_queue(mesh: Mesh) -> None:
    client = mesh.client("a")
    consumer = client.consume("late")
    assert consumer.read(0.5) == ()
    client.wait(client.subscribe("late", "acme/>"))
    _publish(client, b"1")
    assert _payloads(_read(consumer, 1)) == [b"1"]


def test_no_more_than_a_window_is_open(client: MeshClient) -> None:
    """One message that nobody acknowledges holds up what lies a window behind it, no more."""
    _publish(client, *[b"%d" % number for number in range(400)])
    consumer = client.consume("orders")
    held = _read(consumer, 1)
    stuck, found = held[0], held[1:]
    while more := consumer.read(1.0):
        found += more
        for message in found:
            consumer.ack(message)
    assert 200 < len(found) < 260
    consumer.ack(stuck)
    rest = _read(consumer, 400 - 1 - len(found))
    assert len(found) + len(rest) == 399


def test_a_foreign_record_is_passed_over(client: MeshClient, mesh: Mesh) -> None:
    mesh.world.kafka["left"].writer("stranger").produce(TOPIC, b"junk", None, 0)
    _publish(client, b"good")
    consumer = client.consume("orders")
    assert _payloads(_read(consumer, 1)) == [b"good"]
    assert consumer.foreign == 1


@pytest.mark.parametrize("headers", [[], [encode_announcement(LOSS)]], ids=["foreign", "loss"])
def test_what_is_no_message_far_ahead_of_an_open_one_makes_nobody_forget(
    client: MeshClient, mesh: Mesh, headers: list[tuple[str, bytes | None]]
) -> None:
    """A remark that named it would say nothing to the next consumer: all would come again."""
    _publish(client, *[b"%d" % number for number in range(5)])
    first = client.consume("orders", deliveries_max=3)
    messages = _read(first, 5)
    assert all(first.ack(one) for one in messages[1:])
    stranger = mesh.world.kafka["left"].writer("stranger")
    for _ in range(2 * WINDOW):
        stranger.produce(TOPIC, b"junk", None, _place(mesh).partition, headers=headers)
    while first.foreign + len(first.losses) < 2 * WINDOW:
        assert first.read(WAIT_S) == ()
    first.commit()
    _expel(mesh)
    second = client.consume("orders", deliveries_max=3)
    assert [(one.message.payload, one.deliveries) for one in _read(second, 2)] == [(b"0", 2)]
    _expel(mesh)
    third = client.consume("orders", deliveries_max=3)
    assert [(one.message.payload, one.deliveries) for one in _read(third, 2)] == [(b"0", 3)]
    third.commit()
    _expel(mesh)
    last = client.consume("orders", deliveries_max=3)
    assert _read(last, 1) == []
    assert last.given_up == 1


def test_a_queue_needs_a_name(client: MeshClient) -> None:
    with pytest.raises(SubjectError, match="queue"):
        client.consume("a queue")


def test_iterating_hands_out_one_at_a_time(client: MeshClient, mesh: Mesh) -> None:
    """What is not settled yet is open for nobody but this consumer."""
    _publish(client, b"1", b"2")
    consumer = client.consume("orders")
    for message in consumer:
        consumer.ack(message)
        if message.message.payload == b"2":
            consumer.close()
    kafka = mesh.world.kafka["left"]
    place = message.message.place
    assert isinstance(place, TopicPartition)
    assert kafka.groups[TOPIC][place] == message.message.offset + 1


NO_NUMBERS = dict.fromkeys((one.name for one in fields(Loss)), "x")
DELIVERY_LATER = b"\x24" + b"\x00" * 8
STRANGE = {
    "no headers": [],
    "a delivery of a later version": [("mesh-subject", b"acme/eu"), ("mesh", DELIVERY_LATER)],
    "a subject that is not UTF-8": [("mesh-subject", b"\xff"), ("mesh", DELIVERY_LATER)],
    "an announcement without end": [("mesh-gap", b"[" * 100_000)],
    "an announcement without numbers": [("mesh-gap", json.dumps(NO_NUMBERS).encode())],
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_a_stranger_wrote_into_a_queue_is_passed_over(client: MeshClient, what: str) -> None:
    """Whoever may write to the topic must not end everybody who reads it. Spec: R12."""
    consumer = client.consume("orders")
    consumer.read(0.0)
    writer = client._kafka.writer("stranger")
    writer.produce(TOPIC, b"x", None, 0, headers=STRANGE[what])
    assert writer.flush() == 0
    _publish(client, b"1")
    assert _payloads(_read(consumer, 1)) == [b"1"]
    assert consumer.foreign == 1


def _place(mesh: Mesh) -> TopicPartition:
    """Return the partition of the queue that has records; all have one key."""
    admin = mesh.world.kafka["left"].admin()
    count = mesh.topology.nodes["a"].partitions
    ends = admin.ends([TopicPartition(TOPIC, partition) for partition in range(count)])
    return max(ends, key=lambda one: ends[one])


def test_behind_a_hole_wider_than_the_window_messages_come(mesh: Mesh, client: MeshClient) -> None:
    """A worker that died in the middle of a large transaction leaves one."""
    _publish(client, *[b"%d" % number for number in range(5)])
    consumer = client.consume("orders")
    for one in _read(consumer, 5):
        consumer.ack(one)
    writer = mesh.world.kafka["left"].writer("other", "other-transaction")
    writer.begin()
    for _ in range(2 * WINDOW):
        writer.produce(TOPIC, b"v", b"k", _place(mesh).partition)
    writer.abort()
    _publish(client, b"behind")
    assert _payloads(_read(consumer, 1)) == [b"behind"]


@pytest.mark.parametrize("acked", [0, 3])
def test_behind_what_was_deleted_unread_messages_come(
    mesh: Mesh, client: MeshClient, acked: int
) -> None:
    """By `maxAge`, by a limit that drops the oldest; the group may have come as far as nowhere."""
    _publish(client, *[b"%d" % number for number in range(5)])
    if acked:
        consumer = client.consume("orders")
        for one in _read(consumer, 5)[:acked]:
            consumer.ack(one)
        consumer.close()
    _publish(client, *[b"%d" % number for number in range(5, 2 * WINDOW)])
    mesh.pause(3)
    admin, place = mesh.world.kafka["left"].admin(), _place(mesh)
    # The last entry is the mark of a transaction.
    admin.delete_before({place: admin.ends([place])[place] - 3})
    last = [b"%d" % (2 * WINDOW - 2), b"%d" % (2 * WINDOW - 1)]
    assert _payloads(_read(client.consume("orders"), 2)) == last


def test_what_comes_to_a_queue_recreated_is_handed_out(mesh: Mesh, client: MeshClient) -> None:
    """Its offsets begin at 0 once more, and mean other messages than those that were done."""
    consumer = client.consume("orders")
    _publish(client, b"1", b"2", b"3")
    done = _read(consumer, 3)
    for one in done[:2]:
        consumer.ack(one)
    consumer.commit()
    mesh.world.kafka["left"].recreate("mesh.a.ep.orders")
    _publish(client, b"4", b"5")
    found = _read(consumer, 2)
    assert _payloads(found) == [b"4", b"5"]
    assert [one.deliveries for one in found] == [1, 1]
    assert not consumer.ack(done[2])
    assert all(map(consumer.ack, found))


def test_a_queue_recreated_that_has_outgrown_its_consumer_is_handed_out_whole(
    mesh: Mesh, client: MeshClient
) -> None:
    """Its consumer would go on in the middle, and take the first of them for what it had done."""
    consumer = client.consume("orders")
    _publish(client, b"1", b"2", b"3")
    done = _read(consumer, 3)
    assert all(map(consumer.ack, done[:2]))
    mesh.world.kafka["left"].recreate(TOPIC)
    _publish(client, *[b"%d" % number for number in range(4, 12)])
    mesh.pause(6)
    assert consumer.ack(done[2])  # it stands in the group of the new topic now
    found = _read(consumer, 8)
    assert _payloads(found) == [b"%d" % number for number in range(4, 12)]
    assert mesh.world.kafka["left"].passed(TOPIC, done[0].message.place).offset == 0
    assert {one.deliveries for one in found} == {1}
    assert not consumer.ack(done[2])
    assert all(map(consumer.ack, found))
    consumer.close()
    assert _read(client.consume("orders"), 1) == []


def test_an_acknowledgement_is_good_for_the_message_that_it_names(
    mesh: Mesh, client: MeshClient
) -> None:
    """In a queue that was recreated another message stands where one stood that is still open."""
    consumer = client.consume("orders")
    _publish(client, b"1", b"2")
    former = _read(consumer, 2)
    mesh.world.kafka["left"].recreate("mesh.a.ep.orders")
    _publish(client, b"3", b"4")
    found = _read(consumer, 2)
    assert [one.message.offset for one in found] == [one.message.offset for one in former]
    assert not any(map(consumer.ack, former))
    assert not any(map(consumer.nack, former))
    assert all(map(consumer.ack, found))


def test_what_was_done_before_a_queue_lost_its_end_stays_done(
    mesh: Mesh, client: MeshClient
) -> None:
    """It is read from its beginning then; that topic is the same."""
    consumer = client.consume("orders")
    _publish(client, b"1", b"2", b"3")
    for one in _read(consumer, 3):
        consumer.ack(one)
    consumer.commit()
    kafka, place = mesh.world.kafka["left"], _place(mesh)
    kafka.truncate(place, kafka.admin().ends([place])[place] - 2)
    _publish(client, *[b"%d" % number for number in range(4, 20)])
    assert not {b"1", b"2", b"3"} & set(_payloads(_read(consumer, 10)))


@pytest.mark.parametrize("acked", [0, 2, 3])
def test_what_comes_where_a_queue_lost_its_end_is_handed_out(
    mesh: Mesh, client: MeshClient, acked: int
) -> None:
    """Other messages stand at these offsets now; what was not lost is in the same hands. R6."""
    consumer = client.consume("orders")
    _publish(client, b"1")
    first = _read(consumer, 1)
    _publish(client, b"2", b"3")
    former = [*first, *_read(consumer, 2)]
    for one in former[:acked]:
        consumer.ack(one)
    consumer.commit()
    kafka, place = mesh.world.kafka["left"], _place(mesh)
    kafka.truncate(place, 2)
    assert consumer.read(0.5) == ()
    _publish(client, *[b"%d" % number for number in range(4, 9)])
    found = _read(consumer, 5)
    assert _payloads(found) == [b"4", b"5", b"6", b"7", b"8"]
    assert {one.deliveries for one in found} == {1}
    assert [consumer.ack(one) for one in former] == [acked == 0, False, False]
    assert consumer.ack(found[0])
    consumer.close()
    assert _payloads(_read(client.consume("orders"), 4)) == [b"5", b"6", b"7", b"8"]


@pytest.mark.parametrize("more", [1, 5])
def test_who_comes_after_a_queue_lost_its_end_is_handed_what_came_since(
    mesh: Mesh, client: MeshClient, more: int
) -> None:
    """The group had come farther, or as far in what was lost: nobody has seen these. Spec: R6."""
    consumer = client.consume("orders")
    _publish(client, *[b"%d" % number for number in range(6)])
    former = _read(consumer, 6)
    for one in [*former[:4], former[5]]:
        consumer.ack(one)
    consumer.close()
    assert mesh.world.kafka["left"].truncate(_place(mesh), 4) == former[2].message.offset
    _publish(client, *[b"new %d" % number for number in range(more)])
    mesh.pause(2)
    found = _read(client.consume("orders"), more)
    assert _payloads(found) == [b"new %d" % number for number in range(more)]
    assert {one.deliveries for one in found} == {1}


def test_who_comes_after_a_queue_lost_its_end_is_handed_nothing_twice(
    mesh: Mesh, client: MeshClient
) -> None:
    """What is left of what was done stays done, and what nobody had done is counted on."""
    consumer = client.consume("orders")
    _publish(client, *[b"%d" % number for number in range(6)])
    former = _read(consumer, 6)
    for one in [former[0], former[2], former[5]]:
        consumer.ack(one)
    consumer.close()
    mesh.world.kafka["left"].truncate(_place(mesh), 2)
    _publish(client, b"new")
    found = _read(client.consume("orders"), 3)
    assert [(one.message.payload, one.deliveries) for one in found] == [
        (b"1", 2),
        (b"3", 2),
        (b"new", 1),
    ]


def test_what_cannot_become_a_dead_letter_yet_does_so_later(
    client: MeshClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic cannot be made at the first attempt: nothing may fall between two chairs."""
    _publish(client, b"1", b"2", b"3")
    consumer = client.consume("orders", deliveries_max=1)
    for one in _read(consumer, 3):
        consumer.nack(one)
    opens = consumer._open_writer

    def refuses() -> object:
        monkeypatch.setattr(consumer, "_open_writer", opens)
        raise TransportError("the broker is away")

    monkeypatch.setattr(consumer, "_open_writer", refuses)
    with pytest.raises(TransportError, match="the broker is away"):
        consumer.read(0.5)
    for _ in range(5):
        assert consumer.read(0.5) == ()
    assert consumer.given_up == 3


def test_a_message_is_handed_out_once_at_least(client: MeshClient) -> None:
    with pytest.raises(SubjectError, match="deliveries_max must be 1 or more, not 0"):
        client.consume("orders", deliveries_max=0)
    for most in (1.5, float("nan"), "3"):
        with pytest.raises(SubjectError, match="write a whole number"):
            client.consume("orders", deliveries_max=most)  # type: ignore[arg-type]


def test_who_acknowledges_something_else_is_told(client: MeshClient) -> None:
    """The message in what was handed out, for one: that somebody else has it is no answer."""
    _publish(client, b"1")
    consumer = client.consume("orders")
    [one] = _read(consumer, 1)
    for use in (consumer.ack, consumer.nack):
        with pytest.raises(
            TypeError, match="must be a QueueMessage, as it was handed out, not Rec"
        ):
            use(one.message)  # type: ignore[arg-type]
    assert consumer.ack(one)
    consumer.close()
    with pytest.raises(ClosedError, match="closed"):
        consumer.commit()


@pytest.mark.parametrize("most", [1, 2])
def test_what_nobody_has_seen_becomes_no_dead_letter(
    client: MeshClient, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The group could not be told that it is handed out, again and again: that is no delivery."""
    consumer = client.consume("orders", deliveries_max=most)
    assert consumer.read(0.0) == ()
    source = consumer._reading.source
    assert source is not None
    commits, numbers = source.commit, itertools.count(1)

    def commit(positions: Mapping[TopicPartition, Passed]) -> None:
        if next(numbers) in (1, 3):  # between them the group is told of the attempt before
            raise TransportError("the broker is away")
        commits(positions)

    monkeypatch.setattr(source, "commit", commit)
    _publish(client, b"1", b"2")
    for _ in range(2):
        with pytest.raises(TransportError, match="the broker is away"):
            consumer.read(WAIT_S)
    found = _read(consumer, 2)
    assert [(one.message.payload, one.deliveries) for one in found] == [(b"1", 1), (b"2", 1)]
    assert consumer.given_up == 0
