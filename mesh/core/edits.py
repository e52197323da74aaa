"""The smallest edit that makes an illegal topology legal. Spec: DESIGN 3, lab.md 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mesh.core.conflicts import Conflict, first_conflict
from mesh.core.walks import Graph
from mesh.model.topology import Link, Topology, Zone, ZoneKind

BRANCHES_MAX = 20_000
"""Edits that the exact search may try."""

EXPANDED_MAX = 1_000_000
"""Visits that it may continue from; with the other limit, a few seconds."""

REMOVALS_MAX = 2_000
"""Beyond this no edit is proposed: the file needs another idea, not a list."""


class LinkOperation(StrEnum):
    """What an edit does to one link; better ones first."""

    MOVE = "move"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Edit:
    """One operation on one link.

    Attributes:
        operation: What to do.
        link: The link as it is now.
        zone: The zone it is put in, or removed from.
        is_new: Whether the link is one that the change adds.
    """

    operation: LinkOperation
    link: Link
    zone: str
    is_new: bool = False

    @property
    def rank(self) -> tuple[bool, bool, tuple[str, str], str, str]:
        """Return the order among edits: new links first, move before remove, then by name."""
        return (
            not self.is_new,
            self.operation is LinkOperation.REMOVE,
            self.link.ends,
            self.zone,
            self.link.zone,
        )

    def __str__(self) -> str:
        """Return the edit as advice."""
        first, second = self.link.ends
        what = "the new link" if self.is_new else "link"
        if self.operation is LinkOperation.REMOVE:
            return f"remove {what} {first}-{second} from zone {self.zone}"
        return f"move {what} {first}-{second} from zone {self.link.zone} to zone {self.zone}"

    def as_mapping(self) -> Mapping[str, object]:
        """Return the edit for scripts. Spec: lab.md 3."""
        return {"op": str(self.operation), "link": list(self.link.ends), "zone": self.zone}


def smallest_edit(topology: Topology, since: Topology | None = None) -> Sequence[Edit]:
    """Return the fewest operations that make a topology legal.

    Among edits with equally many operations the one that touches the fewest earlier links is
    taken, then the one with most moves, then the first by name. The links of a cluster zone are
    not edited, because a cluster is always fully linked; no link is moved into or out of an
    exclusive zone, whose members are in no other; a join is only removed, because as a link of
    another zone it would carry other messages. A `nodes:` zone of another kind becomes one of
    explicit links.

    The search branches only over links of two conflicting walks: an edit that touches none of
    them leaves both in place. It is exact within `BRANCHES_MAX` and `EXPANDED_MAX`. Beyond them
    it is the best found so far of the smallest size; or, if there is none, removals that are all
    needed; or nothing beyond `REMOVALS_MAX`.

    Args:
        topology: The one in question.
        since: The topology that it is to follow, if there is one: of two solutions, what the
            change adds goes rather than what was there.

    Returns:
        Operations in order; none if the topology is legal.

    Spec: lab.md 3.
    """
    search = _Search.over(topology, since)
    try:
        return search.smallest()
    except _ExhaustedError:
        return search.best or _removals(_Search.over(topology, since))


class _ExhaustedError(Exception):
    """The exact search has taken too long."""


@dataclass(slots=True, kw_only=True)
class _Search:
    """Tries edits on a graph in place and undoes each.

    Attributes:
        graph: The graph as edited so far.
        zones: Zones of the topology.
        targets: Zones that a link can be moved to, sorted.
        new: Links that the change adds.
        sources: Nodes, the last one with a conflict first: it often shows the next.
        seen: Sets of edits tried, because the same set can be reached in any order.
        best: Best edit of the present size.
        branches: Edits tried so far.
    """

    graph: Graph
    zones: Mapping[str, Zone]
    targets: Sequence[str]
    new: frozenset[Link]
    sources: list[str]
    seen: set[frozenset[Edit]] = field(default_factory=set)
    best: tuple[Edit, ...] | None = None
    branches: int = 0

    @classmethod
    def over(cls, topology: Topology, since: Topology | None) -> _Search:
        """Return a search that has not tried anything yet."""
        new = () if since is None else set(topology.links) - set(since.links)
        return cls(
            graph=Graph.of(topology),
            zones=topology.zones,
            targets=sorted(
                name
                for name, zone in topology.zones.items()
                if zone.kind.takes_links and not zone.exclusive
            ),
            new=frozenset(new),
            sources=sorted(topology.nodes),
        )

    def smallest(self) -> Sequence[Edit]:
        """Return the best of the smallest edits.

        Raises:
            _ExhaustedError: There are too many to try.
        """
        size = 0
        while self.best is None:
            self.seen.clear()
            self._branch((), size, only_one=size == 1)
            size += 1
        return self.best

    def conflict(self) -> Conflict | None:
        """Return a conflict of the graph as edited, or None if it is legal."""
        found = first_conflict(self.graph, self.sources)
        if found is not None and found.source != self.sources[0]:
            self.sources.remove(found.source)
            self.sources.insert(0, found.source)
        return found

    def _branch(self, edits: tuple[Edit, ...], left: int, *, only_one: bool) -> None:
        self.branches += 1
        if self.branches > BRANCHES_MAX or self.graph.expanded > EXPANDED_MAX:
            raise _ExhaustedError
        conflict = self.conflict()
        if conflict is None:
            self.best = tuple(sorted(edits, key=_rank))
            return
        if left == 0:
            return
        decided = {_result(edit) for edit in edits}
        choices = [
            edit
            for link in conflict.links()
            if link not in decided
            for edit in self._edits_of(link, only_one=only_one)
        ]
        for edit in sorted(choices, key=_rank):
            extended = (*edits, edit)
            key = frozenset(extended)
            if key in self.seen or (left == 1 and self._is_no_better(extended)):
                continue
            self.seen.add(key)
            self.apply(edit)
            self._branch(extended, left - 1, only_one=only_one)
            self.undo(edit)

    def _is_no_better(self, edits: Sequence[Edit]) -> bool:
        """Return whether a complete edit could not replace the best found, legal or not."""
        return self.best is not None and _ranks(sorted(edits, key=_rank)) >= _ranks(self.best)

    def _edits_of(self, link: Link, *, only_one: bool) -> Iterator[Edit]:
        """Yield what can be done with a link.

        A link moved to a zone without links at its ends is alone there, whatever the zone: with
        only one edit, the first such zone by name stands for all of its kind.
        """
        zone = self.zones[link.zone]
        if zone.kind is ZoneKind.CLUSTER:
            return
        alone: dict[bool, None] = {}
        is_fixed = zone.exclusive or zone.kind is ZoneKind.JOIN
        for name in () if is_fixed else self.targets:
            if name == link.zone or self.graph.has(Link(name, link.ends)):
                continue
            if only_one and not any(self.graph.exits[end].get(name) for end in link.ends):
                is_external = self.zones[name].kind is ZoneKind.EXTERNAL
                if is_external in alone:
                    continue
                alone[is_external] = None
            yield Edit(LinkOperation.MOVE, link, name, link in self.new)
        yield Edit(LinkOperation.REMOVE, link, link.zone, link in self.new)

    def apply(self, edit: Edit) -> None:
        """Change the graph."""
        self.graph.remove(edit.link)
        if edit.operation is LinkOperation.MOVE:
            self.graph.add(_result(edit))

    def undo(self, edit: Edit) -> None:
        """Change the graph back."""
        if edit.operation is LinkOperation.MOVE:
            self.graph.remove(_result(edit))
        self.graph.add(edit.link)


def _result(edit: Edit) -> Link:
    """Return the link as the edit leaves it, or as it was when removed."""
    return Link(edit.zone, edit.link.ends)


def _rank(edit: Edit) -> tuple[bool, bool, tuple[str, str], str, str]:
    return edit.rank


def _ranks(edits: Sequence[Edit]) -> tuple[int, int, Sequence[tuple[object, ...]]]:
    old = sum(not edit.is_new for edit in edits)
    removals = sum(edit.operation is LinkOperation.REMOVE for edit in edits)
    return old, removals, [edit.rank for edit in edits]


def _removals(search: _Search) -> Sequence[Edit]:
    """Return removals that make the graph legal and are all needed."""
    edits: list[Edit] = []
    while (conflict := search.conflict()) is not None:
        if len(edits) >= REMOVALS_MAX:
            return ()
        movable = [x for x in conflict.loop() if search.zones[x.zone].kind is not ZoneKind.CLUSTER]
        link = min(movable, key=lambda one: one not in search.new)
        edit = Edit(LinkOperation.REMOVE, link, link.zone, link in search.new)
        search.apply(edit)
        edits.append(edit)
    budget = search.graph.expanded + EXPANDED_MAX
    for edit in list(edits):
        if search.graph.expanded > budget:
            break
        search.undo(edit)
        if search.conflict() is None:
            edits.remove(edit)
        else:
            search.apply(edit)
    return sorted(edits, key=_rank)
