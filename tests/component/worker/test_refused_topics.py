"""A node starts without a topic that brokers refuse, if it can serve anybody without it.

Spec: DESIGN 4.6, R12.
"""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportDeniedError
from mesh.transport.memory import MemoryKafka
from mesh.trees.settings import Settings
from mesh.worker.topics.provision import make_node_topics
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said

REFUSAL = "Broker: Policy Violation"


def restart_without(mesh: SmallMesh, topic: str) -> None:
    """Start b anew: a topic of it is gone, and may not be made."""
    mesh.kafka.refused[topic] = REFUSAL
    mesh.world.kill("b")
    mesh.kafka.delete_topic(topic)
    mesh.world.start("b")
    mesh.run(30_000)


def sent(mesh: SmallMesh, value: bytes) -> None:
    mesh.publish(value, [subject("x")])
    mesh.run(8_000)


@pytest.mark.parametrize(
    "topic",
    [
        *("mesh.b.to.a.g", "mesh.b.to.a.d", "mesh.b.to.a.c", "mesh.b.to.a.t"),
        *("mesh.b.in.g", "mesh.b.in.d", "mesh.b.clients", "mesh.b.control.log"),
        *("mesh.b.roles", "mesh.b.sends"),
    ],
)
def test_a_refused_topic_costs_what_it_is_for(said: Said, topic: str) -> None:
    """Messages cross the node; once brokers allow the topic, it is there and in use."""
    mesh = SmallMesh(trees=Settings())
    restart_without(mesh, topic)
    sent(mesh, b"1")
    assert [one.value() for one in mesh.delivered()] == [b"1"]
    assert {one["topic"] for one in said.of("topic.refused")} == {topic}
    mesh.kafka.refused.clear()
    mesh.run(70_000)
    assert topic in mesh.kafka.topics
    mesh.subscribe("b", "own", ">")
    mesh.subscribe("a", "here", ">")
    mesh.run(8_000)
    mesh.write("mesh.b.in.g", b"2", headers=[subject("x")])
    sent(mesh, b"3")
    for endpoint in ("mesh.a.ep.here", "mesh.b.ep.own", "mesh.c.ep.s"):
        assert {one.value() for one in mesh.read(endpoint)} >= {b"2", b"3"}


@pytest.mark.parametrize(
    "topic", ["mesh.b.control", "mesh.b.learned", "mesh.b.ledger", "mesh.b.dlq"]
)
def test_a_node_that_could_serve_nobody_says_so(mesh: SmallMesh, topic: str) -> None:
    with pytest.raises(TransportDeniedError, match=f"{topic}: {REFUSAL}"):
        restart_without(mesh, topic)


def test_a_new_node_without_progress_says_so() -> None:
    """One that has lived is another matter: its progress was deleted, and people decide."""
    kafka = MemoryKafka("k")
    kafka.refused["mesh.b.progress"] = REFUSAL
    with pytest.raises(TransportDeniedError, match=f"mesh.b.progress: {REFUSAL}"):
        make_node_topics(kafka.admin(), topology_from_mapping(CHAIN), "b")
