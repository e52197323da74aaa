"""A Kafka cluster is lost with all that was in it, and made again empty. Spec: K12, R6, DESIGN 6.

Its node begins anew in the middle of the mesh, under the same name and topology.
"""

from __future__ import annotations

from collections import Counter

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.wire.control import encode_stop
from mesh.wire.keys import accept_key
from tests.component.in_memory_mesh import Mesh, put_in_force

CHAIN = {
    "kafka": {"left": None, "middle": None, "right": None},
    "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "middle"}, "c": {"kafka": "right"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}
ENDS = {"a": "left", "c": "right"}


def publish(mesh: Mesh, words: list[str]) -> None:
    """Have both ends publish each word, guaranteed and direct."""
    for word in words:
        for node in ENDS:
            for kind in MessageClass:
                payload = f"{word} of {node} {kind}".encode()
                mesh.client(node).publish("x", payload, message_class=kind)
            mesh.client(node).flush()


def delivered(mesh: Mesh, node: str) -> Counter[bytes]:
    """Return what the endpoint of an end has got, without announcements of losses."""
    logs = mesh.world.kafka[ENDS[node]].topics[f"mesh.{node}.ep.s"].logs
    records = [one for log in logs for one in log.entries if one is not None]
    return Counter(value for one in records if (value := one.value()) is not None)


def accept_all(mesh: Mesh) -> int:
    """Accept what stopped, as an operator does; return how much that is."""
    view = mesh.view()
    view.refresh()
    stops = [(node, stop) for node in ENDS for stop in view.nodes[node].stops.values()]
    view.close()
    for node, stop in stops:
        writer = mesh.world.kafka[ENDS[node]].writer("operator")
        writer.produce(
            "mesh.config", encode_stop(stop), accept_key(node, stop.topic, stop.partition), 0
        )
        writer.flush()
    return len(stops)


@pytest.mark.parametrize("is_in_force", [False, True])
def test_what_others_keep_arrives_once_through_a_node_whose_kafka_was_rebuilt(
    is_in_force: bool,
) -> None:
    """Its neighbours stop at its outboxes first: what was in them may be lost, and they ask."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    if is_in_force:
        put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    for node in ENDS:
        mesh.subscribe(node, "s", ">")
    for _ in range(3):  # what neighbours know of its lane is higher than what it begins with again
        mesh.world.kill("b")
        mesh.world.start("b")
        mesh.pause(10)
    publish(mesh, ["1", "2", "3"])
    mesh.pause(5)
    mesh.world.kill("b")
    publish(mesh, ["4", "5", "6"])
    middle = mesh.world.kafka["middle"]
    for topic in list(middle.topics):
        middle.delete_topic(topic)
    mesh.world.start("b")
    mesh.pause(40)
    assert accept_all(mesh) > 0
    mesh.pause(40)
    publish(mesh, ["7", "8", "9"])
    mesh.pause(20)
    sent = {node: [f"{n} of {node}" for n in range(1, 10)] for node in ENDS}
    for node in ENDS:
        found = delivered(mesh, node)
        owed = [f"{word} {MessageClass.GUARANTEED}" for words in sent.values() for word in words]
        assert [one for one in owed if found[one.encode()] != 1] == []
        assert max(found.values()) == 1
        assert {one for one in found if one.startswith((b"7", b"8", b"9"))} == {
            f"{number} of {origin} {kind}".encode()
            for number in (7, 8, 9)
            for origin in ENDS
            for kind in MessageClass
        }
    mesh.close()
