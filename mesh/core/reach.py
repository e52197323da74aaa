"""Who reaches whom under two topologies, and whose walk is another one: what a change means.

Both are legal, so every node has one walk from every source, and a message that everybody wants
crosses as many links as there are nodes reached. Spec: DESIGN 3, K28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.walks import Graph, Visit, Walk
from mesh.model.topology import Topology

Tree = Mapping[str, Visit]
"""Node -> how a source's message comes there, nearest first, the source left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReach:
    """How far the messages of one source come, before and after.

    Attributes:
        before, after: Links crossed by a message that all want; None if there is no such node.
        gained, lost: Nodes that it newly or no longer reaches, sorted.
    """

    source: str
    before: int | None
    after: int | None
    gained: Sequence[str]
    lost: Sequence[str]


@dataclass(slots=True, kw_only=True)
class Move:
    """Walks that leave one way for another.

    Attributes:
        old, new: Where they differ, from the last node before that to the first behind it.
        pairs: Source -> nodes whose walk from there moves.
        example: One of those walks, before and after.
    """

    old: Walk
    new: Walk
    pairs: dict[str, list[str]] = field(default_factory=dict)
    example: tuple[Walk, Walk]

    @property
    def walks(self) -> int:
        """How many walks move."""
        return sum(map(len, self.pairs.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachChange:
    """What changes between two topologies.

    Attributes:
        sources: Those that reach other nodes than before, by name.
        moves: Walks between the same two nodes that become others: each a cut-over.
    """

    sources: Sequence[SourceReach]
    moves: Sequence[Move]


def tree_from(graph: Graph, source: str) -> Tree:
    """Return how messages of a source come to every node, under interest everywhere."""
    start = Visit(source)
    found: dict[str, Visit] = {source: start}
    queue = [start]
    for visit in queue:
        for step in graph.onward(visit):
            if step.node not in found:
                found[step.node] = step
                queue.append(step)
    del found[source]
    return found


def compare_reach(before: Topology, after: Topology) -> ReachChange:
    """Return what two legal topologies change for every source.

    Sources are looked at one by one: a thousand nodes have a million walks.
    """
    old_graph, new_graph = Graph.of(before), Graph.of(after)
    moves: dict[tuple[Walk, Walk], Move] = {}
    sources: list[SourceReach] = []
    for source in sorted({**before.nodes, **after.nodes}):
        old = tree_from(old_graph, source) if source in before.nodes else None
        new = tree_from(new_graph, source) if source in after.nodes else None
        gained = sorted(node for node in new or () if node not in (old or ()))
        lost = sorted(node for node in old or () if node not in (new or ()))
        if gained or lost or (old is None) != (new is None):
            sources.append(
                SourceReach(
                    source=source,
                    before=None if old is None else len(old),
                    after=None if new is None else len(new),
                    gained=tuple(gained),
                    lost=tuple(lost),
                )
            )
        for node, key in _moved(old or {}, new or {}):
            if (move := moves.get(key)) is None:
                example = ((old or {})[node].walk(), (new or {})[node].walk())
                move = moves[key] = Move(old=key[0], new=key[1], example=example)
            move.pairs.setdefault(source, []).append(node)
    ordered = sorted(moves.values(), key=lambda move: (-move.walks, move.old.nodes, move.new.nodes))
    return ReachChange(sources=sources, moves=ordered)


def _moved(old: Tree, new: Tree) -> Iterator[tuple[str, tuple[Walk, Walk]]]:
    """Yield the nodes that are reached over other links, and where the walks differ."""
    differs: dict[str, tuple[Walk, Walk]] = {}
    for node, visit in new.items():
        was = old.get(node)
        if was is None:
            continue
        if was.link == visit.link and visit.before is not None:
            # The last step is the same: what differs, if anything, lies before it.
            if (key := differs.get(visit.before.node)) is None:
                continue
        else:
            key = _difference(was.walk(), visit.walk())
        differs[node] = key
        yield node, key


def _difference(old: Walk, new: Walk) -> tuple[Walk, Walk]:
    """Return two walks to one node over different last links, without their common beginning."""
    same = 0
    while old.links[same : same + 1] == new.links[same : same + 1] != ():
        same += 1
    return (
        Walk(nodes=old.nodes[same:], links=old.links[same:]),
        Walk(nodes=new.nodes[same:], links=new.links[same:]),
    )


def links_crossed(tree: Tree, source: str, wanting: Sequence[str]) -> int:
    """Return how many links one message of a source crosses that exactly these nodes want."""
    passed = {source: None}
    for node in wanting:
        visit: Visit | None = tree.get(node)
        while visit is not None and visit.node not in passed:
            passed[visit.node] = None
            visit = visit.before
    return len(passed) - 1
