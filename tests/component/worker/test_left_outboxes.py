"""What a lane keeps of a former neighbour ends with that neighbour's topics. Spec: K12."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lane.progress import LeftIn
from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.worker.conftest import CHAIN

OUTBOXES = ("mesh.a.to.b.g", "mesh.a.to.b.d")


def _kept(mesh: Mesh) -> set[bytes]:
    """Return the first words of the keys under which b keeps something of a's outboxes."""
    newest: dict[bytes, bytes | None] = {}
    for log in mesh.world.kafka["k"].topics["mesh.b.progress"].logs:
        newest |= {one.key() or b"": one.value() for one in log.entries if one is not None}
    kept = [key.split() for key, value in newest.items() if value is not None]
    return {words[0] for words in kept if len(words) > 1 and words[1].decode() in OUTBOXES}


def _left(*, direct: bool = False) -> Mesh:
    """Return a mesh whose node b has taken messages of a, and has no link to it any more."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "s", ">")
    for _ in range(5):
        mesh.publish("a", "x", b"1")
        if direct:
            mesh.client("a").publish("x", b"2", message_class=MessageClass.DIRECT)
    mesh.client("a").flush()
    mesh.pause(3)
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}
    mesh.change(topology_from_mapping({**CHAIN, "zones": zones}))
    return mesh


@pytest.mark.parametrize("may_look", [True, False])
def test_it_ends_once_they_are_deleted(*, may_look: bool) -> None:
    """Names of nodes come and go; who may not see whether a topic is there keeps all of it."""
    mesh = _left()
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.pause(65)
    assert {b"source", b"accepted"} <= _kept(mesh), "the link may come back"
    kafka = mesh.world.kafka["k"]
    kafka.hidden |= set() if may_look else set(OUTBOXES)
    for topic in OUTBOXES:
        kafka.delete_topic(topic)
    mesh.pause(65)
    assert bool(_kept(mesh)) != may_look
    mesh.close()


@pytest.mark.parametrize("order", [OUTBOXES, OUTBOXES[::-1]])
def test_both_end_whichever_is_deleted_first(order: tuple[str, str]) -> None:
    """One of direct messages is looked for beside the other; alone it would stay for ever."""
    mesh = _left(direct=True)
    mesh.pause(5)
    for topic in order:
        assert _kept(mesh)
        mesh.world.kafka["k"].delete_topic(topic)
        mesh.pause(65)
    assert _kept(mesh) == set()
    mesh.close()


ABROAD = {
    "kafka": {"near": None, "far": None},
    "nodes": {"a": {"kafka": "far"}, "b": {"kafka": "near"}, "c": {"kafka": "far"}},
}


def _left_abroad() -> Mesh:
    """Return a mesh whose node b has no link to a any more, and reads a's Kafka cluster still."""
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}}
    mesh = Mesh(topology_from_mapping({**ABROAD, "zones": zones}), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "s", ">")
    for _ in range(5):
        mesh.publish("a", "x", b"1")
    mesh.pause(6)
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}
    mesh.change(topology_from_mapping({**ABROAD, "zones": zones}))
    return mesh


def _kept_abroad(mesh: Mesh) -> dict[TopicPartition, str]:
    """Return what b keeps of a's outboxes, with the identity of their Kafka cluster."""
    return {at: kafka.cluster_id for at, kafka in _unlinked(mesh).items()}


def _unlinked(mesh: Mesh) -> dict[TopicPartition, LeftIn]:
    return mesh.world.workers["b"].lanes.owned[0].progress.unlinked


def _forget_where_they_are(mesh: Mesh) -> None:
    """As a former layout of the record leaves it."""
    left = _unlinked(mesh)
    left.update({at: LeftIn(kafka.kafka) for at, kafka in left.items()})


def test_another_kafka_cluster_that_has_come_to_the_name_says_nothing() -> None:
    """If the link came back to the former one, all that is in the outboxes would come twice."""
    mesh = _left_abroad()
    for topic in OUTBOXES:
        mesh.world.kafka["far"].delete_topic(topic)
    mesh.world.kafka["far"].name = "another"
    mesh.pause(130)
    assert set(_kept_abroad(mesh).values()) == {"memory-far"}
    mesh.world.kafka["far"].name = "far"
    mesh.pause(65)
    assert _kept_abroad(mesh) == {}
    mesh.close()


def test_where_outboxes_are_is_learned_from_their_topic_ids() -> None:
    """Whoever takes a lane after its links were removed does not know in which they were read."""
    mesh = _left_abroad()
    _forget_where_they_are(mesh)
    mesh.pause(65)
    assert set(_kept_abroad(mesh).values()) == {"memory-far"}
    _forget_where_they_are(mesh)
    for topic in OUTBOXES:
        mesh.world.kafka["far"].delete_topic(topic)
    mesh.pause(65)
    assert set(_kept_abroad(mesh).values()) == {""}, "nobody knows whether it is that one"
    mesh.close()
