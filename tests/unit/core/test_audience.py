"""Whose messages endpoints gain and lose, by walks and where nodes keep subjects local."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.audience import EndpointFilter
from mesh.core.reach import compare_reach
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.topology import Topology
from tests.sim.meshes import random_legal_topology

MeshOf = Callable[..., Topology]

PLAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    }
)
PART = EndpointFilter("c", "part", "acme/private/x")
MORE = EndpointFilter("c", "more", "acme/>")


def with_local(topology: Topology, node: str, filter_: str) -> Topology:
    return replace(topology, interest=(InterestControl(node, ControlKind.LOCAL, filter_),))


def test_endpoints_gain_and_lose_publishers(mesh_of: MeshOf) -> None:
    before, after = mesh_of("Z one-hop a-b b-c", "Y one-hop c-d"), mesh_of("Z multi-hop a-b b-c")
    subscriptions = [
        EndpointFilter("c", "e", "x/>"),
        EndpointFilter("d", "f", "x/>"),
        EndpointFilter("b", "g", "y"),
    ]
    found = compare_reach(before, after, subscriptions).audience
    assert [(one.subscription.node, one.gains, one.loses) for one in found] == [
        ("b", (), ("d",)),
        ("c", ("a",), ("d",)),
        ("d", (), ("b", "c", "d")),
    ]


@pytest.mark.parametrize(("node", "loses"), [("a", ("a",)), ("b", ("a", "b")), ("c", ("a", "b"))])
def test_what_becomes_local_on_the_way_is_lost(node: str, loses: tuple[str, ...]) -> None:
    """And gained again when it becomes global; what arrives in part is not listed. Spec: EMS-11."""
    local = with_local(PLAIN, node, "acme/private/>")
    [lost] = compare_reach(PLAIN, local, [PART, MORE]).audience
    assert (lost.subscription, lost.gains, lost.loses) == (PART, (), loses)
    [gained] = compare_reach(local, PLAIN, [PART, MORE]).audience
    assert (gained.subscription, gained.gains, gained.loses) == (PART, loses, ())


def test_what_is_local_elsewhere_changes_nothing() -> None:
    local = with_local(PLAIN, "d", "acme/private/>")
    found = compare_reach(PLAIN, local, [PART, MORE])
    assert (found.audience, found.copies) == ([], [])


@pytest.mark.parametrize("seed", range(40))
def test_what_is_kept_local_and_nobody_wants_decides_nothing(seed: int) -> None:
    """Filters are then looked at one by one, and come to what walks alone say."""
    rng = random.Random(f"heard {seed}")
    before, after = (random_legal_topology(rng, nodes_max=5, joined=True) for _ in range(2))
    subscriptions = [EndpointFilter(node, "e", ">") for node in before.nodes]
    there = [with_local(one, min(one.nodes), "nobody/wants/it") for one in (before, after)]
    assert compare_reach(*there, subscriptions) == compare_reach(before, after, subscriptions)


def test_copies_are_counted_by_filter(mesh_of: MeshOf) -> None:
    """Links that walks share are crossed once; what is wanted at its source crosses none."""
    before = mesh_of("Z multi-hop a-b b-c b-d")
    after = mesh_of("Z multi-hop a-b b-d d-c")
    subscriptions = [
        EndpointFilter("c", "e", "x"),
        EndpointFilter("d", "e", "x"),
        EndpointFilter("c", "e", "z"),
        EndpointFilter("b", "e", "y"),
    ]
    copies = compare_reach(before, after, subscriptions).copies
    assert {one.filter: one.copies for one in copies} == {
        "x": {"c": (2, 1), "d": (2, 1)},
        "y": {"c": (1, 2)},
        "z": {"a": (2, 3), "b": (1, 2), "d": (2, 1)},
    }
