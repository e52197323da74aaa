"""What only the owner of lane 0 does: offer interest, prove it, acknowledge, beat.

Spec: K16, K22-K26, K32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.completion import Completion, Need
from mesh.core.forwarding import offers, ownership_after, scope_is_per_link
from mesh.core.interest import ADDRESS, Member, Members, union
from mesh.core.joins import row_over
from mesh.core.routing import LocalLink
from mesh.core.scopes import ScopeWriter
from mesh.model.control import (
    Heartbeat,
    LinkStatus,
    Mark,
    Ownership,
    Scope,
    Wish,
    is_address,
)
from mesh.model.effects import (
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLearned,
    WriteLinkState,
    WriteMark,
    WriteRepair,
    WriteStop,
    WriteSubscribed,
)
from mesh.model.topology import ZoneKind
from mesh.node.learner import CLIENTS, Learner, Round, neighbour_of

BEAT_MS = 1000
"""Time between heartbeats. Spec: K32."""

REMEMBER_MS = 2_000
"""Least time between two looks at what neighbours want: sets may be large, and change often."""

Writes = (
    WriteAdvert
    | WriteMark
    | WriteAck
    | WriteSubscribed
    | WriteHeartbeat
    | WriteLinkState
    | WriteStop
    | WriteRepair
)


@dataclass(slots=True)
class Leader:
    """Offers what the learner knows, once it is in force in every lane.

    Attributes:
        node: Name of this node.
        epoch: Its epoch, raised at each taking of lane 0.
        links: Its links.
        written: What its control topic offered when lane 0 was taken; empty once compared.
        stops: Topic partitions that it called stopped then.
    """

    node: str
    epoch: int
    links: Sequence[LocalLink]
    written: Mapping[Scope, Mapping[str, Wish]]
    stops: Sequence[tuple[str, int]] = ()
    completion: Completion = field(init=False)
    _scopes: dict[Scope, ScopeWriter] = field(init=False)
    _applied: dict[str, tuple[int, int]] = field(default_factory=dict)
    _has_offered: bool = False
    _beat: int = 0
    _beat_at_ms: int = 0
    _remembered_at_ms: int = -REMEMBER_MS
    _remembered: dict[tuple[str, Scope], tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Know every scope from the start; each gets a mark even if nothing is offered in it."""
        self.completion = Completion(self.node, self.epoch)
        self._scopes = {scope: ScopeWriter() for scope in scopes_of(self.links)}

    # -- offers ---------------------------------------------------------------------------

    def offer(self, learner: Learner, round_: Round) -> Iterator[Writes]:
        """Offer what a round in force in every lane has changed, then acknowledge it.

        The first time, what the control topic offers already is compared with what it should
        offer, and only the difference is written. Spec: K16, K25.
        """
        if self._has_offered:
            yield from self._offer_changes(learner, round_.touched)
        else:
            yield from self._offer_everything(learner)
            yield from learner.troubles.everything(self.stops)
        self._has_offered = True
        self._apply(learner, round_)

    def _offer_everything(self, learner: Learner) -> Iterator[Writes]:
        entries = learner.router.table.entries
        for scope, writer in self._scopes.items():
            written = self.written.get(scope, {})
            wanted: dict[str, Wish] = {}
            for filter_ in sorted(entries):
                wish = offered(filter_, entries[filter_], scope, self._link(scope))
                if wish is not None:
                    wanted[filter_] = wish
                    writer.change(filter_, None, wish)
                    if written.get(filter_) != wish:
                        yield WriteAdvert(scope, filter_, wish)
            for filter_ in sorted(written):
                if filter_ not in wanted:
                    yield WriteAdvert(scope, filter_, None)
            yield WriteMark(scope, writer.next_mark(self.epoch))
        self.written = {}

    def _offer_changes(self, learner: Learner, touched: Mapping[str, Members]) -> Iterator[Writes]:
        table = learner.router.table
        for scope, writer in self._scopes.items():
            link = self._link(scope)
            is_changed = False
            for filter_ in sorted(touched):
                before = offered(filter_, touched[filter_], scope, link)
                after = offered(filter_, table.members(filter_), scope, link)
                if before != after:
                    is_changed = True
                    writer.change(filter_, before, after)
                    yield WriteAdvert(scope, filter_, after)
            if is_changed:
                yield WriteMark(scope, writer.next_mark(self.epoch))

    @property
    def has_offered(self) -> bool:
        """Whether what the topic said at the beginning is compared."""
        return self._has_offered

    def entry(self, learner: Learner, scope: Scope, filter_: str) -> Wish | None:
        """Return what is offered of a filter; None in a scope that this node does not write."""
        if scope not in self._scopes:
            return None
        members = learner.router.table.members(filter_)
        return offered(filter_, members, scope, self._link(scope))

    def mark_again(self, scopes: Sequence[Scope]) -> Iterator[WriteMark]:
        """Write another mark of these scopes, so that their readers judge anew."""
        for scope in scopes:
            if scope in self._scopes:
                yield WriteMark(scope, self._scopes[scope].next_mark(self.epoch))

    def _link(self, scope: Scope) -> LocalLink:
        """Return a link that a scope is offered on; all of its zone follow the same rule."""
        return next(link for link in self.links if link.zone == scope.zone)

    # -- acknowledgements -----------------------------------------------------------------

    def _apply(self, learner: Learner, round_: Round) -> None:
        for source, (epoch, number) in round_.in_force.items():
            if neighbour_of(source) in learner.router.closed:
                continue  # nobody reads it; what counts is what is proven after the enabling
            if self._applied.get(source) != (epoch, number):
                self._applied[source] = (epoch, number)
                self.completion.applied(source, epoch, number, self._needs(source, learner))

    def _needs(self, source: str, learner: Learner) -> Sequence[Need]:
        name, _, text = source.partition(" ")
        fed = (
            scopes_fed(self.links, learner.neighbours[name].link, Scope.parse(text))
            if text
            else _scopes_offering(self.links, ADDRESS)
        )
        return [
            Need(scope, self._scopes[scope].number, readers)
            for scope in fed
            if (readers := tuple(r for r in readers_of(self.links, scope) if r != name))
        ]

    def acknowledge(self) -> Iterator[Writes]:
        """Tell neighbours and clients what is news about applied, complete and open. Spec: K24."""
        for source, ack in self.completion.settle().items():
            if source == CLIENTS:
                yield WriteSubscribed(replace(ack, epoch=self.epoch))
                continue
            name, _, text = source.partition(" ")
            yield WriteAck(name, Scope.parse(text), ack)

    # -- heartbeat ------------------------------------------------------------------------

    def beat(self, learner: Learner, now_ms: int, *, is_ready: bool) -> Iterator[Writes]:
        """Beat once a second, and tell each neighbour the last beat read of it. Spec: K32."""
        if self._beat and now_ms - self._beat_at_ms < BEAT_MS:
            return
        self._beat += 1
        self._beat_at_ms = now_ms
        links: list[LinkStatus] = [
            learner.troubles.seen(neighbour.status(learner.troubles.of_neighbour(name)))
            for name, neighbour in learner.neighbours.items()
        ]
        endpoints = tuple(learner.troubles.endpoints.values())
        beat = Heartbeat(self.epoch, self._beat, is_ready, tuple(links), endpoints)
        yield WriteHeartbeat(beat)
        for name, neighbour in learner.neighbours.items():
            yield WriteLinkState(name, *neighbour.beat)

    def remember(
        self, learner: Learner, now_ms: int, *, at_once: bool = False
    ) -> Iterator[WriteLearned]:
        """Keep the proven guaranteed interest of neighbours, for starts without them. Spec: K21."""
        if now_ms - self._remembered_at_ms < REMEMBER_MS and not at_once:
            return
        self._remembered_at_ms = now_ms
        for name, scope, mark, filters in learner.proven_interest():
            if self._remembered.get((name, scope)) != filters:
                self._remembered[name, scope] = filters
                yield WriteLearned(name, scope, mark.epoch, mark.number, filters)

    def marks(self) -> Mapping[Scope, Mark]:
        """Return the newest mark of each scope."""
        return {
            scope: Mark(self.epoch, writer.number, writer.count, writer.digest)
            for scope, writer in self._scopes.items()
        }


