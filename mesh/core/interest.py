"""Interest as member sets: who wants which filter at this node.

Nothing is counted: a filter's interest is the union of its members' interests, so an event that is
repeated, late or out of order cannot leave a wrong number behind. The members of a filter are
one shared tuple, because thousands of filters have the same ones. Spec: K22, K8 of scenarios.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field

from mesh.core.matcher import Matched, ShapeIndex
from mesh.core.queues import Attractions
from mesh.model.control import Interest, Ownership
from mesh.model.joins import NO_JOINS, JoinRow
from mesh.model.queues import Attraction
from mesh.model.subject import matches


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """Somebody who wants a filter: an endpoint of this node, the node itself, or a neighbour.

    Attributes:
        zone: Zone over which the interest was learned; empty for what belongs to this node.
        name: The neighbour's name, or the endpoint's; what starts with `$` is the node itself.
        ownership: Whether it was learned without crossing an external link.
        row: Joins in a row by which an address arrived here.
        noexport: Whether it is an endpoint whose interest is offered to nobody. Spec: DMR-12.
    """

    zone: str
    name: str
    ownership: Ownership = Ownership.OWN
    row: JoinRow = NO_JOINS
    noexport: bool = False

    @property
    def is_endpoint(self) -> bool:
        """Whether it is an endpoint of this node."""
        return not self.zone and not self.name.startswith("$")


ADDRESS = Member("", "$node")
"""The node itself, as the member that wants its own address. Spec: K26."""

JOINED = Member("", "$join")
"""The node itself, as the source of its joins: what they carry is wanted here. Spec: UM-1."""

STATIC = Member("", "$static")
"""The node itself, because the topology makes it want a filter."""

Members = tuple[tuple[Member, Interest], ...]
"""The members of one filter with their interest, sorted by member."""


def union(interests: Iterable[Interest]) -> Interest | None:
    """Return the one interest that stands for several, or None for none. Spec: DESIGN 6."""
    durable = live = static = present = False
    offset: int | None = None
    for interest in interests:
        present = True
        durable |= interest.durable
        live |= interest.live
        static |= interest.static
        if interest.clients_offset is not None:
            offset = (
                interest.clients_offset if offset is None else max(offset, interest.clients_offset)
            )
    return Interest(durable, live, static, offset) if present else None


def _member_of(pair: tuple[Member, Interest]) -> Member:
    return pair[0]


SPARE_MAX = 64
"""How many tuples of members may be kept beside those in use."""

EXACT_FILTERS = 4
EXACT_MEMBERS = 8
"""Members with up to so many surplus filters, while there are few of them, get exact matches."""


@dataclass(slots=True)
class Surplus:
    """Filters of surplus shapes, merged under a wider one, by member.

    A client may write filters of as many shapes as it likes. Beyond those that the index looks up
    individually they cost the same however many there are: for a member with a few each is
    checked, one with many gets what the wider filter selects. Spec: DESIGN 3.
    """

    _filters: dict[Member, dict[str, Interest]] = field(default_factory=dict)
    _interests: dict[Member, dict[Interest, dict[str, None]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._filters)

    def put(self, filter_: str, before: Members, after: Members) -> None:
        """Record the members of a filter, now and before."""
        for member, interest in before:
            filters, interests = self._filters[member], self._interests[member]
            del filters[filter_], interests[interest][filter_]
            if not interests[interest]:
                del interests[interest]
            if not filters:
                del self._filters[member], self._interests[member]
        for member, interest in after:
            self._filters.setdefault(member, {})[filter_] = interest
            self._interests.setdefault(member, {}).setdefault(interest, {})[filter_] = None

    def wanted(self, subject: str) -> Members:
        """Return the members that get a subject which the wider filter selects."""
        found: list[tuple[Member, Interest]] = []
        for member, filters in self._filters.items():
            if self._is_exact(filters):
                interest = union(
                    interest for one, interest in filters.items() if matches(one, subject)
                )
            else:
                interest = union(self._interests[member])
            if interest is not None:
                found.append((member, interest))
        return tuple(sorted(found, key=lambda pair: pair[0]))

    def widened(self) -> Iterator[Member]:
        """Yield the members with too many of them, which get all that the wider filter selects."""
        return (member for member, one in self._filters.items() if not self._is_exact(one))

    def _is_exact(self, filters: Sized) -> bool:
        return len(self._filters) <= EXACT_MEMBERS and len(filters) <= EXACT_FILTERS


@dataclass(slots=True)
class InterestTable:
    """Filter -> members, and the index that finds the filters of a subject.

    Attributes:
        entries: All entries.
        attractions: The entries that attract to queues, which no subject matches by itself.
    """

    entries: dict[str, Members] = field(default_factory=dict)
    attractions: Attractions = field(default_factory=Attractions)
    _index: ShapeIndex = field(default_factory=ShapeIndex)
    _surplus: dict[str, Surplus] = field(default_factory=dict)
    _shared: dict[Members, Members] = field(default_factory=dict)

    def put(self, filter_: str, member: Member, interest: Interest | None) -> bool:
        """Set or remove what one member wants of a filter.

        Args:
            filter_: As the member said it: a subject, or one with wildcards.
            member: Who wants it: an endpoint here, or a neighbour on a zone.
            interest: What it wants from now on; None if nothing.

        Returns:
            Whether anything changed: if so, routes that were found before may be wrong.
        """
        before = self.entries.get(filter_)
        if before is None:
            if interest is None:
                return False
            self._file(filter_)
            alone = ((member, interest),)
            self.entries[filter_] = self._shared.setdefault(alone, alone)
            self._merge(filter_, (), alone)
            return True
        kept = [pair for pair in before if pair[0] != member]
        if interest is not None:
            kept.append((member, interest))
            kept.sort(key=_member_of)
        after = tuple(kept)
        if after == before:
            return False
        self._merge(filter_, before, after)
        if not after:
            del self.entries[filter_]
            self._unfile(filter_)
            return True
        self.entries[filter_] = self._shared.setdefault(after, after)
        if len(self._shared) > SPARE_MAX + 2 * len(self.entries):
            # A node's own address changes with every new subscription.
            self._shared = {members: members for members in self.entries.values()}
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

    def _merge(self, filter_: str, before: Members, after: Members) -> None:
        """Keep a filter of a surplus shape with the others under the same wider one."""
        wider = self._index.widened.get(filter_)
        if wider is None:
            return
        surplus = self._surplus.setdefault(wider, Surplus())
        surplus.put(filter_, before, after)
        if not surplus:
            del self._surplus[wider]

    def members(self, filter_: str) -> Members:
        """Return the members of exactly this filter."""
        return self.entries.get(filter_, ())

    def matched(self, subject: str) -> Matched:
        """Return the filters that match a subject, and those that surplus ones are merged under."""
        return self._index.match(subject, self.entries, self._surplus)

    def matching(self, subject: str) -> Iterator[tuple[str, Members]]:
        """Yield (filter, members) for every filter that matches the subject, sorted.

        Filters of surplus shapes appear as the one wider filter they are merged under. Spec: DESIGN
        3.
        """
        yield from self.wanted(subject, self.matched(subject))[0]

    def wanted(
        self, subject: str, matched: Matched
    ) -> tuple[Sequence[tuple[str, Members]], frozenset[Member]]:
        """Return what `matching` yields, and members that get the subject but may not want it.

        They get it by a wider filter than they subscribed. Whether one of their own filters selects
        it is not checked, since that would take longer the more filters they have: at worst their
        copies are needless. Spec: DESIGN 3.
        """
        exact, wider = matched
        all_of_them = [(filter_, self.entries[filter_]) for filter_ in exact]
        if not wider:
            return all_of_them, frozenset()
        named = {member for _, members in all_of_them for member, _ in members}
        widened: set[Member] = set()
        for filter_ in wider:
            if members := self._surplus[filter_].wanted(subject):
                all_of_them.append((filter_, members))
                widened.update(self._surplus[filter_].widened())
        return all_of_them, frozenset(widened - named)
