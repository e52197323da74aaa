"""Is a topology legal, and if not: which two walks show it, and what is the smallest edit?

Legal means: no source reaches any node by two walks, or itself by one. Spec: DESIGN 3, lab.md 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from mesh.core.conflicts import Conflict, conflicts_from, first_conflict
from mesh.core.edits import Edit, smallest_edit
from mesh.core.walks import Graph
from mesh.errors import Problem
from mesh.model.topology import Link, Topology

ILLEGAL = "TWO_WALKS"
"""Code of every problem found here."""

CONFLICTS_MAX = 20
"""How many conflicts are reported at once; more would not be read."""

SCANNED_MAX = 500
"""How many conflicts are searched for new ones."""

Locate = Callable[[tuple[str | int, ...]], str]


def is_legal(topology: Topology) -> bool:
    """Return whether no source reaches any node by two walks, or itself by one.

    Spec: DESIGN 3, EMS-0.
    """
    return first_conflict(Graph.of(topology), sorted(topology.nodes)) is None


def judge(
    topology: Topology, locate: Locate | None = None, since: Topology | None = None
) -> Sequence[Problem]:
    """Return one problem per loop that makes a topology illegal; none if it is legal.

    Each names the first source and node that show the loop, and both walks. The edit is the
    smallest that makes the *whole* topology legal, so it is the same in every problem.

    Args:
        topology: Checked for form.
        locate: Gives the place of a path below `spec`; without it the path is the place.
        since: The topology that it is to follow, if there is one; see `smallest_edit`.

    Spec: DESIGN 3, lab.md 3.
    """
    found = conflicts(topology)
    if not found:
        return ()
    edit = smallest_edit(topology, since)
    place = locate or _dotted
    return [_problem(conflict, edit, place) for conflict in found]


def conflicts(topology: Topology) -> Sequence[Conflict]:
    """Return the first conflict of every loop, by source; at most `CONFLICTS_MAX`."""
    graph = Graph.of(topology)
    found: dict[tuple[Link, ...], Conflict] = {}
    for conflict in islice(_all_conflicts(graph, topology), SCANNED_MAX):
        found.setdefault(conflict.loop(), conflict)
        if len(found) == CONFLICTS_MAX:
            break
    return list(found.values())


def _all_conflicts(graph: Graph, topology: Topology) -> Iterator[Conflict]:
    for source in sorted(topology.nodes):
        yield from conflicts_from(graph, source)


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(("spec", *map(str, path)))


def _problem(conflict: Conflict, edit: Sequence[Edit], place: Locate) -> Problem:
    first, second = conflict.walks
    if conflict.node == conflict.source:
        fault = f"{conflict.source} reaches itself: {first}"
    else:
        fault = f"{conflict.source} reaches {conflict.node} by two walks: {first} and {second}"
    advice = ", ".join(map(str, edit)) or "link the nodes by fewer ways"
    return Problem(
        code=ILLEGAL,
        message=f"{fault}; {advice}",
        where=place(("zones", (second.links or first.links)[-1].zone)),
        walks=(first.nodes, second.nodes),
        edit=tuple(operation.as_mapping() for operation in edit),
    )
