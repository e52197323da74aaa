"""Who reaches whom under two topologies."""

from __future__ import annotations

from collections.abc import Callable

from mesh.core.reach import compare_reach
from mesh.model.topology import Topology
from tests.unit.core.conftest import FIG36

MeshOf = Callable[..., Topology]


def test_nothing_changes_between_equals(mesh_of: MeshOf) -> None:
    found = compare_reach(mesh_of(*FIG36), mesh_of(*FIG36))
    assert (found.sources, found.moves) == ([], [])


def test_walks_that_move_are_told_by_where_they_differ(mesh_of: MeshOf) -> None:
    after = mesh_of(*FIG36[:3], "WO multi-hop tk1-ny1 tk1-pa1")
    found = compare_reach(mesh_of(*FIG36), after)
    assert found.sources == []
    assert [(str(one.old), str(one.new), one.walks) for one in found.moves] == [
        ("ny1 -WO-> pa1", "ny1 -WO-> tk1 -WO-> pa1", 9),
        ("pa1 -WO-> ny1", "pa1 -WO-> tk1 -WO-> ny1", 9),
        ("pa1 -WO-> ny1 -WO-> tk1", "pa1 -WO-> tk1", 9),
        ("tk1 -WO-> ny1 -WO-> pa1", "tk1 -WO-> pa1", 9),
    ]
    first = found.moves[0]
    assert first.pairs == {node: ["pa1", "pa2", "pa3"] for node in ("ny1", "ny2", "ny3")}
    assert [walk.nodes for walk in first.example] == [("ny1", "pa1"), ("ny1", "tk1", "pa1")]


def test_another_zone_is_another_walk(mesh_of: MeshOf) -> None:
    found = compare_reach(
        mesh_of("Z multi-hop a-b b-c"), mesh_of("Z multi-hop a-b", "Y multi-hop b-c")
    )
    assert {str(one.new) for one in found.moves} == {"b -Y-> c", "c -Y-> b"}
    assert sum(one.walks for one in found.moves) == 4


def test_reach_gained_and_lost(mesh_of: MeshOf) -> None:
    before, after = mesh_of("Z one-hop a-b b-c", "Y one-hop c-d"), mesh_of("Z multi-hop a-b b-c")
    found = {one.source: one for one in compare_reach(before, after).sources}
    assert (found["a"].gained, found["a"].lost) == (("c",), ())
    assert (found["a"].before, found["a"].after) == (1, 2)
    assert (found["b"].gained, found["b"].lost) == ((), ("d",))
    assert (found["d"].before, found["d"].after, found["d"].lost) == (2, None, ("b", "c"))
