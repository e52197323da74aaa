"""The client as an application uses it: results, groups, leases, and a mesh that changes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mesh.client as mesh_client
from mesh.client import (
    ClosedError,
    EndpointKind,
    LaggardsError,
    MeshClient,
    MessageClass,
    NodeGoneError,
    NotPublishedError,
    OtherKindError,
    QueuePolicy,
    SubjectError,
    connect,
)
from mesh.client.lease_records import ClientsRecords
from mesh.client.leases import Leases
from mesh.client.subscription_writer import SubscriptionWriter
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.control import Acknowledgement, Heartbeat, LinkStatus, Subscription
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Record, TopicPartition
from mesh.wire.control import encode_acknowledgement, encode_heartbeat
from mesh.wire.keys import heartbeat_key, subscribed_key
from tests.component.admin_faults import AdminFaults
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


def test_who_cannot_look_which_topic_it_is_publishes_all_the_same(mesh: Mesh) -> None:
    """The broker that is asked may hang, while the topic's own takes what is written."""
    client = mesh.client("a")
    former = client.publish("x", b"1")
    client.flush()
    mesh.pause(6.0)
    client.publish("x", b"2")
    client.flush()
    faults = AdminFaults(describe=TransportUnavailableError("no broker answers in time"))
    mesh.world.kafka["left"].faults = faults
    sent = [client.publish("x", b"%d" % number) for number in range(3)]
    client.flush()
    assert len(faults.about("describe")) == 1
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
    assert refused.value.failed == 1
    [named] = refused.value.refused
    assert named is lost, "so that whoever published it knows which one to publish again"
    assert (lost.is_accepted, lost.error, lost.identity) == (False, "not today", None)
    assert kept.is_accepted
    del mesh.world.kafka["left"].denied["mesh.a.in.g"]
    assert client.flush() == 0  # told once


def _publishes_what_is_refused(mesh: Mesh, client: MeshClient) -> None:
    """Publish a message that Kafka does not take, and do not flush it."""
    denied = mesh.world.kafka["left"].denied
    denied.clear()
    client.publish("warm", b"")
    client.flush()
    denied["mesh.a.in.g"] = "not today"
    client.publish("acme/1", b"")


def test_who_leaves_the_block_is_told_what_was_not_taken(mesh: Mesh) -> None:
    """Nobody has to `flush` before: it would be lost without a word, on real Kafka alone."""
    client = mesh.client("a")
    with pytest.raises(NotPublishedError, match="acme/1: not today"), client:
        _publishes_what_is_refused(mesh, client)
    with pytest.raises(ClosedError):
        client.flush()


def test_what_a_block_raises_is_not_hidden_by_what_was_not_taken(mesh: Mesh) -> None:
    def work() -> None:
        with mesh.client("a") as client:
            _publishes_what_is_refused(mesh, client)
            raise KeyError

    with pytest.raises(KeyError):
        work()


