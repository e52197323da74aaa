"""What a changed mesh owes by other rules on the way: the lanes tell who they know by these."""

from __future__ import annotations

from pathlib import Path

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.streaming.plain_bench import PlainBench
from tests.sim.test_other_files import apply
from tests.streaming.drawn import copy_of
from tests.streaming.planted import Plant


def chain(**more: object) -> Topology:
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "d"]]}}
    nodes = {name: {"partitions": 1} for name in "abd"}
    return topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones, **more})


def test_a_loss_is_told_after_the_rules_on_the_way_have_changed(tmp_path: Path) -> None:
    """Nobody had subscribed since: it was owed to nobody, and certified. Spec: K25, K28."""
    before, after = chain(interest=[{"node": "b", "local": "acme/private/>"}]), chain()
    mesh = Mesh(before)
    put_in_force(1, before, mesh.world.kafka)
    mesh.pause(3)
    mesh.subscribe("d", "s", "acme/>")
    mesh.publish("a", "acme/x")
    mesh.pause(3)
    assert apply(mesh, after).is_in_force
    for number in range(3):
        mesh.publish("a", f"acme/{number}")
    mesh.pause(5)
    plant = Plant()
    ids = copy_of(mesh, plant)
    mesh.close()
    bench = PlainBench(
        None, plant, tmp_path, before, ids=dict(ids), kafkas=("k",), home=lambda _: "k"
    )
    endpoint = plant.logs["mesh.d.ep.s", 0]
    (last,) = [number for number, one in enumerate(endpoint) if one is not None][-1:]
    endpoint[last] = None
    assert bench.settle() == ["missing"]
