"""The client as an application uses it: results, groups, leases, and a mesh that changes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

import mesh.client as mesh_client
from mesh.client import (
    ChannelReader,
    ClosedError,
    Deliveries,
    EndpointKind,
    LaggardsError,
    MeshClient,
    MessageClass,
    NotPublishedError,
    OtherKindError,
    QueueConsumer,
    QueueMessage,
    QueuePolicy,
    ReceivedMessage,
    SubjectError,
    TransportError,
)
from mesh.client.awaited import AwaitedTopic
from mesh.client.leases import Leases
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.control import Acknowledgement, Heartbeat, LinkStatus
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Reader, Record
from mesh.wire.control import encode_acknowledgement, encode_heartbeat
from mesh.wire.keys import heartbeat_key, subscribed_key
from tests.component.in_memory_mesh import CHAIN, Mesh, put_in_force


def test_who_publishes_knows_the_identity_that_receivers_see(mesh: Mesh) -> None:
    """Spec: K9."""
    near, far = mesh.client("a"), mesh.client("c")
    far.wait(far.subscribe("orders", "acme/>"))
    sent = [near.publish(f"acme/{number}", b"x") for number in range(4)]
    near.flush()
    assert all(one.is_accepted and not one.error for one in sent)
    came = {one.subject: one for one in far.deliveries("orders").read(5.0)}
    assert {one.subject: one.identity for one in sent} == {
        subject: one.identity for subject, one in came.items()
    }
    assert sent[0].id == f"mesh.a.in.g/{sent[0].partition}/{sent[0].offset}"


def test_who_publishes_to_a_topic_that_was_recreated_knows_its_identity(mesh: Mesh) -> None:
    """Without connecting again: the client looks now and then which topic it is."""
    client = mesh.client("a")
    topic = TopicNames(mesh.topology.prefix).ingress("a", MessageClass.GUARANTEED)
    kafka = mesh.world.kafka["left"]
    former = client.publish("x", b"1")
    client.flush()
    kafka.recreate(topic)
    mesh.pause(6.0)
    client.publish("x", b"2")
    client.flush()
    later = client.publish("x", b"3")
    client.flush()
    assert former.topic_id != later.topic_id
    assert later.topic_id == kafka.admin().describe([topic])[topic].topic_id.hex()


def test_what_failed_is_named_with_the_reason(mesh: Mesh) -> None:
    """One of two topics refuses: its message alone is lost, and everybody can tell which."""
    client = mesh.client("a")
    client.publish("warm", b"")
    client.publish("warm", b"", message_class=MessageClass.DIRECT)
    client.flush()
    mesh.world.kafka["left"].denied["mesh.a.in.g"] = "not today"
    lost, kept = (
        client.publish("acme/1", b""),
        client.publish("acme/2", b"", message_class=MessageClass.DIRECT),
    )
    with pytest.raises(NotPublishedError, match="acme/1: not today") as refused:
        client.flush()
    assert (refused.value.failed, refused.value.refused) == (1, (("acme/1", "not today"),))
    assert (lost.is_accepted, lost.error, lost.identity) == (False, "not today", None)
    assert kept.is_accepted
    del mesh.world.kafka["left"].denied["mesh.a.in.g"]
    assert client.flush() == 0  # told once


def test_a_group_goes_on_where_it_was(mesh: Mesh) -> None:
    """What the iterator has given away is done when the next one is asked for."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(6):
        client.publish("x", str(number).encode(), key=b"one")
    client.flush()
    reader = client.channel("orders", "billing")
    assert [one.payload for one in islice(reader, 3)] == [b"0", b"1", b"2"]
    reader.close()  # the third was handed out and is not done
    again = client.channel("orders", "billing")
    assert [one.payload for one in islice(again, 4)] == [b"2", b"3", b"4", b"5"]
    other = client.channel("orders", "audit")
    assert len(other.read(5.0)) == 6
    other.commit()
    other.close()
    assert client.channel("orders", "audit").read(1.0) == ()


def test_two_readers_of_a_group_share_a_channel(mesh: Mesh) -> None:
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    readers = [client.channel("orders", "billing") for _ in range(2)]
    for reader in readers:
        reader.read(3.0)
    for number in range(40):
        client.publish("x", str(number).encode(), key=str(number).encode())
    client.flush()
    shares = []
    for reader in readers:
        found = [one.payload for _ in range(5) for one in reader.read(1.0)]
        reader.commit()
        shares.append(set(found))
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0] | shares[1]) == 40


