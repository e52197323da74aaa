"""What became of what was published: identities, refusals, and what whoever leaves a block is told."""

from __future__ import annotations

import threading

import pytest

from mesh.client import (
    ClosedError,
    MeshClient,
    MessageClass,
    NotPublishedError,
)
from mesh.client.subscription_writer import SubscriptionWriter
from mesh.errors import TransportUnavailableError
from mesh.model.topics import TopicNames
from tests.component.admin_faults import AdminFaults
from tests.component.in_memory_mesh import Mesh
from tests.patience import PATIENCE_S


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
        may_end.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(SubscriptionWriter, "subscribed", subscribed)

    def work() -> None:
        with mesh.client("a") as client:
            _publishes_what_is_refused(mesh, client)
            threading.Thread(target=client.subscribed).start()
            assert begun.wait(PATIENCE_S)
            threading.Timer(0.05, may_end.set).start()

    with pytest.raises(NotPublishedError, match="acme/1: not today"):
        work()


def test_who_closes_within_the_block_leaves_it(mesh: Mesh) -> None:
    with mesh.client("a") as client:
        client.close()


def test_headers_may_come_one_by_one(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.wait(client.subscribe("e", "x"))
    client.publish("x", b"1", headers=((name, b"v") for name in "ab"))  # type: ignore[arg-type]
    client.flush()
    [message] = client.deliveries("e").read(5.0)
    assert message.headers == (("a", b"v"), ("b", b"v"))
