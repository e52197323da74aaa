"""Selectors as the auditor sees them: what meets one may come, and need not. Spec: K31."""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_spec
from mesh.model.control import Subscription
from mesh.model.state import Cut
from streaming.audits.block import Block, Receipt, SubjectTally
from streaming.audits.cases import CaseOutcome
from streaming.audits.claims import Claim, Level
from streaming.audits.eras import Eras, Stretch
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.offers import Offer
from streaming.audits.spans import claims_on
from streaming.audits.verdicts import is_proof
from streaming.audits.ways import Between, Ways
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.meshes import naive_ways, random_legal_topology
from tests.unit.streaming.certified import Table, digest
from tests.unit.streaming.claimed import level_for

PLACE = TopicPartition("mesh.a.in.g", 0)


@pytest.mark.parametrize("seed", range(30))
def test_ways_with_a_selector_are_those_of_the_design(seed: int) -> None:
    """In its direction alone, found from the other end. Spec: EMS-14, K31."""
    rng = random.Random(f"selectors {seed}")
    topology = random_legal_topology(rng, joined=True)
    link = rng.choice(list(topology.links))
    source = next(end for end in link.ends if topology.sends(end, link.other(end)))
    step = (source, link.other(source))
    spec = {
        **topology_spec(topology),
        "selectors": [{"link": list(link.ends), "from": source, "when": "true"}],
    }
    ways = Ways(topology_from_mapping(spec))
    for origin in topology.nodes:
        for way in naive_ways(topology, origin):
            is_crossed = step in zip(way.nodes, way.nodes[1:], strict=False)
            assert ways.between(origin, way.nodes[-1]).is_sure is not is_crossed


@pytest.mark.parametrize(
    ("subjects", "delivered", "sure"),
    [
        ({"acme/x": (0, 1, 2)}, (0, 1), False),
        ({"acme/x": (0, 1, 2)}, (0, 1, 2), True),
        ({"acme/x": (0, 1), "other/x": (2,)}, (0, 1), True),
        ({"other/x": (2,)}, (), True),
    ],
)
def test_what_a_selector_may_have_refused_is_no_proof(subjects, delivered, sure):
    """Losses behind a selector were certified equal, as if nothing could be missing. EMS-14."""
    block = Block()
    for subject, offsets in subjects.items():
        block.subjects[subject] = SubjectTally(digest(*offsets), min(offsets), max(offsets))
    endpoint = EndpointKey("b", "s")
    block.receipts[endpoint] = Receipt(digest(*delivered))
    refusable = [Claim("acme/>", None, Between(is_sure=False), is_refusable=True)]
    offer, came = Offer.of(block), block.delivered([endpoint])
    assert is_proof(offer, came, refusable) is sure
    assert is_proof(offer, came, [Claim("acme/>", None)])


def test_a_certificate_behind_a_selector_says_so():
    """Spec: EMS-14, K29."""
    table = Table()
    zones = {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}}
    selectors = [{"link": ["a", "b"], "from": "a", "when": "true"}]
    mesh = {"kafka": {"k": {}}, "nodes": {"a": {}, "b": {}}, "zones": zones}
    table.world.eras = Eras.of(topology_from_mapping({**mesh, "selectors": selectors}))
    table.world.interest.subscribe(EndpointKey("b", "s"), "acme/>", Subscription(), 0)
    table.cut(0)
    table.publish(0, 1)
    table.deliver(0, 1)
    table.deliver(0, to=TopicPartition("mesh.b.ep.s", 0))
    (case,) = table.judge(3.0, CaseOutcome(1, 1))
    assert not case.is_sure
    told = {one.endpoint: (one.equal, one.sure) for one in table.certifier.unpublished.values()}
    assert told == {"a/s1": (True, True), "b/s": (True, False)}
    table.deliver(1, to=TopicPartition("mesh.b.ep.s", 0))
    assert table.judge() == []
    assert all(one.sure for one in table.certifier.unpublished.values())


@pytest.mark.parametrize(("is_sure", "level"), [(True, Level.MUST), (False, Level.MAY)])
def test_what_a_selector_may_refuse_is_no_must(is_sure: bool, level: Level) -> None:
    """Spec: EMS-14, K31."""
    interest = SubscriptionHistory()
    interest.subscribe(EndpointKey("b", "s"), ">", Subscription(), 0)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 5, "u", 0))
    claims = claims_on(
        interest,
        EndpointKey("b", "s"),
        "u",
        PLACE,
        SourceKey("aa", 0),
        is_local=False,
        carriers=lambda node, source: (),
        stretches=[Stretch(between=Between(is_sure=is_sure))],
    )
    assert level_for(claims, "x", 10, 20) is level
