"""Messages that are deleted before a group has read them are named, and reading goes on behind them.

Spec: G16b, DESIGN 4.4.
"""

from __future__ import annotations

import pytest

from mesh.client import ChannelReader, MeshClient, QueueConsumer, Skipped
from mesh.errors import TransportError
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import Mesh

TOPIC = "mesh.a.ep.orders"
Stream = ChannelReader | QueueConsumer


@pytest.fixture
def client(mesh: Mesh) -> MeshClient:
    """A client of a node with an endpoint called orders."""
    client = mesh.client("a")
    client.wait(client.subscribe("orders", "acme/>"))
    return client


def _opened(client: MeshClient, kind: str) -> Stream:
    return client.channel("orders", "g") if kind == "channel" else client.consume("orders")


@pytest.mark.parametrize("grown", [1, 6])
def test_an_endpoint_recreated_is_read_whole(mesh: Mesh, client: MeshClient, grown: int) -> None:
    """Whether it has outgrown its readers by the time they look or not. Spec: R6."""
    channel, deliveries = client.channel("orders", "g"), client.deliveries("orders")
    _publish(client, mesh, b"1", b"2", b"3")
    assert _read(channel, 3) == [one.payload for one in deliveries.read_to_end(9)]
    channel.commit()
    mesh.world.kafka["left"].recreate(TOPIC)
    wanted = [b"%d" % number for number in range(4, 4 + grown)]
    _publish(client, mesh, *wanted)
    mesh.pause(6)
    assert _read(channel, grown) == wanted
    with pytest.raises(TransportError, match="deleted before they were read"):
        deliveries.read(1.0)
    assert [one.payload for one in deliveries.read_to_end(9)] == wanted
    channel.close()
    deliveries.close()


@pytest.mark.parametrize("grown", [0, 1, 6])
def test_an_endpoint_recreated_is_read_to_its_end(
    mesh: Mesh, client: MeshClient, grown: int
) -> None:
    """Who reads to the end and stops has nobody else to tell that it is another one. G16b."""
    deliveries = client.deliveries("orders")
    _publish(client, mesh, b"1", b"2", b"3")
    assert len(deliveries.read_to_end(9)) == 3
    mesh.world.kafka["left"].recreate(TOPIC)
    wanted = [b"%d" % number for number in range(4, 4 + grown)]
    _publish(client, mesh, *wanted)
    mesh.pause(6)
    with pytest.raises(TransportError, match="deleted before they were read"):
        deliveries.read_to_end(9)
    assert [one.payload for one in deliveries.read_to_end(9)] == wanted
    _publish(client, mesh, b"last")
    assert [one.payload for one in deliveries.read_to_end(9)] == [b"last"]


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("grown", [1, 6])
def test_what_comes_where_a_channel_lost_its_end_is_read_and_nothing_twice(
    mesh: Mesh, client: MeshClient, *, stays: bool, grown: int
) -> None:
    """By a reader that stays, and by one of its group that comes after the loss. Spec: R6."""
    channel, kafka = client.channel("orders", "g"), mesh.world.kafka["left"]
    _publish(client, mesh, b"1", b"2", b"3", b"4")
    assert _read(channel, 4) == [b"1", b"2", b"3", b"4"]
    channel.commit()
    if not stays:
        channel.close()
    at = next(at for at in kafka.groups["g"])
    kafka.truncate(at, 2)
    if stays:
        assert channel.read(1.0) == ()
    wanted = [b"new %d" % number for number in range(grown)]
    _publish(client, mesh, *wanted)
    channel = channel if stays else client.channel("orders", "g")
    assert _read(channel, grown) == wanted
    channel.commit()
    channel.close()
    assert kafka.passed("g", at).offset == kafka.topics[TOPIC].logs[at.partition].end - 1
    assert list(client.channel("orders", "g").read(1.0)) == []


def _publish(client: MeshClient, mesh: Mesh, *payloads: bytes) -> None:
    for payload in payloads:
        client.publish("acme/eu", payload, key=b"k")
        client.flush()
        mesh.pause(2)


def _read(stream: Stream, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(20):
        for one in stream.read(1.0):
            if isinstance(stream, QueueConsumer):
                assert stream.ack(one)  # type: ignore[arg-type]
            found.append(getattr(one, "message", one).payload)
        if len(found) >= count:
            break
    stream.commit()
    return found


def _opened_and_read(client: MeshClient, mesh: Mesh, kind: str) -> Stream:
    """Return a stream that has come behind two messages."""
    _publish(client, mesh, b"1", b"2")
    stream = _opened(client, kind)
    assert _read(stream, 2) == [b"1", b"2"]
    return stream


def _log(mesh: Mesh) -> tuple[TopicPartition, int]:
    """Return the one partition that has records, and its end."""
    count = mesh.topology.nodes["a"].partitions
    places = [TopicPartition(TOPIC, partition) for partition in range(count)]
    ends = mesh.world.kafka["left"].admin().ends(places)
    place = max(ends, key=lambda one: ends[one])
    return place, ends[place]


def _delete_all_but_the_last(mesh: Mesh) -> int:
    """Delete records; return the first offset that is left."""
    place, end = _log(mesh)
    mesh.world.kafka["left"].admin().delete_before({place: end - 2})  # a record, and its mark
    return end - 2


@pytest.mark.parametrize("kind", ["channel", "queue"])
def test_who_comes_back_too_late_is_told_what_was_deleted(
    kind: str, client: MeshClient, mesh: Mesh
) -> None:
    """The group had come somewhere, and its next member begins behind that."""
    stream = _opened_and_read(client, mesh, kind)
    stream.close()
    place, end = _log(mesh)
    _publish(client, mesh, b"3", b"4", b"5")
    begin = _delete_all_but_the_last(mesh)
    late = _opened(client, kind)
    assert _read(late, 1) == [b"5"]
    # It had come to the last record: the mark behind that is none.
    assert late.skipped == [Skipped(place, end - 1, begin - 1)]
    assert "were deleted before they were read" in str(late.skipped[0])


@pytest.mark.parametrize("kind", ["channel", "queue"])
def test_who_reads_too_slowly_is_told_what_was_deleted(
    kind: str, client: MeshClient, mesh: Mesh
) -> None:
    """Between two reads: what comes behind that is read, and nothing is told twice."""
    stream = _opened_and_read(client, mesh, kind)
    place, end = _log(mesh)
    _publish(client, mesh, b"3", b"4", b"5")
    begin = _delete_all_but_the_last(mesh)
    assert _read(stream, 1) == [b"5"]
    _publish(client, mesh, b"6")
    assert _read(stream, 1) == [b"6"]
    assert stream.skipped == [Skipped(place, end, begin - 1)]
