"""A new node that was started by a file which says otherwise of it than the target. K2, K14, K28."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import NotBegunError
from mesh.model.topology import Topology
from mesh.operate.changes.begin import begin_change, read_begun
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import ChangeOutcome, MeshToChange
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.changes.proposal import plan_on_mesh
from mesh.operate.status import observe
from tests.component.in_memory_mesh import Mesh, put_in_force


def chain(*links: str, **of_d: int) -> Topology:
    """Return a chain of nodes, with what is said of the last one."""
    nodes = sorted({one for link in links for one in link.split("-")})
    spec = {
        "kafka": {"k": {}},
        "nodes": {node: of_d if node == "d" else {} for node in nodes},
        "zones": {"Z": {"kind": "multi-hop", "links": [link.split("-") for link in links]}},
    }
    return topology_from_mapping(spec)


def apply(mesh: Mesh, after: Topology) -> ChangeOutcome:
    """Put a topology in force; its new node is started once all is planned."""
    kafka, view = mesh.world.kafka, mesh.view()
    found, _ = read_in_force(kafka, "mesh.")
    assert found is not None
    view.refresh()
    means = MeshToChange(
        in_force=found,
        topology=found.topology,
        kafka=kafka,
        view=view,
        beats=observe(view, mesh.time),
        time=mesh.time,
        tell=print,
    )
    plan_on_mesh(means, found, after, str)
    if "d" not in mesh.world.workers:
        mesh.world.start("d")
    with FollowedLaneReports.begun(found.topology, kafka, mesh.now_ms) as reports:
        change = begin_change(means, reports, after, read_begun(kafka, "mesh."))
        return change.run(60, 60)


@pytest.mark.parametrize("of_d", [{"lanes": 2}, {"partitions": 8}, {"partitions": 2}])
def test_it_is_told_before_anything_is_written(of_d: dict[str, int]) -> None:
    """By the topology in force it could not start again, or not write its own topics."""
    mesh = Mesh(chain("a-b"))
    put_in_force(1, mesh.topology, mesh.world.kafka)
    mesh.pause(3)
    mesh.world.apart["d"] = chain("a-b", "b-d", **of_d)
    [(what, number)] = of_d.items()
    with pytest.raises(NotBegunError, match=rf"node d was made with .* write `{what}: {number}`"):
        apply(mesh, chain("a-b", "b-d"))
    mesh.topology = chain("a-b", "b-d", **of_d)
    assert apply(mesh, mesh.topology).is_in_force
    mesh.world.kill("d")
    mesh.world.start("d")
    mesh.subscribe("d", "s", ">")
    for number in range(10):
        mesh.publish("a", f"x/{number}")
    mesh.pause(5)
    logs = mesh.world.kafka["k"].topics["mesh.d.ep.s"].logs
    assert sum(record is not None for log in logs for record in log.entries) == 10
