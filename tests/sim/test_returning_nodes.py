"""A node leaves the mesh with all that it kept, and another one comes under its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.port import Record
from mesh.worker.control.control_writer import read_learned
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.sim.queue_stage import ANY, CHAIN, Stage


def chain(*nodes: str) -> Topology:
    """These nodes of the chain, which has a queue for any of them."""
    declared: Mapping[str, object] = CHAIN["nodes"]  # type: ignore[assignment]
    links = [list(pair) for pair in pairwise(nodes)]
    zones = {"Z": {"kind": "multi-hop", "links": links}}
    kept = {node: declared[node] for node in nodes}
    return topology_from_mapping({**CHAIN, **ANY, "nodes": kept, "zones": zones})


@pytest.fixture
def stage() -> Iterator[Stage]:
    mesh = Mesh(chain(*"prst"), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    yield Stage(mesh)
    mesh.close()


def replace_t(stage: Stage, *, forgets_all: bool = False) -> None:
    """Take t out of the mesh with its topics, and bring another one.

    Args:
        stage: The mesh.
        forgets_all: Whether nothing at all is left of it, so that its epochs begin anew.
    """
    mesh, whole = stage.mesh, chain(*"prst")
    mesh.change(chain(*"prs"), allow_delete=True)
    mesh.pause(15)  # it is stopped a little later
    mesh.world.stop("t")
    for kafka in mesh.world.kafka.values():
        for topic in [one for one in kafka.topics if one.startswith("mesh.t.")]:
            if forgets_all:
                kafka.delete_topic(topic)
    mesh.pause(2)
    mesh.world.start("t")
    mesh.pause(3)
    mesh.change(whole)


def records(stage: Stage, topic: str) -> list[Record]:
    [found] = [one for kafka in stage.mesh.world.kafka.values() if (one := kafka.topics.get(topic))]
    return [record for log in found.logs for record in log.entries if record is not None]


def test_what_it_publishes_is_of_no_earlier_epoch_of_a_lane(stage: Stage) -> None:
    """Lanes of the former one had been taken more often than its own. Spec: K18."""
    mesh = stage.mesh
    mesh.subscribe("s", "e", "x/>")
    for _ in range(3):
        mesh.world.kill("t")
        mesh.world.start("t")
        mesh.pause(4)
    publish_direct(mesh)
    assert len(records(stage, "mesh.s.ep.e")) == 1
    replace_t(stage)
    publish_direct(mesh)
    assert len(records(stage, "mesh.s.ep.e")) == 2


def publish_direct(mesh: Mesh) -> None:
    client = mesh.client("t")
    client.publish("x/1", b"", message_class=MessageClass.DIRECT)
    client.flush()
    mesh.pause(3)


@pytest.mark.parametrize("restarts", [0, 2])
def test_messages_of_a_queue_move_to_it(stage: Stage, restarts: int) -> None:
    """It asks for nothing that was moved to the former one, which nobody has. Spec: K11, G14.

    Nor do its beats count for less than those of the former one, which may have been many epochs.
    """
    for _ in range(restarts):
        stage.mesh.world.kill("t")
        stage.mesh.world.start("t")
        stage.mesh.pause(4)
    stage.queue("s", "t")
    stage.consume("t")
    stage.publish("s", 40)
    stage.until_all()
    stage.leave("t")
    replace_t(stage, forgets_all=restarts > 0)
    stage._clients.pop("t")
    stage.queue("t")
    stage.publish("s", 20)
    stage.consume("t")
    stage.until_all()
    assert stage.by_node() == {"t": 60}


def test_nothing_is_kept_of_what_the_former_one_wanted(stage: Stage) -> None:
    """A start without the new one would have messages wait that it never wanted. Spec: K21, K28."""
    mesh = stage.mesh
    for _ in range(2):  # what the former one wanted has later versions
        mesh.world.kill("t")
        mesh.world.start("t")
        mesh.pause(4)
    for number in range(3):  # one after the other: each has a record of its own
        mesh.subscribe("t", "e", f"x/{number}")
    mesh.pause(4)
    replace_t(stage, forgets_all=True)
    mesh.subscribe("t", "e", "y")
    mesh.pause(4)
    learned = read_learned(records(stage, "mesh.s.learned"), "t")
    assert {filter_ for filters in learned.values() for filter_ in filters} == {"y"}
