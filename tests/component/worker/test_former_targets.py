"""What a running node has sent to a former neighbour ends with the outboxes to it. Spec: K12."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.transport.port import TopicPartition
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.questions import Questions
from mesh.worker.topics.former_targets import FormerTargets
from mesh.worker.topics.left_outboxes import LOOK_MS, LeftOutboxes
from tests.component.admin_faults import AdminFaults
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.worker.conftest import CHAIN

OUTBOXES = ("mesh.a.to.b.g", "mesh.a.to.b.d")
LOOK_S = LOOK_MS // 1000 + 5


def kept(mesh: Mesh) -> set[bytes]:
    """Return the keys under which a keeps something of its outboxes to b."""
    newest: dict[bytes, bytes | None] = {}
    for log in mesh.world.kafka["k"].topics["mesh.a.progress"].logs:
        newest |= {one.key() or b"": one.value() for one in log.entries if one is not None}
    named = tuple(name.encode() for name in OUTBOXES)
    return {
        key
        for key, value in newest.items()
        if value is not None and any(name in key for name in named)
    }


def remembered(mesh: Mesh) -> Sequence[TopicPartition]:
    """Return what the running lanes of a know of these outboxes."""
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    chains = [
        key
        for lane in lanes.owned.values()
        for known in (lane.progress.sent, lane.progress.since, lane.progress.links)
        for key in known
    ]
    return [at for at, _ in chains if at.topic in OUTBOXES]


def delivered(mesh: Mesh) -> Sequence[bytes | None]:
    """Return what came to the endpoint at b."""
    logs = mesh.world.kafka["k"].topics["mesh.b.ep.s"].logs
    return [one.value() for log in logs for one in log.entries if one is not None]


def without_the_link() -> Topology:
    """Return the chain with c in the middle: no link leads from a to b."""
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}
    return topology_from_mapping({**CHAIN, "zones": zones})


def parted() -> Mesh:
    """Return a mesh whose node a has sent messages to b, and has no link to it any more."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "s", ">")
    for _ in range(5):
        mesh.publish("a", "x", b"1")
    mesh.pause(3)
    mesh.change(without_the_link())
    mesh.pause(5)
    return mesh


def delete_outboxes(mesh: Mesh) -> None:
    for topic in OUTBOXES:
        mesh.world.kafka["k"].delete_topic(topic)


def test_it_ends_while_the_worker_runs_once_they_are_seen_to_be_deleted() -> None:
    mesh = parted()
    kafka = mesh.world.kafka["k"]
    mesh.pause(LOOK_S)
    assert kept(mesh), "the link may come back"
    assert remembered(mesh)
    kafka.hidden |= set(OUTBOXES)
    delete_outboxes(mesh)
    mesh.pause(LOOK_S)
    assert kept(mesh), "who may not look knows nothing"
    assert remembered(mesh)
    kafka.hidden -= set(OUTBOXES)
    mesh.pause(LOOK_S)
    assert (kept(mesh), remembered(mesh)) == (set(), [])
    mesh.change(mesh.topology)
    mesh.publish("a", "x", b"2")
    mesh.pause(3)
    assert sorted(delivered(mesh)) == [b"1"] * 5 + [b"2"], "the link begins anew"
    mesh.close()


@pytest.mark.parametrize("kind", [FormerTargets, LeftOutboxes])
def test_an_answer_from_before_a_change_counts_no_more(
    kind: type[FormerTargets | LeftOutboxes],
) -> None:
    """Brokers may take long: meanwhile a link may come back with new outboxes, and go again."""
    mesh = parted()
    lanes = mesh.world.workers["a" if kind is FormerTargets else "b"].lanes
    assert lanes is not None
    parts = kind(lanes, Questions(SteppedErrands(lambda: 2)), due_ms=0)
    kafka = mesh.world.kafka["k"]
    topics = {name: kafka.topics[name] for name in OUTBOXES}
    kafka.faults = faults = AdminFaults()
    delete_outboxes(mesh)
    while not faults.about("describe"):
        parts.look(mesh.now_ms())
    kafka.topics |= topics
    parts.relink()
    while parts.due_ms <= mesh.now_ms():
        parts.look(mesh.now_ms())
    assert all(lane.batch is None for lane in lanes.owned.values())
    mesh.close()
