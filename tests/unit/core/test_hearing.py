"""Whose messages endpoints gain and lose where nodes keep subjects local."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.audience import EndpointFilter, compare_audience
from mesh.core.hearing import compare_heard
from mesh.core.reach import compare_reach
from mesh.model.controls import ControlKind, InterestControl
from mesh.model.topology import Topology
from tests.sim.meshes import random_legal_topology

PLAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    }
)
PART = EndpointFilter("c", "part", "acme/private/x")
MORE = EndpointFilter("c", "more", "acme/>")


def local_at(node: str) -> Topology:
    control = InterestControl(node, ControlKind.LOCAL, "acme/private/>")
    return replace(PLAIN, interest=(control,))


@pytest.mark.parametrize(("node", "loses"), [("a", ("a",)), ("b", ("a", "b")), ("c", ("a", "b"))])
def test_what_becomes_local_on_the_way_is_lost(node: str, loses: tuple[str, ...]) -> None:
    """And gained again when it becomes global; what comes in part is not told. Spec: EMS-11."""
    [lost] = compare_heard([PART, MORE], PLAIN, local_at(node))
    assert (lost.subscription, lost.gains, lost.loses) == (PART, (), loses)
    [gained] = compare_heard([PART, MORE], local_at(node), PLAIN)
    assert (gained.subscription, gained.gains, gained.loses) == (PART, loses, ())


def test_what_is_local_elsewhere_changes_nothing() -> None:
    assert compare_heard([PART, MORE], PLAIN, local_at("d")) == []


@pytest.mark.parametrize("seed", range(40))
def test_without_controls_walks_alone_decide(seed: int) -> None:
    rng = random.Random(f"heard {seed}")
    before, after = (random_legal_topology(rng, nodes_max=5, joined=True) for _ in range(2))
    nodes = sorted({**before.nodes, **after.nodes})
    subscriptions = [EndpointFilter(node, "e", ">") for node in nodes if node in before.nodes]
    told = compare_heard(subscriptions, before, after)
    assert told == compare_audience(subscriptions, compare_reach(before, after), after)
