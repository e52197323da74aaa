"""Interest as member sets: who wants which filter at this node.

Nothing is counted: a filter's wish is the union of its members' wishes, so an event that is
repeated, late or out of order cannot leave a wrong number behind. The members of a filter are
one shared tuple, because thousands of filters have the same ones. Spec: K22, K8 of scenarios.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mesh.core.matcher import ShapeIndex
from mesh.core.queues import Attractions
from mesh.model.control import Ownership, Wish
from mesh.model.joins import NO_JOINS, JoinRow
from mesh.model.queues import Attraction


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """Somebody who wants a filter: an endpoint of this node, the node itself, or a neighbour.

    Attributes:
        zone: Zone over which the wish was learned; empty for what is of this node.
        name: The neighbour's name, or the endpoint's; what starts with `$` is the node itself.
        ownership: Whether it was learned without crossing an external link.
        row: Joins in a row by which an address came here.
    """

    zone: str
    name: str
    ownership: Ownership = Ownership.OWN
    row: JoinRow = NO_JOINS

    @property
    def is_endpoint(self) -> bool:
        """Whether it is an endpoint of this node."""
        return not self.zone and not self.name.startswith("$")


ADDRESS = Member("", "$node")
"""The node itself, which is wanted by its address. Spec: K26."""

JOINED = Member("", "$join")
"""The node itself, as the source of its joins: what they carry is wanted here. Spec: UM-1."""

Members = tuple[tuple[Member, Wish], ...]
"""The members of one filter with their wishes, sorted by member."""


def union(wishes: Iterable[Wish]) -> Wish | None:
    """Return the one wish that stands for several, or None for none. Spec: DESIGN 6."""
    durable = live = static = present = False
    offset: int | None = None
    for wish in wishes:
        present = True
        durable |= wish.durable
        live |= wish.live
        static |= wish.static
        if wish.clients_offset is not None:
            offset = wish.clients_offset if offset is None else max(offset, wish.clients_offset)
    return Wish(durable, live, static, offset) if present else None


def _member_of(pair: tuple[Member, Wish]) -> Member:
    return pair[0]


@dataclass(slots=True)
class InterestTable:
    """Filter -> members, and the index that finds the filters of a subject.

    Attributes:
        entries: All there is.
        attractions: What of it attracts to queues, which no subject matches by itself.
    """

    entries: dict[str, Members] = field(default_factory=dict)
    attractions: Attractions = field(default_factory=Attractions)
    _index: ShapeIndex = field(default_factory=ShapeIndex)
    _shared: dict[Members, Members] = field(default_factory=dict)

    def put(self, filter_: str, member: Member, wish: Wish | None) -> bool:
        """Set or, with None, remove one member's wish; say whether anything changed."""
        before = self.entries.get(filter_, ())
        kept = [pair for pair in before if pair[0] != member]
        if wish is not None:
            kept.append((member, wish))
            kept.sort(key=_member_of)
        after = tuple(kept)
        if after == before:
            return False
        if not after:
            del self.entries[filter_]
            self._unfile(filter_)
            return True
        if not before:
            self._file(filter_)
        self.entries[filter_] = self._shared.setdefault(after, after)
        return True

    def _file(self, filter_: str) -> None:
        attraction = Attraction.parse(filter_)
        if attraction is None:
            self._index.add(filter_)
        else:
            self.attractions.add(attraction)

    def _unfile(self, filter_: str) -> None:
        attraction = Attraction.parse(filter_)
        if attraction is None:
            self._index.remove(filter_)
        else:
            self.attractions.remove(attraction)

    def members(self, filter_: str) -> Members:
        """Return who wants exactly this filter."""
        return self.entries.get(filter_, ())

    def matching(self, subject: str) -> Iterator[tuple[str, Members]]:
        """Yield (filter, members) for every filter that matches the subject, sorted."""
        for filter_ in self._index.match(subject, self.entries):
            yield filter_, self.entries[filter_]

    def shape_count(self) -> int:
        """Return how many wildcard shapes are in use."""
        return len(self._index.shapes)

    def widened_count(self) -> int:
        """Return how many filters are matched by a wider one. Spec: DESIGN 3."""
        return len(self._index.widened)
