"""Who is in an exclusive zone is in no other; a cluster is one member of it."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.legality import judge
from mesh.errors import ConfigError

U = {"kind": "one-hop", "nodes": ["c1", "u1", "u2"], "exclusive": True}
C = {"kind": "cluster", "nodes": ["c1", "c2", "c3"]}


def spec(**zones: object) -> dict[str, object]:
    nodes = {name: {} for name in ("c1", "c2", "c3", "u1", "u2", "v1", "v2")}
    return {"kafka": {"k": {}}, "nodes": nodes, "zones": zones}


def refused(**zones: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(spec(**zones))
    assert {one.code for one in caught.value.problems} == {"EXCLUSIVE"}
    return [one.line().removesuffix(" [EXCLUSIVE]") for one in caught.value.problems]


def test_a_cluster_is_a_member_by_one_of_its_nodes() -> None:
    """Its fellows are linked to it and to nobody else. Spec: UM-9, DESIGN 3."""
    topology = topology_from_mapping(spec(C=C, U=U))
    assert list(judge(topology)) == []


def test_two_ways_into_the_cluster_are_two_walks() -> None:
    """So one copy enters it. Spec: UM-9, DESIGN 3."""
    both = {**U, "nodes": ["c1", "c2", "u1"]}
    problems = judge(topology_from_mapping(spec(C=C, U=both)))
    assert {problem.code for problem in problems} == {"TWO_WALKS"}


def test_a_node_and_a_cluster_are_in_one_zone_at_most() -> None:
    """However many of its nodes are elsewhere, it is one line. Spec: UM-8, UM-9."""
    v = {"kind": "multi-hop", "links": [["c2", "v1"], ["c3", "v1"]]}
    cluster = (
        "and its cluster C is by c1 a member of zone U, which is exclusive: remove it from one"
    )
    assert refused(C=C, U=U, V=v) == [f"zones.V.links[0][0]: node c2 is in zone V, {cluster}"]
    exclusive = {**v, "exclusive": True}
    [line] = refused(C=C, U=U, V=exclusive)
    assert line == f"zones.V.links[0][0]: node c2 is in zone V, {cluster}"
    [line] = refused(U=U, V={"kind": "one-hop", "nodes": ["u2", "v2"]})
    assert line.startswith("zones.V.nodes[0]: node u2 is in zone V and in zone U, which is")


def test_joins_do_not_count_and_zones_that_are_not_exclusive_neither() -> None:
    """Spec: UM-5, UM-8."""
    join = {"kind": "join", "from": "c2", "to": "v1"}
    free = {"kind": "multi-hop", "links": [["v1", "v2"]]}
    assert topology_from_mapping(spec(C=C, U=U, J=join, F=free)).joins
    plain = {**U, "exclusive": False}
    topology_from_mapping(spec(C=C, U=plain, V={"kind": "external", "links": [["c2", "v1"]]}))


def test_an_exclusive_cluster_is_a_member_of_nothing() -> None:
    """It is a zone itself, and says that its nodes are in no other. Spec: UM-8, UM-9."""
    [line] = refused(C={**C, "exclusive": True}, U=U)
    assert "node c1 is in zone U and in zone C, which is exclusive" in line


@pytest.mark.parametrize("zone", [None, 3, [], {"kind": [], "exclusive": "yes"}])
def test_zones_of_any_shape_are_no_traceback(zone: object) -> None:
    with pytest.raises(ConfigError):
        topology_from_mapping(spec(C=zone, U=U))
