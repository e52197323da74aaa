"""How many ways from a node to a role share no link: all but one of them may be lost.

Spec: tree_layer 13 (target valency, as a report).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

Links = Mapping[str, Collection[str]]


def disjoint_ways(links: Links, start: str, ends: Collection[str]) -> int:
    """Return how many ways from a node to others have no link in common.

    Args:
        links: Node -> its neighbours; a link counts if both ends name it.
        start: Where they begin.
        ends: Where each may end; `start` is none of them.
    """
    flow = Counter[tuple[str, str]]()
    count = 0
    while way := _way(links, flow, start, ends):
        for here, there in pairwise(way):
            flow[here, there] += 1
            flow[there, here] -= 1  # a later way may take it back
        count += 1
    return count


def _way(
    links: Links, flow: Counter[tuple[str, str]], start: str, ends: Collection[str]
) -> Sequence[str]:
    """Return a way over links that are free, or used in the opposite direction; or nothing."""
    came_from = {start: start}
    front = [start]
    for here in front:
        for there in links.get(here, ()):
            is_free = here in links.get(there, ()) and flow[here, there] < 1
            if there in came_from or not is_free:
                continue
            came_from[there] = here
            if there in ends:
                return _traced(came_from, there)
            front.append(there)
    return ()


def _traced(came_from: Mapping[str, str], end: str) -> Sequence[str]:
    way = [end]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way[::-1]
