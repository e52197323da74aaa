"""Direct-only clusters as the auditor sees them, by its own code. Spec: K31, DMR-11."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Subscription
from mesh.model.state import Cut
from streaming.audits.claims import Claim, Level
from streaming.audits.eras import Stretch
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.spans import claims_on
from streaming.audits.ways import Ways
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.meshes import naive_ways, random_legal_topology
from tests.unit.streaming.claimed import level_for

SOURCE = SourceKey("aa", 0)
MESH = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abz"},
        "zones": {
            "C": {"kind": "cluster", "nodes": ["a", "b"], "directOnly": True},
            "E": {"kind": "external", "links": [["a", "z"]]},
        },
    }
)


def claims(node: str, letter: str = "g") -> list[Claim]:
    """What an endpoint claims of what is published at a, once its cut is there."""
    place = TopicPartition(f"mesh.a.in.{letter}", 0)
    interest, endpoint = SubscriptionHistory(), EndpointKey(node, "s")
    interest.subscribe(endpoint, ">", Subscription(), 0)
    interest.lanes.cut(Cut(place.topic, b"", 0, 5, "u", 0))
    return list(
        claims_on(
            interest,
            endpoint,
            "u",
            place,
            SOURCE,
            is_local=node == "a",
            carriers=lambda *_: [],
            stretches=[Stretch(between=Ways(MESH).between("a", node))],
        )
    )


def test_guaranteed_messages_behind_it_are_claimed_by_nobody_and_direct_ones_are() -> None:
    """Should one come, that is a finding. Spec: DMR-11, K31."""
    assert level_for(claims("b"), "x", 5, 9) is Level.NONE
    assert level_for(claims("b", "d"), "x", 5, 9) is Level.MUST
    assert level_for(claims("a"), "x", 5, 9) is Level.MUST
    assert level_for(claims("z"), "x", 5, 9) is Level.MUST


@pytest.mark.parametrize("seed", range(30))
def test_ways_agree_with_the_words_of_the_design(seed: int) -> None:
    """Found from the other end. Spec: DMR-11."""
    drawn = random_legal_topology(random.Random(f"direct {seed}"), joined=seed % 2 == 0)
    zones = {
        name: replace(zone, direct_only=zone.kind == "cluster")
        for name, zone in drawn.zones.items()
    }
    topology = replace(drawn, zones=zones)
    barred = {link.ends for zone in zones.values() if zone.direct_only for link in zone.links}
    ways = Ways(topology)
    for origin in topology.nodes:
        for way in naive_ways(topology, origin):
            steps = {tuple(sorted(step)) for step in zip(way.nodes, way.nodes[1:], strict=False)}
            between = ways.between(origin, way.nodes[-1])
            assert between.is_direct_only is bool(steps & barred)