def test_nothing_is_lost_where_another_thread_is_at_work(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for, as `close` does, before what was published is flushed."""
    begun, may_end = threading.Event(), threading.Event()

    def subscribed(_of: SubscriptionWriter) -> dict[object, object]:
        begun.set()
        may_end.wait(10)
        return {}

    monkeypatch.setattr(SubscriptionWriter, "subscribed", subscribed)

    def work() -> None:
        with mesh.client("a") as client:
            _publishes_what_is_refused(mesh, client)
            threading.Thread(target=client.subscribed).start()
            assert begun.wait(10)
            threading.Timer(0.05, may_end.set).start()

    with pytest.raises(NotPublishedError, match="acme/1: not today"):
        work()


def test_who_closes_within_the_block_leaves_it(mesh: Mesh) -> None:
    with mesh.client("a") as client:
        client.close()


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


def test_leases_are_renewed_beside_an_application_that_does_something_else(mesh: Mesh) -> None:
    """Also where the first attempt fails; `close` ends the thread."""
    records = ClientsRecords(mesh.world.kafka["left"], "mesh.a.clients")
    renewed, tries = threading.Event(), list[bytes]()

    def repeat(key: bytes, _value: bytes | None, word: int) -> int:
        tries.append(key)
        if len(tries) == 1:
            raise TransportUnavailableError("not just now")
        renewed.set()
        return word

    records.repeat = repeat  # type: ignore[method-assign]
    leases = Leases(records, lambda: time.monotonic_ns() // 1_000_000)
    leases.keep(b"k", b"v", 1, 0)
    leases.begin()
    assert renewed.wait(20.0)
    leases.close()
    assert not [one for one in threading.enumerate() if one.name == "mesh-leases"]


def _renewed(mesh: Mesh, seconds: int, *clients: MeshClient) -> Mapping[tuple[str, str], object]:
    """Let some clients renew for a while; return what stands at their node then."""
    for _ in range(seconds):
        mesh.pause(1)
        for client in clients:
            client.renew_leases()
    return mesh.client("a").subscribed()


def test_a_renewal_is_no_newer_word_than_another_client_s(mesh: Mesh) -> None:
    """Whoever subscribes for good, ends or changes a subscription since is not undone. K13."""
    first, second = mesh.client("a"), mesh.client("a")
    for filter_ in ("lasts/>", "ends/>", "changes/>"):
        first.subscribe("e", filter_, lease_s=9)
    second.subscribe("e", "lasts/>")
    second.unsubscribe("e", "ends/>")
    second.subscribe("e", "changes/>", lease_s=60, noexport=True)
    lasts, changes = Subscription(), Subscription(lease_s=9, noexport=True)
    both = {("e", "lasts/>"): lasts, ("e", "changes/>"): changes}
    assert _renewed(mesh, 40, first) == both
    first.close()
    assert _renewed(mesh, 20) == {("e", "lasts/>"): lasts}


def test_of_two_that_renew_a_subscription_each_keeps_it(mesh: Mesh) -> None:
    """Whichever of them ends. Spec: K13."""
    short, long = mesh.client("a"), mesh.client("a")
    short.subscribe("e", "x", lease_s=6)
    long.subscribe("e", "x", lease_s=12)
    _renewed(mesh, 20, short, long)
    long.close()
    assert ("e", "x") in _renewed(mesh, 40, short)
    short.close()
    assert _renewed(mesh, 20) == {}


def test_who_could_not_renew_for_too_long_subscribes_again(mesh: Mesh) -> None:
    """The node has ended it meanwhile, which is nobody's word. Spec: K13."""
    client = mesh.client("a")
    client.subscribe("e", "x", lease_s=3)
    assert _renewed(mesh, 9) == {}
    assert ("e", "x") in _renewed(mesh, 9, client)


def test_in_a_topic_of_subscriptions_that_was_recreated_the_newer_word_counts(mesh: Mesh) -> None:
    """Also where it has outgrown what was read of the former one."""
    client, other = mesh.client("a"), mesh.client("a")
    for number in range(4):
        other.subscribe("e", f"y/{number}")
    client.subscribe("e", "x", lease_s=9)
    _renewed(mesh, 4, client)
    mesh.world.kafka["left"].recreate("mesh.a.clients")
    other.subscribe("e", "x")
    for number in range(8):
        other.subscribe("e", f"y/{number}")
    assert len(_renewed(mesh, 20, client)) == 9
    assert client.subscribed()["e", "x"].lease_s is None


def test_where_a_topic_of_subscriptions_lost_its_end_a_lease_is_kept(mesh: Mesh) -> None:
    """What stands last there of the subscription is that it had ended once."""
    client = mesh.client("a")
    client.subscribe("e", "x")
    client.unsubscribe("e", "x")
    client.subscribe("e", "x", lease_s=9)
    mesh.world.kafka["left"].truncate(TopicPartition("mesh.a.clients", 0), 1)
    assert ("e", "x") in _renewed(mesh, 20, client)


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


def _without_a(topology: Topology) -> Topology:
    return topology_from_mapping(
        {
            "kafka": CHAIN["kafka"],
            "nodes": {
                name: {"kafka": one.kafka} for name, one in topology.nodes.items() if name != "a"
            },
            "zones": {"Z": {"kind": "multi-hop", "links": [["b", "c"]]}},
        }
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda one: one.publish("x", b""),
        lambda one: one.subscribe("e", "x"),
        lambda one: one.unsubscribe("e", "x"),
        lambda one: one.wait(0),
    ],
)
def test_who_uses_a_node_that_has_left_the_topology_is_told(
    use: Callable[[MeshClient], object], mesh: Mesh
) -> None:
    """Its topics are still there: all would be taken, and lost. Spec: K27."""
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    client.publish("x", b"1")
    client.flush()
    mesh.pause(2)
    put_in_force(2, _without_a(mesh.topology), mesh.world.kafka)
    mesh.pause(1)
    with pytest.raises(NodeGoneError, match="node a is not in topology 2") as gone:
        use(client)
    assert (gone.value.node, gone.value.number) == ("a", 2)
    assert client.flush() == 0
    assert [one.payload for one in client.deliveries("e").read_to_end(2)] == [b"1"]
    put_in_force(3, mesh.topology, mesh.world.kafka)
    mesh.pause(1)
    assert client.subscribe("e", "y") > 0, "it has come back"


def test_a_wait_ends_where_its_node_leaves_the_topology(mesh: Mesh) -> None:
    """Nobody is left who could acknowledge anything."""
    client = mesh.client("a")
    mesh.world.cut("b", ["a"])
    version = client.subscribe("e", "x")

    def leave(seconds: float) -> None:
        mesh.pause(seconds)
        put_in_force(2, _without_a(mesh.topology), mesh.world.kafka)

    client._pause = leave
    with pytest.raises(NodeGoneError, match="node a is not in topology 2"):
        client.wait(version)


def test_deliveries_of_all_partitions_are_read() -> None:
    """A topology file may be older than the one in force."""
    nodes = {"a": {"kafka": "left", "partitions": 8}, "b": {"kafka": "right"}}
    links = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}
    declared = {"kafka": CHAIN["kafka"], "nodes": nodes, "zones": links}
    mesh = Mesh(topology_from_mapping(declared))
    put_in_force(2, mesh.topology, mesh.world.kafka)
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    for number in range(40):
        client.publish("x", b"%d" % number, key=b"%d" % number)
    client.flush()
    mesh.pause(3)
    older = topology_from_mapping({**declared, "nodes": {**nodes, "a": {"kafka": "left"}}})
    assert older.nodes["a"].partitions < 8
    kafka = mesh.world.kafka
    reading = MeshClient(older, "a", kafka, now_ms=mesh.now_ms, pause=mesh.pause)
    assert len(reading.deliveries("e").read_to_end(9)) == 40
    reading.close()
    mesh.close()


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
        "begin_renewing": lambda client: client.begin_renewing(),
        "with": lambda client: client.__enter__(),
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
