"""What lanes keep of deleted topics on links that remain, counted, and how it ends. Spec: K12."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.operate.doctor import Category, examine
from mesh.operate.links.former_neighbours import FormerNeighbour, outboxes_left
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicSpec
from mesh.view.lane_reports import read_report
from mesh.view.mesh_view import MeshView, RunningMesh
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.operate.examined import examination

SPEC: Mapping[str, object] = {
    "kafka": {"k": None},
    "nodes": {node: {"kafka": "k"} for node in ("guest", "a", "b")},
}


def linked(*links: str) -> Topology:
    """Return the mesh with these links."""
    zone = {"kind": "multi-hop", "links": [one.split("-") for one in links]}
    return topology_from_mapping({**SPEC, "zones": {"Z": zone}})


def kept(mesh: Mesh) -> int:
    """Return what the doctor counts at node a."""
    checks = examine(examination(mesh), [Category.LANES])
    [found] = [one for one in checks if one.description == "lanes of a keep little of what is gone"]
    return found.figures["deleted_topics"]


def accepted(mesh: Mesh) -> int:
    """Return how many chains of its neighbour b keeps."""
    report = read_report(mesh.topology, mesh.world.kafka, "b")
    return len([key for _, key in report.of_topics if key.startswith(b"accepted ")])


def test_a_link_that_is_made_anew_keeps_nothing_of_deleted_topics() -> None:
    """As operations.md says: taken away with its topics, workers started again, brought back."""
    mesh = Mesh(linked("guest-a", "a-b"), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "e", ">")
    for number in range(8):
        mesh.publish("guest", "x", b"guest %d" % number)
        mesh.publish("a", "x", b"before %d" % number)
    mesh.pause(3)
    assert kept(mesh) == 0
    mesh.change(linked("a-b"), allow_delete=True)
    mesh.pause(65)
    of_guest = kept(mesh)
    assert of_guest > 0, "a frame of the guest may be on the link still"
    assert accepted(mesh) > of_guest
    mesh.change(linked("guest-a"), allow_delete=True)
    mesh.pause(65)
    assert accepted(mesh) == 0
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.pause(15)
    mesh.change(linked("a-b"))
    mesh.pause(5)
    assert kept(mesh) == 0
    for number in range(8):
        mesh.publish("a", "x", b"after %d" % number)
    mesh.pause(3)
    logs = mesh.world.kafka["k"].topics["mesh.b.ep.e"].logs
    got = sorted(one.value() or b"" for log in logs for one in log.entries if one is not None)
    words = ("after", "before", "guest")
    assert got == [f"{word} {number}".encode() for word in words for number in range(8)]
    mesh.close()


def test_whether_outboxes_are_gone_is_seen_in_the_kafka_cluster_where_they_were() -> None:
    """Its name may be another's by now, or it may have another name. Spec: K4."""
    topology = linked("a-b")
    here, there = MemoryKafka("here"), MemoryKafka("there")
    there.admin().create([TopicSpec(name="mesh.guest.to.a.g", partitions=1)])
    former = FormerNeighbour("a", "guest", "k", "memory-there", 1, ())
    found = {"mesh.guest.to.a.g": "renamed"}
    view = MeshView(topology, {}, lambda: 0)
    seen = RunningMesh(topology=topology, kafka={}, view=view, beats={})
    assert outboxes_left(seen.asking({"k": here}), former) is None
    assert outboxes_left(seen.asking({"k": here, "renamed": there}), former) == found
    assert outboxes_left(seen.asking({"k": there}), replace(former, cluster_id="")) == {
        "mesh.guest.to.a.g": "k"
    }
    there.delete_topic("mesh.guest.to.a.g")
    assert outboxes_left(seen.asking({"k": here, "renamed": there}), former) == {}
    assert outboxes_left(seen.asking({"k": there}), replace(former, cluster_id="")) is None