def test_what_moved_away_is_not_handed_out_of_what_was_fetched(mesh: Mesh) -> None:
    """Whoever takes long over each message hears of it before the next one."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(40):
        client.publish("x", str(number).encode(), key=str(number).encode())
    client.flush()
    mesh.pause(2.0)
    first, second = (client.channel("orders", "billing") for _ in range(2))
    slow = iter(first)
    found = [next(slow).payload for _ in range(10)]
    mesh.pause(2.0)
    found.append(next(slow).payload)  # those before are saved; this one is not done
    second.read(0.0)
    mesh.pause(2.0)
    found.append(next(slow).payload)
    for _ in range(10):
        for reader in (first, second):
            found += [one.payload for one in reader.read(1.0)]
            reader.commit()
    assert {one for one in found if one} == {b"%d" % number for number in range(40)}
    assert len(found) <= 41


@pytest.mark.parametrize(("endpoint", "group"), [("no way", "g"), ("e", ""), ("e", "a\nb")])
def test_a_name_that_is_not_allowed_is_told(endpoint: str, group: str, mesh: Mesh) -> None:
    with pytest.raises(SubjectError):
        mesh.client("a").channel(endpoint, group)


def test_leases_are_renewed_until_the_client_ends_them(mesh: Mesh) -> None:
    """Nobody who forgets its lease loses its subscription. Spec: K13."""
    keeper, other = mesh.client("c"), mesh.client("c")
    keeper.wait(keeper.subscribe("kept", "x", lease_s=3))
    other.wait(other.subscribe("forgotten", "y", lease_s=3))
    for _ in range(8):
        mesh.pause(1.0)
        keeper.renew_leases()
    assert list(keeper.subscribed()) == [("kept", "x")]
    keeper.unsubscribe("kept", "x")
    mesh.pause(2.0)
    keeper.renew_leases()
    assert keeper.subscribed() == {}


def test_leases_are_renewed_beside_an_application_that_does_something_else() -> None:
    """Also where the first attempt fails; `close` ends the thread."""
    renewed, tries = threading.Event(), list[bytes]()

    def write(key: bytes, _value: bytes) -> None:
        tries.append(key)
        if len(tries) == 1:
            raise TransportUnavailableError("not just now")
        renewed.set()

    leases = Leases(write, lambda: time.monotonic_ns() // 1_000_000)
    leases.keep(b"k", b"v", 1)
    leases.begin()
    assert renewed.wait(20.0)
    leases.close()
    assert not [one for one in threading.enumerate() if one.name == "mesh-leases"]


def test_a_client_follows_the_topology_in_force(mesh: Mesh) -> None:
    """A limit and a zone that a change brings hold for clients that were there before. K27."""
    client = mesh.client("a")
    client.publish("x", b"12345678" * 200)
    put_in_force(2, smaller(mesh.topology), mesh.world.kafka)
    mesh.pause(1.0)
    assert client.topology.max_message_bytes == 1024
    with pytest.raises(SubjectError, match="1024"):
        client.publish("x", b"12345678" * 200)
    zones = {"C": {"kind": "cluster", "nodes": ["a", "b"], "directOnly": True}}
    put_in_force(3, topology_from_mapping({**CHAIN, "zones": zones}), mesh.world.kafka)
    mesh.pause(1.0)
    assert client.direct_only_zone == "C"


def test_a_wait_goes_on_through_a_change() -> None:
    """The node speaks of nodes that come while the client waits. Spec: K24, K27."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    kafka = mesh.world.kafka["left"]
    names, writer = TopicNames(mesh.topology.prefix), kafka.writer("nodes")
    ack = Acknowledgement(0, applied=5, complete=4, open_links=[("b", "d"), ("d", "b")])
    writer.produce(names.control("a"), encode_acknowledgement(ack), subscribed_key(), 0)
    client = mesh.client("a")
    with pytest.raises(LaggardsError, match="b->d, d->b"):
        client.wait(5, timeout_s=0)
    nodes = {**mesh.topology.nodes, "d": mesh.topology.nodes["a"]}
    after = replace(mesh.topology, nodes=nodes)

    def change(seconds: float) -> None:
        mesh.pause(seconds)
        kafka.admin().create(node_topics(after, "d"))
        for node, other in ("b", "d"), ("d", "b"):
            beat = Heartbeat(0, 1, ready=True, links=[LinkStatus(other, "Z", "down")])
            at = mesh.world.kafka[nodes[node].kafka].writer("nodes")
            at.produce(names.control(node), encode_heartbeat(beat), heartbeat_key(), 0)
        put_in_force(2, after, mesh.world.kafka)

    client._pause = change
    assert client.wait(5) == [("b", "d"), ("d", "b")]
    mesh.close()


