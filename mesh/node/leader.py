"""What only the owner of lane 0 does: offer interest, prove it, acknowledge, beat.

Spec: K16, K22-K26, K32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.completion import Completion, Need
from mesh.core.covering import Covering, Difference
from mesh.core.interest import ADDRESS, Members
from mesh.core.local_links import LocalLink
from mesh.core.scopes import ScopeWriter
from mesh.model.control import (
    ChangeStatus,
    Interest,
    Mark,
    Scope,
    Version,
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
from mesh.model.inputs import AckRead
from mesh.model.interest_inputs import (
    CLIENTS,
    VersionByInput,
    is_acknowledged,
    neighbour_of,
    scope_of,
)
from mesh.model.links import Gate
from mesh.node.beating import Beating
from mesh.node.demands import Demands
from mesh.node.learner import Learner
from mesh.node.offers import (
    differing,
    link_of,
    offered,
    readers_of,
    scopes_fed,
    scopes_of,
    scopes_offering,
)
from mesh.node.remembering import Remembering
from mesh.node.rounds import Round

Writes = (
    WriteAdvert
    | WriteMark
    | WriteAck
    | WriteSubscribed
    | WriteHeartbeat
    | WriteLearned
    | WriteLinkState
    | WriteStop
    | WriteRepair
)


@dataclass(slots=True)
class Leader:
    """Offers what the learner knows, once it is in force in every lane.

    Attributes:
        node: Name of this node.
        epoch: Its epoch, raised each time lane 0 is taken.
        links: Its links.
        written: What its control topic offered when lane 0 was taken; empty once compared.
        stops: Topic partitions that it reported as stopped then.
        awaited: Neighbours that must know what the newest topology offers: see `LinkChanges`.
    """

    node: str
    epoch: int
    links: Sequence[LocalLink]
    written: dict[Scope, dict[str, Interest]]
    stops: Sequence[tuple[str, int]] = ()
    awaited: Sequence[str] = ()
    completion: Completion = field(init=False)
    beating: Beating = field(init=False)
    remembering: Remembering = field(default_factory=Remembering)
    _scopes: dict[Scope, ScopeWriter] = field(init=False)
    _covers: dict[Scope, Covering] = field(default_factory=dict)
    _applied: dict[str, Version] = field(default_factory=dict)
    _has_offered: bool = False
    _numbers: dict[Scope, int] = field(default_factory=dict)
    _awaited: dict[tuple[str, Scope], int] = field(default_factory=dict)
    _shut: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set up every scope from the start; each gets a mark even if nothing is offered in it."""
        self.completion = Completion(self.node, self.epoch)
        self.beating = Beating(self.epoch)
        self._scopes = {scope: ScopeWriter() for scope in scopes_of(self.links)}

    # -- offers ---------------------------------------------------------------------------

    def offer(
        self, learner: Learner, round_: Round, lanes: Sequence[VersionByInput]
    ) -> Iterator[Writes]:
        """Offer what a round in force in every lane has changed, and remember it to acknowledge it.

        The first time, what the control topic already offers is compared with what it should
        offer, and only the difference is written. Spec: K16, K25.
        """
        if self._has_offered and self.links is not learner.links:
            yield from self._relink(learner, round_)
        elif self._has_offered:
            yield from self._offer_changes(learner, round_.touched)
        else:
            if self.links is not learner.links:  # a change came before anything was offered
                self.links, self.awaited = learner.links, round_.links.awaited
                self._scopes = {scope: ScopeWriter() for scope in scopes_of(self.links)}
            yield from self._offer_everything(learner)
            self._await(self.awaited)
            yield from learner.faults.everything(self.stops)
        self._has_offered = True
        yield from self.remembering.add(learner.neighbours, lanes, round_)
        yield from self._ask_again(learner)
        self._apply(learner, round_)

    def _offer_everything(self, learner: Learner) -> Iterator[Writes]:
        entries = learner.router.table.entries
        for scope, writer in self._scopes.items():
            written = self.written.get(scope, {})
            wanted: dict[str, Interest] = {}
            for filter_ in sorted(entries):
                interest = offered(filter_, entries[filter_], scope, self._link(scope))
                if interest is not None:
                    wanted[filter_] = interest
            if learner.covering:
                wanted = self._covered(scope, wanted)
            for filter_, interest in wanted.items():
                writer.change(filter_, None, interest)
                if written.get(filter_) != interest:
                    yield WriteAdvert(scope, filter_, interest)
            for filter_ in sorted(written):
                if filter_ not in wanted:
                    yield WriteAdvert(scope, filter_, None)
            yield WriteMark(scope, writer.next_mark(self.epoch))
        for scope in sorted(self.written):
            if scope not in self._scopes:
                for filter_ in sorted(self.written[scope]):
                    yield WriteAdvert(scope, filter_, None)
                yield WriteMark(scope, None)
        self.written = {}

    def _offer_changes(self, learner: Learner, touched: Mapping[str, Members]) -> Iterator[Writes]:
        table = learner.router.table
        for scope, writer in self._scopes.items():
            link = self._link(scope)
            differences: Sequence[Difference] = differing(touched, table, scope, link)
            if scope in self._covers:
                changes = {filter_: after for filter_, _, after in differences}
                differences = self._covers[scope].apply(changes)
            for filter_, before, after in differences:
                writer.change(filter_, before, after)
                yield WriteAdvert(scope, filter_, after)
            if differences:
                yield WriteMark(scope, writer.next_mark(self.epoch))

    def _relink(self, learner: Learner, round_: Round) -> Iterator[Writes]:
        """Offer over the links that a round has put in force what was offered over others before.

        Versions of a returning scope continue where they were: what readers acknowledged before
        its end must not count. Spec: K23, K28.
        """
        table, touched = learner.router.table, round_.touched
        old, self.links = self.links, learner.links
        filters = sorted({**table.entries, **touched})
        wanted = scopes_of(self.links)
        for scope in sorted({**self._scopes, **dict.fromkeys(wanted)}):
            was = link_of(old, scope) if scope in self._scopes else None
            now = link_of(self.links, scope) if scope in wanted else None
            writer = self._scopes.pop(scope, ScopeWriter(self._numbers.pop(scope, 0)))
            before: dict[str, Interest] = {}
            after: dict[str, Interest] = {}
            for filter_ in filters:
                members = table.members(filter_)
                known = touched.get(filter_, members)
                if was is not None and (interest := offered(filter_, known, scope, was)):
                    before[filter_] = interest
                if now is not None and (interest := offered(filter_, members, scope, now)):
                    after[filter_] = interest
            if (cover := self._covers.pop(scope, None)) is not None:
                before = cover.offered_of(before)
            if learner.covering and now is not None:
                after = self._covered(scope, after)
            is_changed = was is None or before != after
            for filter_ in sorted({**before, **after}):
                if (old_interest := before.get(filter_)) != (interest := after.get(filter_)):
                    writer.change(filter_, old_interest, interest)
                    yield WriteAdvert(scope, filter_, interest)
            if now is None:
                self._numbers[scope] = writer.number
                yield WriteMark(scope, None)
                continue
            self._scopes[scope] = writer
            # An earlier reader may have acknowledged the mark over its new link already, and that
            # is forgotten below.
            is_changed |= any(one in round_.links.added for one in readers_of(self.links, scope))
            if is_changed:
                yield WriteMark(scope, writer.next_mark(self.epoch))
        self._forget(round_.links.gone)
        self._await(round_.links.awaited)
        # Over a recreated link nobody has acknowledged anything.
        self.completion.await_more(lambda input_: self._needs_of_awaited(input_, learner))

    def _needs_of_awaited(self, input_: str, learner: Learner) -> Sequence[Need]:
        needs = [
            replace(need, readers=tuple(one for one in need.readers if one in self.awaited))
            for need in self._needs(input_, learner)
        ]
        return [need for need in needs if need.readers]

    def _covered(self, scope: Scope, entries: Mapping[str, Interest]) -> dict[str, Interest]:
        """Stop offering entries of a scope that others cover; return the rest."""
        cover = self._covers[scope] = Covering()
        cover.apply(entries)
        return cover.offered_of(entries)

    def _forget(self, gone: Sequence[str]) -> None:
        readers = {scope: readers_of(self.links, scope) for scope in self._scopes}
        self.completion.forget(gone, readers)
        for input_ in [one for one in self._applied if neighbour_of(one) in gone]:
            del self._applied[input_]
        self.remembering.forget(gone)

    def _await(self, awaited: Sequence[str]) -> None:
        """Record what must be acknowledged before the newest topology counts as known."""
        self.awaited = tuple(awaited)
        self._awaited = {
            (reader, scope): writer.number
            for scope, writer in self._scopes.items()
            for reader in readers_of(self.links, scope)
            if reader in awaited
        }

    def is_linked(self, learner: Learner) -> bool:
        """Return whether both ends of awaited links know all that the other offers. Spec: K27."""
        gates = {name: learner.neighbours[name].gate for name in self.awaited}
        refused = [n for n, gate in gates.items() if gate and gate.state is Gate.REFUSED]
        return self.knows_awaited(learner) and all(
            reader in refused or self.completion.has(reader, scope, number)
            for (reader, scope), number in self._awaited.items()
        )

    def is_complete(self, learner: Learner) -> bool:
        """Return whether everyone present and wanted has completed what is offered now. K24."""
        wanted = [
            name for name, one in learner.neighbours.items() if one.is_open and not one.is_down
        ]
        return all(learner.neighbours[name].is_known for name in wanted) and all(
            self.completion.has(reader, scope, writer.number)
            for scope, writer in self._scopes.items()
            for reader in readers_of(self.links, scope)
            if reader in wanted
        )

    def knows_awaited(self, learner: Learner) -> bool:
        """Return whether all offers of the other ends of awaited links are proven here."""
        return all(learner.neighbours[name].is_known for name in self.awaited)

    def open_links(self) -> Sequence[tuple[str, str]]:
        """Return the links that have not yet acknowledged what the newest ones offer."""
        return self.completion.open_below(self._awaited)

    def note_written(self, scope: Scope, filter_: str, interest: Interest | None) -> None:
        """Record what its control topic offers, before that is compared with what it should."""
        entries = self.written.setdefault(scope, {})
        if interest is None:
            entries.pop(filter_, None)
        else:
            entries[filter_] = interest

    @property
    def has_offered(self) -> bool:
        """Whether the topic's content at the beginning has been compared."""
        return self._has_offered

    def entry(self, learner: Learner, scope: Scope, filter_: str) -> Interest | None:
        """Return what is offered for a filter; None in a scope that this node does not write."""
        if scope not in self._scopes:
            return None
        if scope in self._covers and filter_ in self._covers[scope].keepers:
            return None
        members = learner.router.table.members(filter_)
        return offered(filter_, members, scope, self._link(scope))

    def mark_again(self, scopes: Sequence[Scope]) -> Iterator[WriteMark]:
        """Write another mark of these scopes, so that their readers judge them again.

        A node that has offered nothing yet marks nothing: that would prove that nothing is wanted
        here. Its first offer marks every scope.
        """
        for scope in scopes:
            if self._has_offered and scope in self._scopes:
                yield WriteMark(scope, self._scopes[scope].next_mark(self.epoch))

    def ask_again(self, names: Sequence[str]) -> Iterator[WriteMark]:
        """Mark again what some neighbours read: their acknowledgements are lost. Spec: K24."""
        readers = {scope: readers_of(self.links, scope) for scope in self._scopes}
        yield from self.mark_again(
            [scope for scope, read_by in readers.items() if any(one in read_by for one in names)]
        )

    def _link(self, scope: Scope) -> LocalLink:
        return link_of(self.links, scope)

    # -- acknowledgements -----------------------------------------------------------------

    def _apply(self, learner: Learner, round_: Round) -> None:
        for input_, (epoch, number) in round_.in_force.items():
            name = neighbour_of(input_)
            if not learner.router.conduct(name).reads:
                continue  # nobody reads it; what is proven when it opens counts
            if is_acknowledged(input_) and self._applied.get(input_) != (epoch, number):
                self._applied[input_] = (epoch, number)
                self.completion.applied(input_, epoch, number, self._needs(input_, learner))

    def _needs(self, input_: str, learner: Learner) -> Sequence[Need]:
        name = neighbour_of(input_)
        fed = (
            scopes_fed(self.links, learner.neighbours[name].link, scope_of(input_))
            if name
            else scopes_offering(self.links, ADDRESS)
        )
        return [
            Need(scope, self._scopes[scope].number, readers)
            for scope in fed
            if (readers := self._readers(learner, scope, name))
        ]

    def _readers(self, learner: Learner, scope: Scope, but: str) -> tuple[str, ...]:
        """Return who must acknowledge a scope: nobody does over a link that is not open."""
        shut = learner.shut
        return tuple(r for r in readers_of(self.links, scope) if r != but and r not in shut)

    def shut(self, names: Sequence[str]) -> None:
        """Stop waiting for neighbours whose link carries nothing now. Spec: K24, K27."""
        self._forget(names)
        self._shut |= dict.fromkeys(names)

    def _ask_again(self, learner: Learner) -> Iterator[WriteMark]:
        """Mark again what neighbours read whose link was shut here and no longer is.

        One that never shut it at its end has acknowledged already, and says so only once. Spec:
        K24.
        """
        opened = [name for name in self._shut if name not in learner.shut]
        for name in opened:
            del self._shut[name]
        yield from self.ask_again(opened)

    def heed_silence(self, learner: Learner) -> Iterator[Writes]:
        """Report open links again when a neighbour falls silent or is heard again. Spec: K24."""
        silent = {name: None for name, one in learner.neighbours.items() if one.is_silent}
        if silent != self.completion.silent:
            self.completion.silent = silent
            yield from self.acknowledge()

    def acknowledged(self, read: AckRead) -> Iterator[Writes]:
        """Take how far a neighbour has applied a scope; announce what that completes. Spec: K24.

        Nobody has applied what was never written: such a record is damaged.
        """
        writer, ack = self._scopes.get(read.scope), read.ack
        if writer is not None and ack.complete <= ack.applied <= writer.number:
            self.completion.acknowledged(read.neighbour, read.scope, ack)
            yield from self.acknowledge()

    def acknowledge(self) -> Iterator[Writes]:
        """Publish to neighbours and clients what is new about applied, complete and open. K24."""
        for input_, ack in self.completion.settle().items():
            if input_ == CLIENTS:
                yield WriteSubscribed(replace(ack, epoch=self.epoch))
            else:
                yield WriteAck(neighbour_of(input_), scope_of(input_), ack)

    # -- heartbeat ------------------------------------------------------------------------

    def beat(
        self,
        learner: Learner,
        now_ms: int,
        *,
        is_ready: bool,
        demands: Demands,
        change: ChangeStatus | None = None,
        lost_topology: int = 0,
    ) -> Iterator[Writes]:
        """Beat once a second, and publish what is new at once. Spec: K32."""
        yield from self.beating.beat(
            learner,
            now_ms,
            demands,
            is_ready=is_ready,
            change=change,
            lost_topology=lost_topology,
        )

    def marks(self) -> Mapping[Scope, Mark]:
        """Return the newest mark of each scope."""
        return {
            scope: Mark(self.epoch, writer.number, writer.count, writer.digest)
            for scope, writer in self._scopes.items()
        }
