"""The client as an application uses it: results, groups, leases, and a mesh that changes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import mesh.client as mesh_client
from mesh.client import (
    ClosedError,
    EndpointKind,
    LaggardsError,
    MeshClient,
    MessageClass,
    NotPublishedError,
    OtherKindError,
    QueuePolicy,
    SubjectError,
    connect,
)
from mesh.client.leases import Leases
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.control import Acknowledgement, Heartbeat, LinkStatus
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.memory import MemoryAdmin
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Record
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


def test_who_cannot_look_which_topic_it_is_publishes_all_the_same(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is asked may hang, while the topic's own takes what is written."""
    client = mesh.client("a")
    former = client.publish("x", b"1")
    client.flush()
    mesh.pause(6.0)
    client.publish("x", b"2")
    client.flush()
    asked = Mock(side_effect=TransportUnavailableError("no broker answers in time"))
    monkeypatch.setattr(MemoryAdmin, "describe", asked)
    sent = [client.publish("x", b"%d" % number) for number in range(3)]
    client.flush()
    assert asked.call_count == 1
    assert {one.topic_id for one in sent} == {former.topic_id}
    assert all(one.is_accepted for one in sent)


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
        forked.setattr("os.getpid", lambda: -1)
        with pytest.raises(ClosedError, match="forked"):
            uses()[use](client)
    assert client.flush() == 1
    assert published.is_accepted


def test_a_fork_that_closes_takes_nothing_from_the_other_process(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mesh.client("a")
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
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


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda one: one.subscribe("e", "x", noexport="no"), "noexport must be True or False"),
        (lambda one: one.subscribe(b"e", "x"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.deliveries(b"e"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel(b"e", "g"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel("e", b"g"), "group must be text, not bytes; decode it"),
        (lambda one: one.consume(None), "queue must be text, not NoneType"),
        (lambda one: one.consume("q").read("5"), "a timeout must be a number of seconds, not '5'"),
        (lambda one: one.deliveries("e").read(None), "a timeout must be a number of seconds, not"),
        (lambda one: one.deliveries("e", from_beginning="no"), "from_beginning must be True or"),
        (lambda one: one.wait("5"), "version must be what `subscribe` returns, not '5'"),
        (lambda one: one.roles("app", is_new="no"), "is_new must be True or False, not 'no'"),
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("mesh.yaml", "a"), "topology must be what `load_topology` returns, not str"),
        ((topology_from_mapping(CHAIN), b"a"), "node must be text, not bytes; decode it"),
        ((topology_from_mapping(CHAIN), None), "node must be text, not NoneType"),
    ],
)
def test_who_connects_by_something_else_is_told(given: tuple[Any, Any], said: str) -> None:
    """The path of a topology file, as everything else takes it."""
    with pytest.raises(TypeError, match=said):
        connect(*given)


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
