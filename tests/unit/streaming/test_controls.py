"""Controls of interest as the auditor sees them, by its own code. Spec: K31, EMS-11, DMR-12."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Subscription
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.state import Cut
from streaming.audits.claims import Claim, Level
from streaming.audits.eras import Stretch
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.spans import claims_on
from streaming.audits.ways import Ways
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.drawn import random_filter, random_subject
from tests.sim.meshes import naive_matches, naive_ways, random_legal_topology
from tests.unit.streaming.claimed import level_for

PLACE = TopicPartition("mesh.a.in.g", 0)
SOURCE = SourceKey("aa", 0)
CHAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abc"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
        "interest": [
            {"node": "b", "local": "acme/private/>"},
            {"node": "b", "static": "acme/>"},
        ],
    }
)


def claims(subscription: Subscription, *, node: str = "c", filter_: str = ">") -> list[Claim]:
    """What an endpoint claims of what is published at a, once its cut is there."""
    interest = SubscriptionHistory()
    endpoint = EndpointKey(node, "s")
    interest.subscribe(endpoint, filter_, subscription, 0)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 5, "u", 0))
    return list(
        claims_on(
            interest,
            endpoint,
            "u",
            PLACE,
            SOURCE,
            is_local=node == "a",
            carriers=lambda *_: [],
            stretches=[Stretch(between=Ways(CHAIN).between("a", node))],
        )
    )


def test_what_a_node_on_the_way_keeps_local_is_claimed_by_nobody_behind_it() -> None:
    """But by the endpoints where it is published. Spec: EMS-11, K31."""
    behind = claims(Subscription())
    assert level_for(behind, "acme/private/x", 5, 9) is Level.NONE
    assert level_for(behind, "acme/x", 5, 9) is Level.MUST
    assert level_for(claims(Subscription(), node="b"), "acme/private/x", 5, 9) is Level.NONE
    assert level_for(claims(Subscription(), node="a"), "acme/private/x", 5, 9) is Level.MUST


def test_who_attracts_nothing_must_get_what_is_published_at_its_node_alone() -> None:
    """Of other nodes' messages it may get any: who attracts them is not asked. Spec: DMR-12."""
    quiet = Subscription(noexport=True)
    assert level_for(claims(quiet, node="a"), "acme/x", 5, 9) is Level.MUST
    assert level_for(claims(quiet, node="a"), "acme/x", 0, 4) is Level.MAY
    assert level_for(claims(quiet), "acme/x", 5, 9) is Level.MAY
    assert level_for(claims(quiet), "acme/private/x", 5, 9) is Level.NONE


def test_a_subscription_that_is_exported_later_is_another_one() -> None:
    """It must be served from then on only. Spec: DMR-12, K25."""
    interest = SubscriptionHistory()
    endpoint = EndpointKey("c", "s")
    interest.subscribe(endpoint, "x", Subscription(noexport=True), 3)
    interest.subscribe(endpoint, "x", Subscription(noexport=True), 4)
    interest.subscribe(endpoint, "x", Subscription(), 7)
    assert [(one.added, one.removed, one.noexport) for one in interest.subscriptions[endpoint]] == [
        (3, 7, True),
        (7, None, False),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_ways_agree_with_the_words_of_the_design(seed: int) -> None:
    """Found from the other end. Spec: EMS-11."""
    rng = random.Random(f"kept {seed}")
    drawn = random_legal_topology(rng, joined=seed % 2 == 0)
    controls = {
        InterestControl(rng.choice(sorted(drawn.nodes)), ControlKind.LOCAL, random_filter(rng))
        for _ in range(3)
    }
    topology = replace(drawn, interest=tuple(sorted(controls)))
    ways = Ways(topology)
    for origin in topology.nodes:
        assert list(ways.between(origin, origin).kept) == []
        for way in naive_ways(topology, origin):
            kept = ways.between(origin, way.nodes[-1]).kept
            for subject in (random_subject(rng) for _ in range(20)):
                is_kept = any(
                    naive_matches(one.filter, subject) for one in controls if one.node in way.nodes
                )
                assert any(naive_matches(one, subject) for one in kept) is is_kept
