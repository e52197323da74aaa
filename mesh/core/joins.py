"""How many joins a message may cross in a row, seen from either direction.

A join whose `hops` is h is in no row of more than h + 1. Rows can be counted from either end, so a
node's address comes back over joins exactly where messages may go. Spec: DESIGN 3, UM-10, K26.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from mesh.model.joins import JOIN_HOPS_MAX, NO_JOINS, Join, JoinRow

Joins = Mapping[tuple[str, str], Join]
"""(source, target) -> join."""


def row_over(row: JoinRow, hops: int) -> JoinRow | None:
    """Return a row with one more join, or None if it would be too long.

    Args:
        row: Joins crossed in a row so far.
        hops: Of the join that follows.

    Spec: DESIGN 3, UM-10.
    """
    hops_max = min(row.hops_max, hops)
    return JoinRow(row.joins + 1, hops_max) if row.joins <= hops_max else None


def row_of(joins: Joins, path: Sequence[str], count: int) -> JoinRow:
    """Return the row in which a message has come, according to its header.

    Args:
        joins: Of the topology; an unknown one limits nothing.
        path: Nodes visited, this one last.
        count: Joins crossed in a row; an impossible number counts as the first one.
    """
    if count <= 0:
        return NO_JOINS
    crossed = [joins.get(pair) for pair in pairwise(path[-count - 1 :])]
    hops = [join.hops for join in crossed if join is not None]
    return JoinRow(min(count, JOIN_HOPS_MAX + 1), min(hops, default=JOIN_HOPS_MAX))


def rows_back(joins: Joins, join: Join) -> Sequence[JoinRow]:
    """Return every row by which an address can come back over a join, sorted.

    It is the first of a row, or follows others that begin where it ends.

    Spec: K22, K26.
    """
    onward: dict[str, list[Join]] = {}
    for other in joins.values():
        onward.setdefault(other.source, []).append(other)
    first = row_over(NO_JOINS, join.hops)
    todo = [] if first is None else [(join, first)]
    seen = {(one.zone, row): row for one, row in todo}
    for one, row in todo:
        for step in _after(one, row, onward):
            if (step[0].zone, step[1]) not in seen:
                seen[step[0].zone, step[1]] = step[1]
                todo.append(step)
    return sorted(dict.fromkeys(seen.values()))


def _after(
    join: Join, row: JoinRow, onward: Mapping[str, Sequence[Join]]
) -> Iterator[tuple[Join, JoinRow]]:
    for other in onward.get(join.target, ()):
        further = row_over(row, other.hops)
        if further is not None and other.target != join.source:
            yield other, further
