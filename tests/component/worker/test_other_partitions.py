"""Only partition 0 of `clients` is read: what stands in another one is told, not unheard. K13."""

from __future__ import annotations

import pytest

from mesh.model.control import EndpointStatus
from mesh.model.words import EndpointWord
from mesh.transport.port import TopicSpec
from mesh.view.mesh_view import MeshView
from mesh.wire.keys import subscription_key
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said


def told(mesh: SmallMesh, node: str = "c") -> dict[str, EndpointStatus]:
    """Return what the node's heartbeat says of its endpoints."""
    view = MeshView(mesh.world.topology, mesh.world.kafka, lambda: mesh.world.clock.ms)
    view.refresh()
    beat = view.nodes[node].heartbeat
    assert beat is not None
    return {one.endpoint: one for one in beat.endpoints}


def ask(mesh: SmallMesh, partition: int, name: str, value: bytes | None = b"{}") -> None:
    """Write what `x/>` is to be for an endpoint at c."""
    key = subscription_key(name, "x/>")
    mesh.write(mesh.names.clients("c"), value, key=key, partition=partition)


@pytest.mark.parametrize("is_made_before", [True, False])
def test_a_subscription_in_another_partition_is_told_and_attracts_nothing(
    said: Said, *, is_made_before: bool
) -> None:
    """A broker made the topic for a producer, or somebody added partitions later."""
    mesh = SmallMesh()
    topic = mesh.names.clients("c")
    if is_made_before:
        mesh.world.kill("c")
        mesh.kafka.delete_topic(topic)
        mesh.kafka.admin().create([TopicSpec(name=topic, partitions=3)])
        ask(mesh, 1, "far")
        mesh.world.start("c")
    else:
        mesh.kafka.grow(topic, 3)
        ask(mesh, 1, "far")
    mesh.run(15_000)
    (line,) = said.of("subscription.unheard")
    assert line["text"] == told(mesh)["far"].reason
    assert told(mesh)["far"].state == EndpointWord.UNHEARD
    assert "x/> is asked for in partition 1 of clients" in line["text"]
    mesh.publish(b"1", [subject("x/1")])
    mesh.run()
    ask(mesh, 0, "far")
    mesh.run()
    assert "far" not in told(mesh)
    mesh.publish(b"2", [subject("x/2")])
    mesh.run()
    found = [one.value() for one in mesh.read(mesh.names.endpoint("c", "far"))]
    assert found == [b"2"]


def test_an_end_in_another_partition_is_told_until_it_is_one() -> None:
    """The subscription is in force still."""
    mesh = SmallMesh()
    mesh.kafka.grow(mesh.names.clients("c"), 2)
    ask(mesh, 0, "far")
    ask(mesh, 1, "far", None)
    mesh.run(15_000)
    assert [*told(mesh)] == ["far"]
    assert "x/> is ended in partition 1 of clients" in told(mesh)["far"].reason
    ask(mesh, 0, "far", None)
    mesh.run()
    assert "far" not in told(mesh)


def test_what_is_told_of_other_partitions_has_a_limit() -> None:
    """Whoever writes there must not fill a node's memory."""
    mesh = SmallMesh({**CHAIN, "maxMessageBytes": 900_000})
    mesh.kafka.grow(mesh.names.clients("c"), 2)
    for number in range(3_000):
        ask(mesh, 1, f"e{number}")
    mesh.run(15_000)
    worker = mesh.world.workers["c"]
    assert worker.machine is not None
    assert len(worker.machine.learner.clients.wanted.elsewhere) == 1_000
    assert len(told(mesh)) > 100
    mesh.publish(b"1", [subject("x/1")])
    mesh.run()
    assert [one.value() for one in mesh.delivered()] == [b"1"]


def test_a_topic_that_was_recreated_with_one_partition_has_no_others() -> None:
    """What stood there is gone, and so is what was told of it."""
    mesh = SmallMesh()
    topic = mesh.names.clients("c")
    mesh.kafka.grow(topic, 2)
    ask(mesh, 1, "far")
    mesh.run(15_000)
    assert "far" in told(mesh)
    mesh.kafka.delete_topic(topic)
    mesh.run(15_000)
    mesh.subscribe("c", "s", ">")
    mesh.run(15_000)
    assert "far" not in told(mesh)
    mesh.publish(b"1", [subject("x/1")])
    mesh.run()
    assert [one.value() for one in mesh.delivered()][-1] == b"1"
