"""Node addresses in the interest tables show a second way exactly where walks say illegal."""

from __future__ import annotations

import random

import pytest

from mesh.core.forwarding import ownership_after
from mesh.core.interest import InterestTable, Member
from mesh.core.local_links import local_links
from mesh.model.control import Interest, node_address
from mesh.model.topology import Topology
from mesh.node.leader import offered, readers_of, scopes_of
from tests.sim.meshes import is_legal, random_joined_topology, random_topology


def spread(topology: Topology) -> dict[str, InterestTable]:
    """Let every node's address travel by the rules of interest until nothing changes."""
    links = {node: local_links(topology, node) for node in topology.nodes}
    tables = {node: InterestTable() for node in topology.nodes}
    for node, table in tables.items():
        table.put(node_address(node), Member("", "$node"), Interest())
    changed = True
    while changed:
        changed = False
        for node, table in tables.items():
            for scope in scopes_of(links[node]):
                link = next(one for one in links[node] if one.zone == scope.zone)
                for filter_, members in list(table.entries.items()):
                    interest = offered(filter_, members, scope, link)
                    if interest is None:
                        continue
                    ownership = ownership_after(link.kind, scope.ownership)
                    member = Member(scope.zone, node, ownership, scope.row)
                    for reader in readers_of(links[node], scope):
                        changed |= tables[reader].put(filter_, member, interest)
    return tables


def shows_second_way(topology: Topology) -> bool:
    return any(
        len(members) > 1
        for table in spread(topology).values()
        for members in table.entries.values()
    )


@pytest.mark.parametrize("block", range(10))
def test_addresses_detect_exactly_the_illegal(block: int) -> None:
    """Spec: K26, DESIGN 3."""
    verdicts = {True: 0, False: 0}
    for seed in range(block * 60, block * 60 + 60):
        topology = random_topology(random.Random(seed), nodes_max=7)
        legal = is_legal(topology)
        verdicts[legal] += 1
        assert shows_second_way(topology) != legal, (seed, topology)
    assert min(verdicts.values()) > 3


@pytest.mark.parametrize("block", range(10))
def test_addresses_detect_exactly_the_illegal_over_joins_too(block: int) -> None:
    """Spec: K26, DESIGN 3, UM-4, UM-10."""
    verdicts = {True: 0, False: 0}
    for seed in range(block * 60, block * 60 + 60):
        topology = random_joined_topology(random.Random(f"joined {seed}"), nodes_max=6)
        legal = is_legal(topology)
        verdicts[legal] += 1
        assert shows_second_way(topology) != legal, (seed, topology)
    assert min(verdicts.values()) > 3
