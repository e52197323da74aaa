"""The checker's own matcher and walks agree with the words of the design, and with the mesh's."""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import load_topology
from mesh.core.walks import walks_from
from mesh.lab.checker.matching import wants
from mesh.lab.checker.reach import origins
from mesh.model.subject import matches
from tests.kafka.fleets import EXAMPLES
from tests.sim.drawn import random_filter, random_subject
from tests.sim.meshes import random_legal_topology


@pytest.mark.parametrize(
    ("filter_", "subject", "answer"),
    [
        ("a/b", "a/b", True),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("a/>", "a/b/c", True),
        ("a/>", "a", False),
        (">", "a", True),
        (">", "$node/1", False),
        ("*/1", "$node/1", False),
        ("$node/*", "$node/1", True),
        ("a/b/c", "a/b", False),
        ("a", "a/b", False),
    ],
)
def test_matching(filter_: str, subject: str, answer: bool) -> None:
    """Spec: DESIGN 2, K26."""
    assert wants(filter_, subject) is answer


def test_two_matchers_agree() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        filter_, subject = random_filter(rng), random_subject(rng)
        assert wants(filter_, subject) == matches(filter_, subject)


def test_two_ways_to_walk_agree() -> None:
    """Spec: DESIGN 3."""
    rng = random.Random(2)
    topologies = [random_legal_topology(rng) for _ in range(100)]
    topologies += [random_legal_topology(rng, joined=True) for _ in range(100)]
    topologies.append(load_topology(EXAMPLES.parent / "topologies" / "fig36.yaml"))
    for topology in topologies:
        found = origins(topology)
        for source in topology.nodes:
            walks = walks_from(topology, source)
            reached = {source, *walks}
            assert reached == {node for node in topology.nodes if source in found[node]}
            for node, (walk,) in walks.items():
                joins = [topology.zones[link.zone].join for link in walk.links]
                assert [one.filter for one in joins if one] == list(found[node][source])