def smaller(topology: Topology) -> Topology:
    return replace(topology, max_message_bytes=1024)


def test_what_waits_in_an_iterator_is_not_done(mesh: Mesh) -> None:
    """It fetches many at once: `commit` speaks of those that were handed out."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(6):
        client.publish("x", str(number).encode(), key=b"one")
    client.flush()
    reader = client.channel("orders", "billing")
    assert [one.payload for one in islice(reader, 2)] == [b"0", b"1"]
    reader.commit()
    # Another loop over the same reader goes on where the first one was left.
    assert [one.payload for one in islice(reader, 1)] == [b"2"]
    assert [one.payload for one in reader.read(1.0, 2)] == [b"3", b"4"]
    reader._reading.close()  # as a process that dies
    again = client.channel("orders", "billing")
    assert [one.payload for one in again.read(3.0)] == [b"2", b"3", b"4", b"5"]


def test_a_renewal_is_no_newer_word_than_the_application_s(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease is due while `subscribe` waits for its own record. Spec: K13."""
    client = mesh.client("a")
    client.subscribe("orders", "acme/>", lease_s=9)
    reads_back = client._subscriptions._read_back

    def slowly(*given: object) -> int:
        mesh.pause(3.1)
        client.renew_leases()
        return reads_back(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(client._subscriptions, "_read_back", slowly)
    client.wait(client.subscribe("orders", "acme/>"))
    assert client.subscribed()["orders", "acme/>"].lease_s is None
    mesh.pause(20)
    assert ("orders", "acme/>") in client.subscribed()


def test_a_lease_goes_on_if_the_newer_word_was_not_taken(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mesh.client("a")
    client.subscribe("orders", "acme/>", lease_s=9)

    def refuses(*_given: object) -> int:
        raise TransportUnavailableError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(client._subscriptions, "_write", refuses)
        with pytest.raises(TransportUnavailableError):
            client.subscribe("orders", "acme/>", noexport=True)
    for _ in range(5):
        mesh.pause(4)
        client.renew_leases()
    assert ("orders", "acme/>") in client.subscribed()


def test_an_endpoint_of_another_class_or_kind_is_refused(mesh: Mesh) -> None:
    """The node would only log it, and go by it after its next start. Spec: K13."""
    client, other = mesh.client("a"), mesh.client("a")
    client.subscribe("orders", "acme/>")
    for filter_ in ("acme/>", "acme/x"):
        with pytest.raises(OtherKindError, match="orders at a is a guaranteed channel already"):
            other.subscribe("orders", filter_, message_class=MessageClass.DIRECT)
    with pytest.raises(OtherKindError, match="cannot be a guaranteed queue too"):
        other.subscribe("orders", "acme/x", kind=EndpointKind.QUEUE)
    assert [*client.subscribed()] == [("orders", "acme/>")]
    client.unsubscribe("orders", "acme/>")
    other.wait(other.subscribe("orders", "acme/>", message_class=MessageClass.DIRECT))


def test_two_endpoints_that_differ_by_case_alone_are_one_name(mesh: Mesh) -> None:
    """Spec: DESIGN 3."""
    client, other = mesh.client("a"), mesh.client("a")
    client.subscribe("orders", "acme/>")
    with pytest.raises(SubjectError, match="Orders at a would be a second orders"):
        other.subscribe("Orders", "acme/x")
    assert [*other.subscribed()] == [("orders", "acme/>")]
    mesh.client("b").subscribe("Orders", "acme/>")
    client.unsubscribe("orders", "acme/>")
    other.subscribe("Orders", "acme/x")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        *(
            (
                {"lease_s": lease},
                "^lease_s must be a whole number of seconds from 1 to 2147483647, n",
            )
            for lease in (0, -5, 1.5, 2**40, True, "5", timedelta(minutes=5))
        ),
        ({"policy": "every"}, "policy is for queues"),
    ],
)
def test_what_no_node_would_take_is_refused(
    mesh: Mesh, asked: dict[str, object], told: str
) -> None:
    client = mesh.client("a")
    with pytest.raises(SubjectError, match=told):
        client.subscribe("orders", "acme/>", **asked)  # type: ignore[arg-type]
    assert not client.subscribed()


