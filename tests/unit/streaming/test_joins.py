"""Joins as the auditor sees them: ways, paths, and what cannot come. Spec: DESIGN 3, K31."""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Subscription
from mesh.model.findings import FindingKind
from mesh.model.state import Cut
from streaming.audits.claims import Level
from streaming.audits.eras import Eras
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.paths import LinkPlan
from streaming.audits.spans import claims_on
from streaming.audits.ways import Ways
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.meshes import naive_ways, random_legal_topology
from tests.unit.streaming.claimed import level_for

PLACE = TopicPartition("mesh.f.in.g", 0)
EXAMPLE = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {node: {} for node in "abcdef"},
        "zones": {
            "A": {"kind": "one-hop", "nodes": ["a", "b", "c"]},
            "B": {"kind": "one-hop", "nodes": ["d", "e", "f"]},
            "DB": {"kind": "join", "from": "d", "to": "b", "filter": "acme/>", "hops": 1},
        },
    }
)


def test_filters_between_nodes_are_those_of_the_joins_on_the_way() -> None:
    """Spec: K31, UM-5."""
    ways = Ways(EXAMPLE)
    assert list(ways.between("f", "a").joins) == ["acme/>"]
    assert list(ways.between("f", "e").joins) == []
    assert ways.between("a", "f") is None, "a join leads one way"


@pytest.mark.parametrize("seed", range(60))
def test_ways_agree_with_the_words_of_the_design(seed: int) -> None:
    """Found from the other end. Spec: DESIGN 3, UM-10."""
    topology = random_legal_topology(random.Random(f"ways {seed}"), joined=True)
    ways = Ways(topology)
    for origin in topology.nodes:
        for way in naive_ways(topology, origin):
            filters = [one for one in way.filters if one is not None]
            assert list(ways.between(origin, way.nodes[-1]).joins) == filters


def test_what_a_join_does_not_select_is_claimed_by_nobody_behind_it() -> None:
    """Spec: K31."""
    interest = SubscriptionHistory()
    interest.subscribe(EndpointKey("a", "s"), ">", Subscription(), 0)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 5, "u", 0))
    claims = claims_on(
        interest,
        EndpointKey("a", "s"),
        "u",
        PLACE,
        SourceKey("aa", 0),
        is_local=False,
        carriers=lambda *_: [],
        stretches=Eras.of(EXAMPLE).stretches(PLACE, "f", "a"),
    )
    assert level_for(claims, "acme/1", 5, 9) is Level.MUST
    assert level_for(claims, "other", 5, 9) is Level.NONE


def test_a_path_goes_over_joins_in_their_direction() -> None:
    """Spec: UM-5, DESIGN 7."""
    plan = LinkPlan.of(EXAMPLE)
    assert plan.fault_of_path("fdba") is None
    assert plan.fault_of_path("abd") is not None


def test_a_path_has_no_more_joins_in_a_row_than_each_of_them_allows() -> None:
    """Spec: UM-10, DESIGN 7."""
    zones = {
        f"J{n}": {"kind": "join", "from": f"n{n}", "to": f"n{n + 1}", "hops": 3 - n}
        for n in range(3)
    }
    nodes = {f"n{n}": {} for n in range(4)}
    plan = LinkPlan.of(topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones}))
    assert plan.fault_of_path(("n0", "n1", "n2")) is None
    fault = plan.fault_of_path(("n0", "n1", "n2", "n3"))
    assert fault is not None
    assert fault[0] is FindingKind.UNPLANNED_PATH
    assert "3 joins in a row" in fault[1]
