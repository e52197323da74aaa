"""Two walks from one source to one node: what makes a topology illegal.

Spec: DESIGN 3, EMS-0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mesh.core.walks import Graph, Visit, Walk
from mesh.model.topology import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A node that one source reaches twice, or itself.

    Attributes:
        source: Where the walks begin.
        node: Where they end.
        walks: The two ways; for a return to the source the round trip in both directions, or, if a
            join allows only one of them, that and the walk of no link.
    """

    source: str
    node: str
    walks: tuple[Walk, Walk]

    def links(self) -> tuple[Link, ...]:
        """Return every link of both walks, each once, sorted."""
        return tuple(sorted(dict.fromkeys(self.walks[0].links + self.walks[1].links)))

    def loop(self) -> tuple[Link, ...]:
        """Return the links that only one of the walks crosses: what closes the loop."""
        first, second = (dict.fromkeys(walk.links) for walk in self.walks)
        alone = [link for link in self.links() if (link in first) != (link in second)]
        return tuple(alone) or self.links()


def conflicts_from(graph: Graph, source: str) -> Iterator[Conflict]:
    """Yield the conflicts of one source, nearest first.

    The search continues from a node only at its first visit: whatever a second arrival could reach
    is a consequence of the conflict already named, and so the search always ends.
    """
    start = Visit(source)
    first = {source: start}
    queue = [start]
    for visit in queue:
        for step in graph.onward(visit):
            known = first.get(step.node)
            if known is None:
                first[step.node] = step
                queue.append(step)
                continue
            walk, other = step.walk(), known.walk()
            if known is not start:
                pair = (other, walk)
            elif any(map(graph.is_join, walk.links)):
                pair = (walk, other)
            else:
                pair = (walk, walk.reversed())
            yield Conflict(source=source, node=step.node, walks=pair)


def first_conflict(graph: Graph, sources: Iterable[str]) -> Conflict | None:
    """Return one conflict of the first source that has any, or None if all have none."""
    for source in sources:
        for conflict in conflicts_from(graph, source):
            return conflict
    return None
