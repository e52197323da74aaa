"""Subscribing as an application does it: what a node would refuse is refused at once, and waits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.client import (
    EndpointKind,
    MessageClass,
    OtherKindError,
    QueuePolicy,
    SubjectError,
)
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.transport.following import Follower
from mesh.transport.port import Record
from tests.component.in_memory_mesh import CHAIN, Mesh


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


def test_a_queue_that_the_node_would_refuse_is_refused_at_once() -> None:
    """In the node's own words, and nothing is written: who waits for no `refusal` hears too."""
    declared = {**CHAIN, "queues": {"Jobs": {"policy": "home", "home": "b"}}}
    mesh = Mesh(topology_from_mapping(declared))
    client = mesh.client("a")
    for endpoint, policy, noexport, told in (
        ("jobs", QueuePolicy.ANY, False, "queue Jobs is declared with policy home, not any; "),
        ("jobs", None, True, "queue jobs has the policy home: .* cannot be noexport; leave that"),
        ("work", QueuePolicy.ANY, True, "queue work has the policy any: .* cannot be noexport"),
    ):
        with pytest.raises(SubjectError, match=told):
            client.subscribe(
                endpoint, "x", kind=EndpointKind.QUEUE, policy=policy, noexport=noexport
            )
    assert client.subscribed() == {}
    client.subscribe("work", "x", kind=EndpointKind.QUEUE, policy=QueuePolicy.LOCAL, noexport=True)
    with pytest.raises(SubjectError, match="work is a queue with policy local, not any"):
        client.subscribe("work", "y", kind=EndpointKind.QUEUE, policy=QueuePolicy.ANY)
    # It takes the place of the only one, so nothing prevails over it.
    client.subscribe("work", "x", kind=EndpointKind.QUEUE, policy=QueuePolicy.ANY)
    client.wait(client.subscribe("jobs", "x", kind=EndpointKind.QUEUE))
    assert [client.refusal(endpoint) for endpoint in ("jobs", "work")] == [None, None]


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