def test_what_pages_say_that_the_client_raises_can_be_had_from_it() -> None:
    """Whoever is to publish again later has to catch what says so."""
    pages = [*Path(__file__).parents[3].glob("docs/*.md")]
    told = {name for page in pages for name in re.findall(r"`(\w+Error)`", page.read_text())}
    of_client = told - {"StartError"}  # of containers under test
    assert {"BackpressureError", "PausedError"} <= of_client
    assert all(hasattr(mesh_client, name) for name in of_client)


def test_words_may_be_written_as_text(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.subscribe("jobs", "x", kind="queue", policy="any")  # type: ignore[arg-type]
    [one] = client.subscribed().values()
    assert (one.kind, one.policy) == (EndpointKind.QUEUE, QueuePolicy.ANY)
    sent = client.publish("x", b"", message_class="direct")  # type: ignore[arg-type]
    assert sent.message_class is MessageClass.DIRECT
    with pytest.raises(SubjectError, match="must be one of guaranteed, direct, not 'sure'"):
        client.publish("x", b"", message_class="sure")  # type: ignore[arg-type]
    with pytest.raises(SubjectError, match="kind must be one of channel, queue, not 'topic'"):
        client.subscribe("e", "x", kind="topic")  # type: ignore[arg-type]


def test_one_may_wait_without_end_but_not_for_no_number(mesh: Mesh) -> None:
    client = mesh.client("a")
    assert client.wait(client.subscribe("orders", "acme/>"), float("inf")) == ()
    with pytest.raises(ValueError, match="a timeout of nan"):
        client.wait(0, float("nan"))


def uses() -> dict[str, Callable[[MeshClient], object]]:
    """What an application does with a client, by name."""
    return {
        "publish": lambda client: client.publish("x", b"1"),
        "flush": lambda client: client.flush(),
        "subscribe": lambda client: client.subscribe("e", "x"),
        "unsubscribe": lambda client: client.unsubscribe("e", "x"),
        "subscribed": lambda client: client.subscribed(),
        "wait": lambda client: client.wait(0),
        "refusal": lambda client: client.refusal("e"),
        "deliveries": lambda client: client.deliveries("e"),
        "channel": lambda client: client.channel("e", "g"),
        "consume": lambda client: client.consume("q"),
        "roles": lambda client: client.roles("app"),
        "renew_leases": lambda client: client.renew_leases(),
        "topology": lambda client: client.topology,
        "direct_only_zone": lambda client: client.direct_only_zone,
    }


@pytest.mark.parametrize("use", uses())
def test_a_closed_client_says_so(use: str, mesh: Mesh) -> None:
    """Whoever flushes too late would hear that everything was accepted; nothing is opened again."""
    client = mesh.client("a")
    client.subscribe("e", "x")
    client.publish("x", b"1")
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="connect again"):
        uses()[use](client)


