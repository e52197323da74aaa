"""From where a node can be reached, straight from the words of the design. Spec: DESIGN 3."""

from __future__ import annotations

from mesh.model.topology import Topology

_ONE_HOP = ("one-hop", "cluster")


def origins(topology: Topology) -> dict[str, frozenset[str]]:
    """Return for every node the nodes whose messages can come to it, itself included."""
    found: dict[str, set[str]] = {node: {node} for node in topology.nodes}
    for source in topology.nodes:
        for node in _reached(topology, source):
            found[node].add(source)
    return {node: frozenset(sources) for node, sources in found.items()}


def _reached(topology: Topology, source: str) -> set[str]:
    """Return the nodes that messages of one node come to; joins carry none here."""
    # Where a copy is, by which zone and from whom it came, and how often it went out of a realm
    # of clusters: what the rules of all kinds look at.
    seen: set[tuple[str, str, str, bool]] = set()
    todo = [(source, "", "", False)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        node, zone, came_from, has_crossed = state
        for link in topology.links_of(node):
            kind, other = topology.zones[link.zone].kind.value, link.other(node)
            stays = kind in _ONE_HOP and link.zone == zone
            returns = other == came_from and link.zone == zone
            if kind == "join" or stays or returns or (kind == "external" and has_crossed):
                continue
            todo.append((other, link.zone, node, has_crossed or kind == "external"))
    return {state[0] for state in seen}
