"""The client library against simulated nodes on in-memory Kafka."""

from __future__ import annotations

import gc
import weakref
from array import array
from collections.abc import Sequence
from itertools import islice

import pytest

from mesh.client import (
    LaggardsError,
    MessageClass,
    NotPublishedError,
    SubjectError,
    TransportError,
)
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.transport.port import Record, TopicPartition
from mesh.view.connection import open_around
from tests.component.in_memory_mesh import Mesh


def test_a_message_reaches_a_subscriber_two_hops_away(mesh: Mesh) -> None:
    near, far = mesh.client("a"), mesh.client("c")
    assert far.wait(far.subscribe("orders", "acme/>")) == ()
    stream = far.deliveries("orders")
    near.publish("acme/eu", b"42", key=b"k", headers=[("h", b"1"), ("h", None)])
    near.publish("other/eu", b"not wanted")
    assert near.flush() == 2
    [message] = stream.read(5.0)
    assert (message.subject, message.payload, message.key) == ("acme/eu", b"42", b"k")
    assert message.headers == (("h", b"1"), ("h", None))
    assert message.path == ("a", "b", "c")
    assert message.message_class is MessageClass.GUARANTEED
    assert stream.read(1.0) == ()


def test_versions_are_offsets_and_unsubscribing_ends_deliveries(mesh: Mesh) -> None:
    client = mesh.client("b")
    first = client.subscribe("e", "x/*")
    second = client.subscribe("e", "y")
    assert (first, second) == (0, 1)
    client.wait(second)
    client.wait(client.unsubscribe("e", "x/*"))
    client.publish("x/1", b"gone")
    client.publish("y", b"stays")
    client.flush()
    assert [m.payload for m in client.deliveries("e").read(5.0)] == [b"stays"]


def test_deliveries_from_now_leave_the_past_out(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.wait(client.subscribe("e", ">"))
    client.publish("x", b"old")
    client.flush()
    assert client.deliveries("e").read(5.0)
    fresh = client.deliveries("e", from_beginning=False)
    client.publish("x", b"new")
    client.flush()
    assert [m.payload for m in islice(fresh, 1)] == [b"new"]
    fresh.close()
    assert list(fresh) == []


def test_a_foreign_record_in_an_endpoint_is_passed_over(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.wait(client.subscribe("e", ">"))
    mesh.world.kafka["left"].writer("stranger").produce("mesh.a.ep.e", b"junk", None, 0)
    client.publish("x", b"good")
    client.flush()
    stream = client.deliveries("e")
    assert [m.payload for m in stream.read(5.0)] == [b"good"]
    assert stream.foreign == 1


def test_what_brought_no_message_is_read_once_although_a_later_read_is_interrupted(
    mesh: Mesh,
) -> None:
    """Announced losses and foreign records are counted once."""
    client = mesh.client("a")
    client.wait(client.subscribe("e", ">"))
    mesh.world.kafka["left"].writer("stranger").produce("mesh.a.ep.e", b"junk", None, 0)
    stream = client.deliveries("e")
    assert not stream.read(2.0)
    source = stream._reading.source
    assert source is not None

    def is_interrupted(_timeout_s: float, _limit: int) -> Sequence[Record]:
        raise KeyboardInterrupt

    source.read = is_interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stream.read(5.0)
    client.publish("x", b"good")
    client.flush()
    assert [m.payload for m in stream.read(5.0)] == [b"good"]
    assert stream.foreign == 1


def test_waiting_names_the_link_that_is_still_open(mesh: Mesh) -> None:
    client = mesh.client("c")
    client.wait(client.subscribe("e", "warm"))
    mesh.world.cut("b", ["c"])
    version = client.subscribe("e", "acme/>")
    with pytest.raises(LaggardsError, match="c->b") as failure:
        client.wait(version, timeout_s=3.0)
    assert failure.value.open_links == (("c", "b"),)


def test_waiting_does_not_wait_for_a_dead_node(mesh: Mesh) -> None:
    client = mesh.client("b")
    client.wait(client.subscribe("e", "warm"))
    mesh.world.kill("c")
    assert client.wait(client.subscribe("e", "acme/>"), timeout_s=30.0) == [("b", "c")]


@pytest.mark.parametrize(
    ("subject", "headers", "payload", "said"),
    [
        ("a//b", (), b"", "empty level"),
        ("a/*", (), b"", "only filters have wildcards"),
        ("$node/x", (), b"", "belong to the mesh"),
        ("a", [("mesh-subject", b"b")], b"", "belongs to the mesh"),
        ("a", [("\udcff", b"b")], b"", "is not Unicode"),
        ("a", [("mesh\0", b"b")], b"", "has a NUL"),
        ("a", (), b"x" * 900_001, "at most 900000 are allowed"),
    ],
)
def test_wrong_messages_are_refused_before_they_are_sent(
    mesh: Mesh, subject: str, headers: list[tuple[str, bytes]], payload: bytes, said: str
) -> None:
    client = mesh.client("a")
    with pytest.raises(SubjectError, match=said):
        client.publish(subject, payload, headers=headers)
    assert client.flush() == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"payload": "text"}, "payload must be bytes, not str; encode it"),
        ({"key": 7}, "key must be bytes, not int"),
        ({"headers": [("h", "text")]}, "header 'h' must be bytes, not str"),
        ({"headers": [(b"h", b"1")]}, "name of a header must be text, not bytes; decode it"),
        ({"headers": {"ab": b"1"}}, "headers must be pairs of a name and bytes"),
        ({"headers": ["ab"]}, "headers must be pairs of a name and bytes"),
        ({"headers": [("a", b"1", 2)]}, "headers must be pairs of a name and bytes"),
        ({"headers": None}, "headers must be pairs of a name and bytes"),
        ({"subject": b"x"}, "subject must be text, not bytes; decode it"),
        ({"subject": None}, "subject must be text, not NoneType"),
    ],
)
def test_text_is_no_bytes(mesh: Mesh, given: dict[str, object], said: str) -> None:
    client = mesh.client("a")
    with pytest.raises(TypeError, match=said):
        client.publish(**{"subject": "x", "payload": b"", **given})  # type: ignore[arg-type]
    assert client.flush() == 0


