"""What is exported plans to nothing, and what a plan says of two meshes is what walks say.

The walks are those of an oracle that shares no code with the mesh.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.config.located import parse_document
from mesh.config.published import (
    as_yaml_file,
    document_hash,
    published_document,
    published_text,
    published_topology,
)
from mesh.config.topology_file import topology_from_mapping, topology_of
from mesh.core.audience import EndpointFilter
from mesh.core.differences import Described, differences_between
from mesh.core.reach import compare_reach
from mesh.core.walks import Walk
from mesh.core.ways import way_between
from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology, Zone, ZoneKind
from mesh.node.converged_interest import converged_interest
from mesh.node.explanation import explain
from tests.property.effort import examples
from tests.sim.meshes import is_legal, naive_ways, random_legal_topology, random_topology

BLOCKS = range(8)


def described(topology: Topology) -> Described:
    return Described(topology=topology, document=published_document(topology))


def ways_of(topology: Topology) -> dict[str, dict[str, tuple[str, ...]]]:
    """Source -> node -> the one way there, by the oracle."""
    return {
        source: {way.nodes[-1]: way.nodes for way in naive_ways(topology, source)}
        for source in topology.nodes
    }


def pair(rng: random.Random) -> tuple[Topology, Topology]:
    """Two legal topologies: one of them with a zone less, or of two meshes that look alike."""
    before = random_legal_topology(rng)
    if rng.random() < 0.3:
        zones = dict(before.zones)
        del zones[rng.choice(sorted(zones))]
        return before, replace(before, zones=zones)
    nodes = sorted(before.nodes)
    while True:
        links = [(rng.choice(nodes[:at]), nodes[at]) for at in range(1, len(nodes))]
        kind = rng.choice([ZoneKind.MULTI_HOP, ZoneKind.ONE_HOP, ZoneKind.EXTERNAL])
        after = replace(before, zones={"Z0": Zone.of_links("Z0", kind, links)})
        if rng.random() < 0.5:
            before, after = after, before
        if is_legal(after) and is_legal(before):
            return before, after


@pytest.mark.parametrize("block", BLOCKS)
def test_what_is_exported_plans_to_nothing(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        topology = random_topology(random.Random(seed), lanes_max=3)
        document = published_document(topology)
        for text in (as_yaml_file(document), published_text(topology)):
            again = topology_of(parse_document(text.encode(), "mesh.yaml"))
            assert differences_between(described(topology), described(again)) == [], seed
            assert document_hash(published_document(again)) == document_hash(document)
            assert again == topology
        assert published_topology(published_text(topology)) == topology


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=20)


@examples()
@given(words, words.filter(bool), st.integers(0, 10**9 - 1), st.integers(1, 10**9 - 1))
def test_every_text_and_duration_survives(title: str, name: str, keep_ms: int, limit: int) -> None:
    """Titles may look like anything YAML knows."""
    spec = {
        "kafka": {"k": {"client.rack": "yes", "linger.ms": 7}},
        "nodes": {"yes": {}, "null": {}, "1e3": {"realm": "0x1"}},
        "keep": f"{keep_ms}ms",
        "zones": {"on": {"kind": "multi-hop", "links": [["yes", "null"]], "title": title}},
        "limits": [
            {"link": ["yes", "null"], "outboxBytes": limit, "outboxAge": f"{limit}ms", "whenFull": "stop"}
        ],
    }  # fmt: skip
    topology = topology_from_mapping(spec, name=name)
    text = as_yaml_file(published_document(topology))
    assert topology_of(parse_document(text.encode(), "mesh.yaml")) == topology


@pytest.mark.parametrize("block", BLOCKS)
def test_reach_and_moves_are_those_of_the_walks(block: int) -> None:
    """Spec: DESIGN 3."""
    moved = 0
    for seed in range(block * 30, block * 30 + 30):
        before, after = pair(random.Random(seed))
        found = compare_reach(before, after)
        old, new = ways_of(before), ways_of(after)
        told = {one.source: one for one in found.sources}
        pairs = {
            (source, target) for move in found.moves for source, to in move.pairs.items() for target in to
        }  # fmt: skip
        for source in {*before.nodes, *after.nodes}:
            was, now = old.get(source, {}), new.get(source, {})
            gained, lost = sorted(set(now) - set(was)), sorted(set(was) - set(now))
            if gained or lost or (source in old) != (source in new):
                assert list(told[source].gained) == gained
                assert list(told[source].lost) == lost
                assert told[source].before == (len(was) if source in old else None)
                assert told[source].after == (len(now) if source in new else None)
            else:
                assert source not in told
            for target in set(was) & set(now):
                if was[target] != now[target]:
                    assert (source, target) in pairs, (seed, source, target)
                    moved += 1
        for source, target in pairs:
            # The same nodes over a link of another zone is another walk too.
            is_rezoned = any(
                {zone.name for zone in before.zones.values() if set(step) <= {*zone.nodes}}
                != {zone.name for zone in after.zones.values() if set(step) <= {*zone.nodes}}
                for step in pairwise(old[source][target])
            )
            assert old[source][target] != new[source][target] or is_rezoned
        for move in found.moves:
            assert move.old.nodes[0] == move.new.nodes[0]
            assert move.old.nodes[-1] == move.new.nodes[-1]
            assert move.old.links != move.new.links
    assert moved


@pytest.mark.parametrize("block", BLOCKS)
def test_audience_and_copies_are_those_of_the_walks(block: int) -> None:
    """Spec: DESIGN 3."""
    for seed in range(block * 30, block * 30 + 30):
        rng = random.Random(seed)
        before, after = pair(rng)
        old, new = ways_of(before), ways_of(after)
        nodes = sorted(before.nodes)
        subscriptions = [
            EndpointFilter(rng.choice(nodes), "e", rng.choice("xyz")) for _ in range(4)
        ]
        found = compare_reach(before, after, subscriptions)
        audience = {one.subscription: (set(one.gains), set(one.loses)) for one in found.audience}
        for subscription in subscriptions:
            was = {
                source
                for source in old
                if subscription.node == source or subscription.node in old[source]
            }
            now = {
                source
                for source in new
                if subscription.node == source or subscription.node in new[source]
            }
            assert audience.get(subscription, (set(), set())) == (now - was, was - now), seed
        copies = {one.filter: one.copies for one in found.copies}
        for filter_ in "xyz":
            wanting = [
                subscription.node
                for subscription in subscriptions
                if subscription.filter == filter_
            ]
            for source in set(old) & set(new):
                crossed = tuple(
                    len(
                        {
                            step
                            for node in wanting
                            for step in pairwise(ways[source].get(node, ()))
                        }
                    )
                    for ways in (old, new)
                )  # fmt: skip
                if crossed[0] != crossed[1]:
                    assert copies[filter_][source] == crossed, seed
                else:
                    assert source not in copies.get(filter_, {}), seed


@pytest.mark.parametrize("block", BLOCKS)
def test_supposed_interest_takes_messages_along_the_walks(block: int) -> None:
    """The nodes' own routers, under supposed interest, do what the oracle says. Spec: DESIGN 4.2."""
    for seed in range(block * 30, block * 30 + 30):
        rng = random.Random(seed)
        topology = random_legal_topology(rng)
        wanting = rng.sample(sorted(topology.nodes), rng.randint(1, len(topology.nodes)))
        known = converged_interest(
            topology, {node: {("e", "acme/>"): Subscription()} for node in wanting}
        )
        source = rng.choice(sorted(topology.nodes))
        ways = {way.nodes[-1]: way.nodes for way in naive_ways(topology, source)}
        told = explain(topology, known, "acme/x", source, rng.choice(list(MessageClass)))
        expected = {node: ways[node] for node in wanting if node in ways}
        if source in wanting:
            expected[source] = (source,)
        assert {one.node: one.path for one in told.reached if one.endpoints} == expected, seed
        steps = {step for way in expected.values() for step in pairwise(way)}
        assert {(one.source, one.target) for one in told.crossed} == steps
        for target in sorted(topology.nodes):
            if target != source:
                way = way_between(topology, source, target)
                assert (way.nodes if isinstance(way, Walk) else None) == ways.get(target)
