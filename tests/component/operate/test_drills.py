"""Drills: only where they are allowed, on their own endpoint, and in the records that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mesh.config.published import published_text, published_topology
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError, TransportUnavailableError
from mesh.model.topology import Topology
from mesh.operate.audit.drills import (
    DrillKind,
    ends_of,
    is_of_drill,
    refuse_unless_allowed,
)
from mesh.operate.audit.planting import Planter
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs
from mesh.view.messages import received
from tests.component.in_memory_mesh import CHAIN, Mesh

ALLOWED = topology_from_mapping({**CHAIN, "drills": "allowed"})


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(ALLOWED)
    made.pause(3)
    yield made
    made.close()


def planter_of(mesh: Mesh) -> Planter:
    view = mesh.view()
    view.refresh()
    view.close()
    return Planter(mesh.seen(view))


def test_a_topology_says_whether_drills_are_allowed() -> None:
    """It is published as any other setting; left out, they are refused."""
    assert published_topology(published_text(ALLOWED)).allows_drills
    refuse_unless_allowed(ALLOWED)
    plain = topology_from_mapping(CHAIN)
    assert "drills" not in published_text(plain)
    with pytest.raises(ConfigError, match="allows no drills; put `drills: allowed` under spec"):
        refuse_unless_allowed(plain)
    with pytest.raises(ConfigError, match="drills"):
        topology_from_mapping({**CHAIN, "drills": "sometimes"})


def test_ends_are_two_nodes_that_messages_get_between() -> None:
    """Neighbours where nobody says; else any two with a way between them."""
    assert ends_of(ALLOWED, None, None) == ("a", "b")
    assert ends_of(ALLOWED, "c", None) == ("c", "b")
    assert ends_of(ALLOWED, None, "c") == ("a", "c")
    for pair in (("x", None), (None, "x"), ("a", "a")):
        with pytest.raises(ConfigError):
            ends_of(ALLOWED, *pair)


@pytest.mark.parametrize("drill", DrillKind)
def test_an_application_gets_nothing_of_a_drill(mesh: Mesh, drill: DrillKind) -> None:
    """What it writes stands where it says; the mesh goes on, and its endpoint can be had again."""
    mesh.subscribe("c", "s", "acme/>")
    planter = planter_of(mesh)
    planted = planter.plant(drill, "a", "c")
    assert planted.endpoint == f"c/drill-{drill.value}"
    assert is_of_drill({"endpoint": planted.endpoint})
    right = mesh.world.kafka["right"]
    home = mesh.world.kafka["left"] if drill is DrillKind.LOSS else right
    for place, offset in planted.records:
        records = {one.offset(): one for one in read_logs(home, [place])}
        if drill is not DrillKind.LOSS:
            assert received(records[offset]).subject.startswith(f"drill/{drill.value}/")
        assert offset in records
    mesh.publish("a", "acme/x")
    mesh.pause(2)
    places = [TopicPartition("mesh.c.ep.s", number) for number in range(4)]
    assert [received(one).subject for one in read_logs(right, places)] == ["acme/x"]
    planter.clear(drill, "c")
    mesh.pause(1)
    view = mesh.view()
    view.refresh()
    assert [name for name, _ in view.nodes["c"].subscriptions] == ["s"]
    view.close()
    again = planter.plant(drill, "a", "c")
    assert again.message != planted.message


def test_a_mesh_that_does_not_its_part_is_named(mesh: Mesh) -> None:
    """A node that is down passes nothing: told after a minute, in one line."""
    planter = planter_of(mesh)
    mesh.world.stop("a")
    with pytest.raises(TransportUnavailableError, match="waited 60 s for a to pass two messages"):
        planter.plant(DrillKind.DUPLICATE, "a", "c")
    nowhere = Planter(replace(planter.mesh, topology=with_another()))
    with pytest.raises(TransportUnavailableError, match="does not exist: start node z"):
        nowhere.plant(DrillKind.DUPLICATE, "z", "a")


def with_another() -> Topology:
    """Return the topology with a node that never ran."""
    nodes = {"a": {"kafka": "left"}, "z": {"kafka": "left"}}
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "z"]]}}
    return topology_from_mapping({**CHAIN, "nodes": nodes, "zones": zones})
