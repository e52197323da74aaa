"""A client follows the topology in force, and is told where its node has left it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mesh.client import (
    LaggardsError,
    MeshClient,
    NodeGoneError,
    SubjectError,
)
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Acknowledgement, Heartbeat, LinkStatus
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import node_topics
from mesh.wire.control import encode_acknowledgement, encode_heartbeat
from mesh.wire.keys import heartbeat_key, subscribed_key
from tests.component.in_memory_mesh import CHAIN, Mesh, put_in_force


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