@pytest.mark.parametrize("use", uses())
def test_a_forked_client_says_so(use: str, mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that would send stay behind in the other process; so does what is to be closed."""
    client = mesh.client("a")
    published = client.publish("x", b"1")
    with monkeypatch.context() as forked:
        forked.setattr("mesh.client.client.os.getpid", lambda: -1)
        with pytest.raises(ClosedError, match="forked"):
            uses()[use](client)
    assert client.flush() == 1
    assert published.is_accepted


def test_a_fork_that_closes_takes_nothing_from_the_other_process(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mesh.client("a")
    with monkeypatch.context() as forked:
        forked.setattr("mesh.client.client.os.getpid", lambda: -1)
        copied = copy(client)
        copied.close()
    client.publish("x", b"1")
    assert client.flush() == 1


def test_headers_may_come_one_by_one(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    client.publish("x", b"1", headers=((name, b"v") for name in "ab"))  # type: ignore[arg-type]
    client.flush()
    [message] = client.deliveries("e").read(5.0)
    assert message.headers == (("a", b"v"), ("b", b"v"))


def test_a_consumer_goes_by_what_is_in_force(mesh: Mesh) -> None:
    """How often a message is handed out is what the queue is declared with now. Spec: K27."""
    client = mesh.client("a")
    queues = {"jobs": {"maxDeliveries": 3}}
    put_in_force(2, topology_from_mapping({**CHAIN, "queues": queues}), mesh.world.kafka)
    mesh.pause(1.0)
    assert client.consume("jobs")._most == 3


def test_who_closes_from_another_thread_waits_until_nobody_reads() -> None:
    """The client library may wait for ever for a commit, or its end, beside a read."""
    calls: list[str] = []
    reads, goes_on = threading.Event(), threading.Event()
    source = SimpleNamespace(close=lambda: calls.append("closed"))
    kafka = SimpleNamespace(admin=lambda: SimpleNamespace(describe=lambda _: {"t": None}))
    topic: AwaitedTopic[SimpleNamespace] = AwaitedTopic(
        kafka,  # type: ignore[arg-type]
        "t",
        lambda: source,
        now_ms=lambda: time.monotonic_ns() // 1_000_000,
        pause=time.sleep,
    )

    def take(_source: object, _wait_s: float) -> tuple[()]:
        reads.set()
        goes_on.wait(20.0)
        calls.append("read")
        return ()

    def close() -> None:
        with topic.closing():
            calls.append("saved")

    reader = threading.Thread(target=topic.read, args=(60.0, take))
    reader.start()
    assert reads.wait(20.0)
    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.3)  # ends at once if it waits for nobody
    goes_on.set()
    for one in (closer, reader):
        one.join(20.0)
        assert not one.is_alive()
    assert calls == ["read", "saved", "closed"]


def test_a_reader_that_is_closed_saves_nothing(mesh: Mesh) -> None:
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1")
    client.flush()
    reader = client.channel("orders", "billing")
    assert len(reader.read(5.0)) == 1
    reader.close()
    with pytest.raises(ClosedError, match="comes again"):
        reader.commit()
    assert len(client.channel("orders", "billing").read(5.0)) == 1


@pytest.mark.parametrize(
    "opens",
    [
        lambda one: one.deliveries("orders"),
        lambda one: one.channel("orders", "g"),
        lambda one: one.consume("orders"),
    ],
)
def test_whoever_reads_what_is_closed_is_told(
    opens: Callable[[MeshClient], Deliveries | ChannelReader | QueueConsumer], mesh: Mesh
) -> None:
    """A loop of reads would go round for ever, and find nothing; iterating ends."""
    stream = opens(mesh.client("b"))
    assert not stream.read(0.0)
    stream.close()
    with pytest.raises(ClosedError, match="this reader is closed; open another one"):
        stream.read(0.0)
    assert list(stream) == []
    if isinstance(stream, Deliveries):
        with pytest.raises(ClosedError, match="closed"):
            stream.read_to_end(0.0)


def test_who_closes_while_iterating_gets_nothing_more(mesh: Mesh) -> None:
    """Not what had been read at once with the last message, either."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(9):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    for stream in (client.deliveries("orders"), client.channel("orders", "g")):
        found = []
        for message in stream:
            found.append(message.payload)
            stream.close()
        assert found == [b"0"]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda one: one.subscribe("e", "x", noexport="no"), "noexport must be True or False"),
        (lambda one: one.subscribe(b"e", "x"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.deliveries(b"e"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel(b"e", "g"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel("e", b"g"), "group must be text, not bytes; decode it"),
        (lambda one: one.consume(None), "queue must be text, not NoneType"),
        (lambda one: one.roles(b"app"), "application must be text, not bytes; decode it"),
    ],
)
def test_what_is_of_another_kind_is_told(
    use: Callable[[MeshClient], object], said: str, mesh: Mesh
) -> None:
    """A subscription that says "no" to noexport would be one that attracts nothing."""
    client = mesh.client("a")
    with pytest.raises(TypeError, match=said):
        use(client)
    assert client.subscribed() == {}


def test_whoever_subscribes_where_the_topic_is_gone_is_told(mesh: Mesh) -> None:
    """Its node recreates it."""
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    mesh.world.kafka["left"].admin().delete(["mesh.a.clients"])
    for use in (client.subscribe, client.unsubscribe):
        with pytest.raises(TransportUnavailableError, match=r"mesh.a.clients is gone.*try again"):
            use("e", "y")
    mesh.pause(30.0)
    client.wait(client.subscribe("e", "y"))
    assert list(client.subscribed()) == [("e", "y")]


def streams() -> dict[str, Callable[[MeshClient], Deliveries | ChannelReader | QueueConsumer]]:
    """What an application receives by, by name."""
    return {
        "deliveries": lambda client: client.deliveries("orders"),
        "channel": lambda client: client.channel("orders", "g"),
        "consume": lambda client: client.consume("orders"),
    }


def payloads(found: Sequence[ReceivedMessage | QueueMessage]) -> list[bytes | None]:
    """Return what messages carry."""
    return [getattr(one, "message", one).payload for one in found]


@pytest.mark.parametrize("opens", streams())
def test_what_a_read_had_in_hand_when_ctrl_c_came_comes_again(opens: str, mesh: Mesh) -> None:
    """Whoever reads on would pass it over, and save that as done. Spec: K8."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1", key=b"one")
    client.flush()
    stream = streams()[opens](client)
    assert payloads(stream.read(5.0)) == [b"1"]
    if isinstance(stream, ChannelReader):
        stream.commit()
    for number in (b"2", b"3"):
        client.publish("x", number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    source = stream._reading.source
    assert source is not None
    reads = source.read

    def is_interrupted(timeout_s: float, limit: int) -> Sequence[Record]:
        if reads(timeout_s, limit):
            raise KeyboardInterrupt
        return ()

    source.read = is_interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stream.read(5.0)
    found: list[bytes | None] = []
    while len(found) < 2 or b"3" not in found:
        some = payloads(stream.read(20.0))
        assert some, found
        found += some
    again = [b"1"] if opens == "consume" else []  # that one was not acknowledged
    assert found == [*again, b"2", b"3"]


@pytest.mark.parametrize("opens", streams())
def test_a_fork_leaves_a_stream_to_the_process_that_made_it(
    opens: str, mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library would wait there for ever for threads that are in the other one."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1")
    client.flush()
    stream = streams()[opens](client)
    assert payloads(stream.read(5.0)) == [b"1"]
    with monkeypatch.context() as forked:
        forked.setattr("mesh.client.client.os.getpid", lambda: -1)
        uses: list[Callable[[], object]] = [lambda: stream.read(1.0), lambda: next(iter(stream))]
        if not isinstance(stream, Deliveries):
            uses.append(stream.commit)
        for use in uses:
            with pytest.raises(ClosedError, match="forked; connect in it"):
                use()
        stream.close()
    client.publish("x", b"2")
    client.flush()
    assert payloads(stream.read(5.0)) == [b"2"]
    stream.close()
    assert stream.is_closed


@pytest.mark.parametrize("opens", streams())
def test_whoever_stops_iterating_and_begins_again_misses_nothing(opens: str, mesh: Mesh) -> None:
    """However many messages had come at once."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(6):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    stream = streams()[opens](client)
    found = [one for _ in range(2) for one in payloads(list(islice(stream, 2)))]
    found += payloads(stream.read(5.0))
    assert found == [b"%d" % number for number in range(6)]


def test_what_was_read_before_a_read_to_the_end_failed_is_not_lost(mesh: Mesh) -> None:
    """The next one returns it."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(3):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    stream = client.deliveries("orders")
    takes, times = stream._take, iter(range(9))

    def take(reader: Reader, timeout_s: float) -> Sequence[ReceivedMessage]:
        if next(times):
            raise TransportError("messages were deleted before they were read")
        return takes(reader, timeout_s)[:1]

    stream._take = take  # type: ignore[method-assign]
    stream._is_before = lambda _ends: True  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="deleted"):
        stream.read_to_end(5.0)
    assert payloads(stream.read(5.0)) == [b"0"]


@pytest.mark.parametrize("nth", range(4))
def test_a_wait_that_ctrl_c_has_ended_can_be_begun_again(
    nth: int, mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been read of the mesh and was not taken up is read once more. Spec: K24."""
    client = mesh.client("a")
    version = client.subscribe("e", "x")
    reads, times = Follower._read, iter(range(1_000))

    def is_interrupted(self: Follower, timeout_s: float) -> Sequence[Record]:
        found = reads(self, timeout_s)
        if found and next(times) == nth:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Follower, "_read", is_interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.wait(version)
    assert client.wait(version, 10.0) == ()
    assert client.refusal("e") is None
