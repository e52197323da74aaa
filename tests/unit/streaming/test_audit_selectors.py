"""Selectors as the auditor sees them: what meets one may come, and need not. Spec: K31."""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_spec
from mesh.model.control import Subscription
from mesh.model.state import Cut
from streaming.audits.eras import Stretch
from streaming.audits.interest import EndpointKey, Interest, Level
from streaming.audits.verdicts import _level
from streaming.audits.ways import Between, Ways
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.meshes import naive_ways, random_legal_topology

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


@pytest.mark.parametrize(("is_sure", "level"), [(True, Level.MUST), (False, Level.MAY)])
def test_what_a_selector_may_refuse_is_no_must(is_sure: bool, level: Level) -> None:
    """Spec: EMS-14, K31."""
    interest = Interest()
    interest.subscribe(EndpointKey("b", "s"), ">", Subscription(), 0)
    interest.cut(Cut(PLACE.topic, b"", 0, 5, "u", 0))
    claims = interest.claims(
        EndpointKey("b", "s"),
        "u",
        PLACE,
        SourceKey("aa", 0),
        is_local=False,
        carriers=lambda node, source: (),
        stretches=[Stretch(between=Between(is_sure=is_sure))],
    )
    assert _level(claims, "x", 10, 20) is level