def scopes_of(links: Sequence[LocalLink]) -> Sequence[Scope]:
    """Return the scopes in which a node with these links offers interest. Spec: K22."""
    scopes: dict[Scope, None] = {}
    for link in links:
        reader = link.neighbour if scope_is_per_link(link.kind) else ""
        for ownership in Ownership:
            if offers(link.kind, learned_on_zone=False, learned_on_link=False, ownership=ownership):
                scopes[Scope(link.zone, reader, ownership)] = None
            for row in link.back:
                scopes[Scope(link.zone, link.neighbour, ownership, row)] = None
    return sorted(scopes)


def readers_of(links: Sequence[LocalLink], scope: Scope) -> Sequence[str]:
    """Return the neighbours that read a scope."""
    return [
        link.neighbour
        for link in links
        if link.zone == scope.zone and scope.neighbour in ("", link.neighbour)
    ]


def scopes_fed(links: Sequence[LocalLink], learned_on: LocalLink, scope: Scope) -> Sequence[Scope]:
    """Return the scopes in which interest learned in a neighbour's scope is offered onward."""
    ownership = ownership_after(learned_on.kind, scope.ownership)
    member = Member(learned_on.zone, learned_on.neighbour, ownership, scope.row)
    return _scopes_offering(links, member)


def _scopes_offering(links: Sequence[LocalLink], member: Member) -> Sequence[Scope]:
    by_zone = {link.zone: link for link in links}
    return [fed for fed in scopes_of(links) if _is_offered(member, fed, by_zone[fed.zone])]


def offered(filter_: str, members: Members, scope: Scope, link: LocalLink) -> Wish | None:
    """Return what is offered in a scope of a filter with these members, or None.

    Over joins that is addresses alone. Spec: K22, K26, DESIGN 3.
    """
    if link.kind is ZoneKind.JOIN and not is_address(filter_):
        return None
    return union(wish for member, wish in members if _is_offered(member, scope, link))


def _is_offered(member: Member, scope: Scope, link: LocalLink) -> bool:
    if link.kind is ZoneKind.JOIN:
        return (
            member.ownership is scope.ownership
            and member.zone != scope.zone
            and link.into is not None
            and row_over(member.row, link.into.hops) == scope.row
        )
    return member.ownership is scope.ownership and offers(
        link.kind,
        learned_on_zone=member.zone == scope.zone,
        learned_on_link=member.zone == scope.zone and member.name == scope.neighbour,
        ownership=member.ownership,
    )
