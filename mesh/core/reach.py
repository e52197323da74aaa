"""Who reaches whom under two topologies, and whose walk differs: what a change means.

Both are legal, so every node has one walk from every source, and a message that everybody wants
crosses as many links as there are nodes reached. Spec: DESIGN 3, K28.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mesh.core.audience import Audience, AudienceChange, CopiesChange, EndpointFilter
from mesh.core.direct_only import guaranteed_part
from mesh.core.walks import Graph, Tree, Walk, tree_from
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReach:
    """How far the messages of one source come, before and after.

    Attributes:
        before, after: Links crossed by a message that all want; None if there is no such node.
        gained, lost: Nodes that it now reaches, or no longer reaches, sorted.
    """

    source: str
    before: int | None
    after: int | None
    gained: Sequence[str]
    lost: Sequence[str]


@dataclass(slots=True, kw_only=True)
class MovedWalks:
    """Walks that change from one way to another.

    Attributes:
        old, new: Where they differ, from the last node before that to the first after it.
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
        guaranteed: Those whose guaranteed messages do; empty if neither topology has a direct-only
            zone, because then both classes reach the same. Spec: DMR-11.
        moves: Walks between the same two nodes that change: each is a cut-over.
        audience: Endpoints that gain or lose publishers, by the filters in force.
        copies: Links that messages of these filters cross.
    """

    sources: Sequence[SourceReach]
    guaranteed: Sequence[SourceReach] = ()
    moves: Sequence[MovedWalks]
    audience: Sequence[AudienceChange] = ()
    copies: Sequence[CopiesChange] = ()


def compare_reach(
    before: Topology, after: Topology, subscriptions: Iterable[EndpointFilter] = ()
) -> ReachChange:
    """Return what two legal topologies change for every source, and for these subscriptions.

    The endpoints of a node that is deleted lose everything, its own clients' messages too.
    """
    sources: list[SourceReach] = []
    moves: dict[tuple[Walk, Walk], MovedWalks] = {}
    audience = Audience.of(subscriptions, before, after)
    for source, old, new in _trees(before, after):
        sources += _source_reach(source, old, new)
        audience.look_at(source, old, new)
        for node, key in _moved(old or {}, new or {}):
            if (move := moves.get(key)) is None:
                example = ((old or {})[node].walk(), (new or {})[node].walk())
                move = moves[key] = MovedWalks(old=key[0], new=key[1], example=example)
            move.pairs.setdefault(source, []).append(node)
    parts = guaranteed_part(before), guaranteed_part(after)
    trees = () if parts == (before, after) else _trees(*parts)
    return ReachChange(
        sources=sources,
        guaranteed=[one for found in trees for one in _source_reach(*found)],
        moves=sorted(moves.values(), key=lambda one: (-one.walks, one.old.nodes, one.new.nodes)),
        audience=list(audience.changes()),
        copies=list(audience.copies()),
    )


def _trees(before: Topology, after: Topology) -> Iterator[tuple[str, Tree | None, Tree | None]]:
    """Yield every source with its walks, None if there is no such node.

    They come one by one: a thousand nodes have a million walks.
    """
    old, new = Graph.of(before), Graph.of(after)
    for source in sorted({**before.nodes, **after.nodes}):
        yield (
            source,
            tree_from(old, source) if source in before.nodes else None,
            tree_from(new, source) if source in after.nodes else None,
        )


def _source_reach(source: str, old: Tree | None, new: Tree | None) -> Iterator[SourceReach]:
    """Yield what changes for one source, if anything does."""
    gained = tuple(sorted(node for node in new or () if node not in (old or ())))
    lost = tuple(sorted(node for node in old or () if node not in (new or ())))
    if gained or lost or (old is None) != (new is None):
        yield SourceReach(
            source=source,
            before=None if old is None else len(old),
            after=None if new is None else len(new),
            gained=gained,
            lost=lost,
        )


def _moved(old: Tree, new: Tree) -> Iterator[tuple[str, tuple[Walk, Walk]]]:
    """Yield the nodes that are reached over other links, and where the walks differ."""
    differs: dict[str, tuple[Walk, Walk]] = {}
    for node, visit in new.items():
        was = old.get(node)
        if was is None:
            continue
        if was.link == visit.link and visit.before is not None:
            # The last step is the same: any difference lies before it.
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