def test_other_kinds_of_bytes_are_what_they_are_when_they_are_given(mesh: Mesh) -> None:
    """The client library takes none of them, and a caller may use its buffer again."""
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    buffer, numbers = bytearray(b"first"), memoryview(array("I", [1, 2]))
    client.publish("x", buffer, key=bytearray(b"k"), headers=[("h", memoryview(b"v"))])
    client.publish("x", numbers, key=b"k")  # type: ignore[arg-type]
    buffer[:] = b"later"
    client.flush()
    one, other = client.deliveries("e").read(5.0)
    assert (one.payload, one.key, one.headers) == (b"first", b"k", (("h", b"v"),))
    assert {type(part) for part in (one.payload, one.key, one.headers[0][1])} == {bytes}
    assert other.payload == numbers.tobytes()


def test_wrong_names_are_refused(mesh: Mesh) -> None:
    client = mesh.client("a")
    with pytest.raises(SubjectError, match="last level"):
        client.subscribe("e", ">/a")
    with pytest.raises(SubjectError, match="not a name"):
        client.subscribe("a b", "x")
    with pytest.raises(TypeError, match="filter must be text, not bytes; decode it"):
        client.subscribe("e", b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="endpoint must be text, not int"):
        client.unsubscribe(5, "x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean"):
        mesh.client("A")


def test_flush_tells_how_many_failed(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.publish("x", b"1")
    client.flush()
    mesh.world.kafka["left"].available = False
    client.publish("x", b"2")
    client.publish("x", b"3")
    with pytest.raises(NotPublishedError, match="2 of 2") as failure:
        client.flush()
    assert failure.value.failed == 2


def test_a_node_without_topics_is_named(mesh: Mesh) -> None:
    mesh.world.kafka["left"].delete_topic("mesh.a.in.g")
    with pytest.raises(TransportError, match="start node a"):
        mesh.client("a").publish("x", b"")


def test_a_client_needs_the_secrets_of_its_own_kafka_cluster_alone(mesh: Mesh) -> None:
    """Of the others it only looks at how far they have heard of a subscription."""
    secret = {"bootstrap.servers": "h:1", "sasl.password": "${env:NOT_SET_ANYWHERE}"}
    open_ = {"bootstrap.servers": "h:2"}
    spec = {"nodes": {"a": {"kafka": "left"}, "b": {"kafka": "right"}}}
    around = open_around(
        topology_from_mapping({**spec, "kafka": {"left": open_, "right": secret}}), "a"
    )
    with pytest.raises(TransportError, match="NOT_SET_ANYWHERE is not set"):
        around["right"].admin()
    for kafka in around.values():
        kafka.close()
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE is not set"):
        open_around(topology_from_mapping({**spec, "kafka": {"left": secret, "right": open_}}), "a")
    near = mesh.client("a")
    near._all = {**mesh.world.kafka, "right": around["right"]}
    with pytest.raises(LaggardsError):
        near.wait(near.subscribe("e", "acme/>") + 1_000, timeout_s=2.0)
    assert near.wait(near.subscribe("e", "acme/>")) == ()


def test_whoever_is_too_slow_is_told_and_reads_on(mesh: Mesh) -> None:
    """What was deleted unread is no silence for ever."""
    client = mesh.client("b")
    client.wait(client.subscribe("e", "x"))
    stream = client.deliveries("e")
    places = [TopicPartition("mesh.b.ep.e", number) for number in range(4)]
    admin = mesh.world.kafka["right"].admin()
    for number in range(3):
        client.publish("x", b"%d" % number, key=b"k")
        client.flush()
        mesh.pause(2)
        if number == 0:
            assert [one.payload for one in stream.read(2.0)] == [b"0"]
    kept = {place: end - 2 for place, end in admin.ends(places).items() if end}
    admin.delete_before(kept)
    with pytest.raises(TransportError, match="deleted before they were read"):
        stream.read(2.0)
    assert [one.payload for one in stream.read(2.0)] == [b"2"]


def test_a_client_keeps_nothing_of_streams_that_were_closed(mesh: Mesh) -> None:
    """A service opens one per request for months."""
    client = mesh.client("a")
    first = weakref.ref(client.deliveries("e"))
    application = weakref.ref(client.roles("app"))
    for _ in range(3):
        for stream in (client.deliveries("e"), client.channel("e", "g"), client.consume("q")):
            stream.close()
    kept = first()
    assert kept is not None
    kept.close()
    del kept
    client.deliveries("e")
    gc.collect()
    assert first() is None
    assert application() is None


def test_all_is_closed_though_one_cannot_be(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    client = mesh.client("a")
    broken, whole = client.deliveries("e"), client.deliveries("f")

    def fail() -> None:
        raise ValueError("a fault of the library")

    monkeypatch.setattr(broken, "close", fail)
    with pytest.raises(ValueError, match="a fault"):
        client.close()
    assert whole.is_closed
