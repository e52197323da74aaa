"""The one way from a node to another, or where it ends and why. Spec: DESIGN 3, DESIGN 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.core.forwarding import may_leave, next_hop_count
from mesh.core.walks import Graph, Tree, Visit, Walk, tree_from
from mesh.model.reasons import NoWay, Reason, sentence
from mesh.model.topology import Link, Topology, ZoneKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCrossing:
    """One step of a way.

    Attributes:
        hops: Links of this zone crossed in a row, including this one.
    """

    source: str
    target: str
    zone: str
    kind: ZoneKind
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEnd:
    """Where messages stop on the way to a node that they do not reach.

    Attributes:
        walk: How they reach the node closest to it, by links.
        link: The link over which they would have to continue; None if no link leads closer.
        reason: Why they do not: by the forwarding table, or because no link leads on.
        text: The same as a sentence.
    """

    walk: Walk
    link: Link | None
    reason: Reason | NoWay
    text: str

    @property
    def step(self) -> tuple[str, str] | None:
        """The link as (from, to), or None."""
        last = self.walk.nodes[-1]
        return None if self.link is None else (last, self.link.other(last))


def way_between(topology: Topology, origin: str, target: str) -> Walk | DeadEnd:
    """Return the walk that messages take under interest everywhere, or where they stop.

    Args:
        topology: A legal one.
        origin: Where messages are published.
        target: Another node.
    """
    tree = tree_from(Graph.of(topology), origin)
    if target in tree:
        return tree[target].walk()
    return _dead_end(topology, tree, origin, target)


def dead_ends(topology: Topology, origin: str) -> Mapping[str, DeadEnd]:
    """Return where messages of an origin stop on the way to each node that they never reach."""
    tree = tree_from(Graph.of(topology), origin)
    return {
        target: _dead_end(topology, tree, origin, target)
        for target in sorted(topology.nodes)
        if target != origin and target not in tree
    }


def _dead_end(topology: Topology, tree: Tree, origin: str, target: str) -> DeadEnd:
    start = Visit(origin)
    distances = _distances(topology, target)
    reached = [start, *tree.values()]  # nearest to the origin first, which min() keeps
    near = [visit for visit in reached if visit.node in distances]
    if not near:
        nothing = NoWay.NOT_LINKED
        return DeadEnd(walk=start.walk(), link=None, reason=nothing, text=sentence(nothing))
    last = min(near, key=lambda visit: distances[visit.node])
    link = next(
        link
        for link in topology.links_of(last.node)
        if distances[link.other(last.node)] < distances[last.node]
    )
    reason = _reason(topology, last, link)
    text = sentence(
        reason,
        source=last.node,
        target=link.other(last.node),
        zone=link.zone,
        kind=topology.kind_of(link),
    )
    return DeadEnd(walk=last.walk(), link=link, reason=reason, text=text)


def crossings(topology: Topology, walk: Walk) -> Sequence[LinkCrossing]:
    """Return the steps of a walk with the hop count that a message has after each."""
    found: list[LinkCrossing] = []
    for source, target, link in zip(walk.nodes, walk.nodes[1:], walk.links, strict=False):
        on_zone = bool(found) and found[-1].zone == link.zone
        hops = next_hop_count(found[-1].hops if found else 0, arrived_on_zone=on_zone)
        kind = topology.kind_of(link)
        found.append(
            LinkCrossing(source=source, target=target, zone=link.zone, kind=kind, hops=hops)
        )
    return found


def _distances(topology: Topology, target: str) -> Mapping[str, int]:
    """Return how many links lie between a node and every other, regardless of rules."""
    found = {target: 0}
    queue = [target]
    for node in queue:
        for neighbour in topology.neighbours(node):
            if neighbour not in found:
                found[neighbour] = found[node] + 1
                queue.append(neighbour)
    return found


def _reason(topology: Topology, visit: Visit, link: Link) -> Reason | NoWay:
    reason = may_leave(
        topology.kind_of(link),
        arrived_on_zone=visit.link is not None and visit.link.zone == link.zone,
        arrived_on_link=visit.link == link,
        crossed_external=visit.crossed_external,
    )
    return NoWay.ONE_WAY if reason is None else reason
