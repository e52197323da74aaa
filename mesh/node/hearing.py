"""What neighbours report: what they offer, and that they live.

Spec: K21-K26, K28, K32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.forwarding import ownership_after
from mesh.core.interest import Member
from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.core.scopes import ScopeReader
from mesh.model.control import (
    DOWN_AFTER_MS,
    NEVER,
    Heartbeat,
    Interest,
    Mark,
    Scope,
    Version,
    is_address,
)
from mesh.model.interest_inputs import VersionByInput, VersionByScope, input_name
from mesh.node.link_disabling import enable, open_if_proven, route_by
from mesh.node.neighbour import Neighbour
from mesh.node.pending_interest import PendingInterest
from mesh.node.relinking import LinkChanges
from mesh.node.remembering import is_kept
from mesh.node.unproven_neighbours import UnprovenNeighbours

CATCH_UP_MS = 2_000
"""How long after a neighbour is heard again its withdrawals of the meantime may still arrive."""


@dataclass(slots=True)
class Hearing:
    """Follows the control topics of the neighbours, and gathers their contents.

    Attributes:
        node: Name of this node.
        router: Routes by the mode of each link.
        pending: Waits for the next round.
        offered: Scopes in which each neighbour may offer interest; None: in all. Records of others
            are left over from another topology, or ahead of it.
        neighbours: By name.
    """

    node: str
    router: Router
    pending: PendingInterest
    offered: Mapping[str, Sequence[Scope]] | None
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    _unproven: UnprovenNeighbours = field(default_factory=UnprovenNeighbours)

    # -- what they offer ------------------------------------------------------------------

    def advert_read(self, name: str, scope: Scope, filter_: str, interest: Interest | None) -> None:
        """Record an entry that a neighbour offers or withdraws."""
        reader = self._scope(name, scope)
        if reader is not None:
            reader.advert(filter_, interest)

    def mark_read(self, name: str, scope: Scope, mark: Mark) -> None:
        """Gather what a mark puts in force."""
        reader, neighbour = self._scope(name, scope), self.neighbours[name]
        if reader is None:
            return
        if neighbour.is_read_again and not neighbour.caught_up:
            neighbour.marks[scope] = mark  # an old one would prove an outdated state
            return
        self._marked(name, scope, reader, mark)
        self._proven(neighbour)

    def _proven(self, neighbour: Neighbour) -> None:
        """Go by a neighbour's own word from here on, if everything that it offers is proven."""
        if neighbour.is_proven:
            neighbour.frozen = False
        open_if_proven(neighbour, self.router)

    def _marked(self, name: str, scope: Scope, reader: ScopeReader, mark: Mark) -> None:
        changes = reader.marked(mark)
        late = self.neighbours[name].late
        for filter_, interest in changes.items():
            late.pop((scope, filter_), None)
            if interest is None and self._is_catching_up(name) and not is_address(filter_):
                late[scope, filter_] = None
            else:
                self._gather(name, scope, filter_, interest)
        if new := [filter_ for filter_, interest in changes.items() if is_kept(filter_, interest)]:
            kept = self.pending.new_filters.setdefault((name, scope), {})
            kept.update(dict.fromkeys(new))
        if not any(one == scope for one, _ in late):
            self._note_version(name, scope, reader)

    def _note_version(self, name: str, scope: Scope, reader: ScopeReader) -> None:
        """Record how far the next round follows a scope: everything up to there is in force. K24.

        Something that a mark does not prove may lack entries that a stranger overwrote: they would
        be acknowledged.
        """
        if reader.mark is not None and reader.proven:
            version = (reader.mark.epoch, reader.mark.number)
            input_ = input_name(name, scope)
            self.pending.versions.note(input_, max(version, reader.recalled))

    def _scope(self, name: str, scope: Scope) -> ScopeReader | None:
        """Return the reader of a scope that concerns this node, or None."""
        neighbour = self.neighbours[name]
        if scope.zone != neighbour.link.zone or scope.neighbour not in ("", self.node):
            return None
        if self.offered is not None and scope not in self.offered[name]:
            return None
        return neighbour.scopes.setdefault(scope, ScopeReader())

    def scopes_of(self, name: str) -> Iterable[Scope]:
        """Return the scopes in which a neighbour offers interest, as far as they are known."""
        return self.neighbours[name].scopes if self.offered is None else self.offered[name]

    def _gather(self, name: str, scope: Scope, filter_: str, interest: Interest | None) -> None:
        neighbour = self.neighbours[name]
        if interest is not None:
            interest = neighbour.left_of(interest)
        ownership = ownership_after(neighbour.link.kind, scope.ownership)
        member = Member(scope.zone, name, ownership, scope.row)
        self.pending.put(filter_, member, interest)
        if interest is not None and interest.clients_offset is not None:
            self.pending.cuts.read(filter_.partition("/")[2], interest.clients_offset)

    def regather(self, name: str) -> None:
        """Gather again what a neighbour wants: how much of it counts has changed."""
        for scope, reader in self.neighbours[name].scopes.items():
            for filter_, interest in reader.in_force():
                self._gather(name, scope, filter_, interest)

    # -- whether that is all, and proven ---------------------------------------------------

    def caught_up(self, name: str, now: int) -> None:
        """Record that a neighbour's control topic is read to the end found at the start."""
        neighbour = self.neighbours[name]
        neighbour.caught_up, neighbour.is_read_again, neighbour.heard_ms = True, False, now
        for scope, mark in neighbour.marks.items():
            self._marked(name, scope, neighbour.scopes[scope], mark)
        neighbour.marks.clear()
        self._proven(neighbour)

    def begin_again(self, name: str) -> None:
        """Have everything that a neighbour offers proven again: the link is enabled."""
        enable(self.neighbours[name], self.router)
        self._acknowledge_again(name)

    def read_again(self, name: str, *, is_reset: bool) -> None:
        """Have a neighbour's control topic read from its beginning; data keep flowing meanwhile.

        Args:
            name: The neighbour.
            is_reset: Whether the topic has lost its end, or is another one: beats start over there.
        """
        neighbour = self.neighbours[name]
        neighbour.begin_again(has_lost_end=is_reset)
        if is_reset:
            neighbour.beat = NEVER
        self._acknowledge_again(name)

    def _acknowledge_again(self, name: str) -> None:
        for scope in self.neighbours[name].scopes:
            self.pending.versions.begin_again(input_name(name, scope))

    def doubted(self, now: int) -> Iterator[str]:
        """Yield neighbours whose offers stay unproven: read them again. Spec: K23."""
        yield from self._unproven.due(self.neighbours, self.scopes_of, now)

    def unproven(self, now: int) -> Iterator[str]:
        """Yield neighbours whose proof a start has awaited long enough. Spec: K21, K23."""
        yield from self._unproven.overdue(self.neighbours, now)

    # -- what the node has acknowledged of them ----------------------------------------------

    def freeze(
        self, name: str, learned: Mapping[Scope, Sequence[str]], versions: VersionByScope
    ) -> None:
        """Go by what a neighbour was last proven to want: it is not being read. Spec: K21.

        Args:
            name: The neighbour.
            learned: That interest, per scope.
            versions: When the node proved it, which may be later than what this worker has read.
        """
        self.neighbours[name].frozen = True
        for scope, filters in learned.items():
            reader, version = self._scope(name, scope), versions[scope]
            if reader is not None and reader.is_older(version):
                self.pending.versions.note(input_name(name, scope), version)
                for filter_, interest in reader.freeze(filters).items():
                    self._gather(name, scope, filter_, interest)

    def start_without(
        self, name: str, learned: Mapping[Scope, Sequence[str]], versions: VersionByScope
    ) -> None:
        """Go by what the node has acknowledged of a neighbour, beside what was read from it.

        A neighbour that writes its topic again once this node serves may itself wait for that. All
        workers of the node conclude the same, or a round of its leader would wait for another's
        lanes.
        Spec: K21, K23, K25.
        """
        neighbour = self.neighbours[name]
        if neighbour.is_proven:
            return
        neighbour.frozen = True
        for scope, filters in learned.items():
            self._recall(name, scope, filters, versions[scope])

    def recall(
        self, name: str, learned: Mapping[Scope, Sequence[str]], versions: VersionByInput
    ) -> None:
        """Go by what the node has acknowledged of a neighbour that this worker knows less about.

        Args:
            name: The neighbour.
            learned: What the node has kept of it, per scope: all that it has acknowledged.
            versions: What a lane has routed by, by input.

        Spec: K21, K25.
        """
        for scope in self.scopes_of(name):
            input_ = input_name(name, scope)
            version = versions.get(input_, NEVER)
            if self.pending.versions.is_unrouted(input_, version):
                self._recall(name, scope, learned.get(scope, ()), version)

    def _recall(self, name: str, scope: Scope, filters: Sequence[str], version: Version) -> None:
        if (reader := self._scope(name, scope)) is None:
            return
        input_, known = input_name(name, scope), self.pending.versions
        if known.is_unread(input_, version):  # more may have been read since the request
            known.note(input_, version)
        for filter_, interest in reader.recall(filters, version).items():
            self._gather(name, scope, filter_, interest)

    def can_recall(self, name: str, versions: VersionByInput) -> bool:
        """Return whether these versions are later than those that this worker routes by."""
        heard = [input_name(name, scope) for scope in self.scopes_of(name)]
        is_later = self.pending.versions.is_unrouted
        return any(is_later(input_, versions.get(input_, NEVER)) for input_ in heard)

    # -- whether they live ------------------------------------------------------------------

    def beat_read(self, name: str, heartbeat: Heartbeat, now: int) -> bool:
        """Record a heartbeat; return whether it brought the neighbour up."""
        neighbour = self.neighbours[name]
        beat = (heartbeat.epoch, heartbeat.beat)
        if beat <= neighbour.beat:
            return False
        neighbour.beat, neighbour.heard_ms = beat, now
        if heartbeat.ready:
            neighbour.led = heartbeat.epoch
        if not neighbour.is_down:
            return False
        neighbour.heard_again_ms = now
        self._turn(neighbour, is_down=False)
        return True

    def silent(self, now: int) -> Iterator[str]:
        """Yield neighbours that have gone down: direct interest ends, guaranteed stays. K19."""
        for name, neighbour in self.neighbours.items():
            self._withdraw_late(name, neighbour, now)
            if neighbour.is_disabled:
                continue  # it is not being read, so no beat is missed
            if neighbour.heard_ms is None:
                neighbour.heard_ms = now  # reading has just begun: no beat is missed yet
            if not neighbour.is_down and now - neighbour.heard_ms >= DOWN_AFTER_MS:
                self.take_for_down(name)
                yield name

    def take_for_down(self, name: str) -> None:
        """Treat a neighbour as one that is not heard: its live interest ends. Spec: K19."""
        self._turn(self.neighbours[name], is_down=True)

    def _turn(self, neighbour: Neighbour, *, is_down: bool) -> None:
        neighbour.is_down = is_down
        route_by(neighbour, self.router)
        self.regather(neighbour.link.neighbour)

    def _is_catching_up(self, name: str) -> bool:
        """Return whether a neighbour that was not heard is being read up to now.

        What it withdrew and offered again meanwhile, as when walks moved, must not be missed
        between the two. Spec: K28.
        """
        neighbour = self.neighbours[name]
        return neighbour.is_down or neighbour.heard_again_ms is not None

    def _withdraw_late(self, name: str, neighbour: Neighbour, now: int) -> None:
        """End what a neighbour withdrew while it was not heard, once all of that is read."""
        since = neighbour.heard_again_ms
        if neighbour.is_down or since is None or now - since < CATCH_UP_MS:
            return
        neighbour.heard_again_ms = None
        for scope, filter_ in neighbour.late:
            self._gather(name, scope, filter_, None)
        late = dict.fromkeys(scope for scope, _ in neighbour.late)
        neighbour.late.clear()
        for scope in late:
            self._note_version(name, scope, neighbour.scopes[scope])

    # -- changes of the topology ------------------------------------------------------------

    def relink(
        self,
        links: Sequence[LocalLink],
        offered: Mapping[str, Sequence[Scope]],
        changes: LinkChanges,
    ) -> None:
        """Hear the neighbours at the ends of other links. Spec: K28.

        Neighbours whose links stay keep everything they have proven; nothing is left of the others.
        """
        self.offered = offered
        known, self.neighbours = self.neighbours, {}
        for link in links:
            name = link.neighbour
            self.neighbours[name] = Neighbour(link) if name in changes.added else known[name]
            self.neighbours[name].link = link
