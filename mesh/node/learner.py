"""What a worker knows of interest: its own subscriptions and what its neighbours offer.

Every worker of a node learns by itself, so that another one takes over without relearning. What was
read is gathered and comes into force in *rounds*: one change of the routing at a time, each
committed by the lanes before the next. Spec: K16, K22-K26.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from mesh.core.forwarding import ownership_after
from mesh.core.interest import ADDRESS, Member, Members
from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.core.scopes import ScopeReader
from mesh.model.control import (
    UNKNOWN_LINEAGE,
    EndpointKind,
    Heartbeat,
    Interest,
    Lineage,
    Mark,
    Scope,
    Subscription,
    is_address,
    node_address,
)
from mesh.model.effects import EndSubscription, EnsureEndpoint, Note
from mesh.model.frames import Era, MessageClass
from mesh.model.inputs import EndpointMade, EndpointSeen
from mesh.model.link_modes import LinkMode
from mesh.node.closing import enable, open_if_proven, route_by
from mesh.node.cuts import Cuts
from mesh.node.faults import Faults
from mesh.node.neighbour import Neighbour
from mesh.node.own_interest import configured_interest, endpoint_interest, interest_changes
from mesh.node.queues import Leaving, OwnQueues
from mesh.node.relinking import CHANGE, NO_CHANGES, UNCHANGED, LinkChanges
from mesh.node.remembering import is_kept
from mesh.node.rounds import CLIENTS, Round, input_name, neighbour_of
from mesh.node.subscriptions import Key, OwnSubscriptions
from mesh.node.unproven_neighbours import UnprovenNeighbours
from mesh.node.versions import InputVersions

Versions = Mapping[Scope, tuple[int, int]]

CATCH_UP_MS = 2_000
"""How long after a neighbour is heard again its withdrawals of the meantime may still arrive."""

DOWN_AFTER_MS = 10_000
"""A neighbour is down after ten missed heartbeats of one second. Spec: K32."""


@dataclass(slots=True)
class Learner:
    """Gathers what is read and applies it to the router in rounds.

    Attributes:
        node: Name of this node.
        uuid: Its intrinsic identity.
        router: Routes by what is in force.
        covering: Whether entries that others cover are not offered.
        offered: Scopes in which each neighbour may offer interest; None: in all. Records of others
            are left over from another topology, or ahead of it.
        static: Filters that the topology has this node want.
        neighbours: By name.
        own: What the clients of this node asked for.
        classes: Class of each endpoint that the routing in force knows.
        faults: What is wrong with the node's sources.
        followed: How far the routing in force follows changes of the topology.
        topology_number, lineage: Of the topology that the routing in force goes by. Spec: K10.
        followed_next: The same of the topology that the next round goes by.
        cuts: From where on messages reach whom.
        queues: What the subscriptions to queues want.
        making: Since when the topics of new endpoints are being made.
        versions: How far each input is read, and routed by.
    """

    node: str
    uuid: str
    links: Sequence[LocalLink]
    router: Router
    offered: Mapping[str, Sequence[Scope]] | None = None
    static: Sequence[str] = ()
    covering: bool = False
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    own: OwnSubscriptions = field(default_factory=OwnSubscriptions)
    clients_offset: int = -1
    clients_caught_up: bool = False
    classes: Mapping[str, MessageClass] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    followed: tuple[int, int] = UNCHANGED
    topology_number: int = 0
    lineage: Lineage = UNKNOWN_LINEAGE
    followed_next: tuple[int, Lineage] | None = None
    cuts: Cuts = field(init=False)
    queues: OwnQueues = field(default_factory=OwnQueues)
    making: dict[str, int] = field(default_factory=dict)
    versions: InputVersions = field(default_factory=InputVersions)
    _pending: dict[tuple[str, Member], Interest | None] = field(default_factory=dict)
    _new_filters: dict[tuple[str, Scope], dict[str, None]] = field(default_factory=dict)
    _unproven: UnprovenNeighbours = field(default_factory=UnprovenNeighbours)
    _unread: dict[Key, None] = field(default_factory=dict)
    _link_changes: LinkChanges = NO_CHANGES

    def __post_init__(self) -> None:
        """Know the neighbours, and what the topology has it want, before anything is read."""
        self.cuts = Cuts(self.uuid)
        for link in self.links:
            self.neighbours[link.neighbour] = Neighbour(link)
        for change in interest_changes({}, configured_interest(self.links, self.static)):
            self._put(*change)
        self._put(node_address(self.uuid), ADDRESS, Interest(clients_offset=self.clients_offset))

    @property
    def is_synced(self) -> bool:
        """Whether every input is read to its end and proven or frozen. Spec: K23."""
        return self.clients_caught_up and all(n.is_settled for n in self.neighbours.values())

    # -- own subscriptions ----------------------------------------------------------------

    def subscription_read(
        self, offset: int, endpoint: str, filter_: str, subscription: Subscription | None, now: int
    ) -> Iterator[EnsureEndpoint | Note]:
        """Follow a record on `clients`. An endpoint has one kind and one class. Spec: K13."""
        self.clients_passed(offset)
        self._unread.pop((endpoint, filter_), None)
        if subscription is None:
            self._unsubscribe(endpoint, filter_, now)
            return
        if self.queues.left.pop(endpoint, None) is not None:
            self.own.forget(endpoint)
        if (full := self.own.full((endpoint, filter_))) is not None:
            yield Note("subscription.refused", full)
            return
        if endpoint not in self.own.endpoints:
            self.making[endpoint] = now
        first = self.own.endpoints.setdefault(endpoint, subscription)
        if (first.kind, first.message_class) != (subscription.kind, subscription.message_class):
            yield Note(
                "subscription.refused",
                f"endpoint {endpoint} is a {first.message_class} {first.kind} already",
            )
            return
        self.own.put((endpoint, filter_), subscription, now)
        if subscription.kind is EndpointKind.CHANNEL:
            for member, interest in endpoint_interest(endpoint, subscription):
                self._put(filter_, member, interest)
        yield EnsureEndpoint(endpoint, subscription.message_class)

    def endpoint_reported(self, input_: EndpointMade | EndpointSeen) -> None:
        """Record what the shell reports about an endpoint and its topic."""
        if isinstance(input_, EndpointMade):
            self.making.pop(input_.endpoint, None)
        else:
            self.faults.endpoint_seen(input_.endpoint, input_.status)

    def clients_passed(self, offset: int) -> None:
        """Record that `clients` is read up to an offset: a version for others to know."""
        self.clients_offset = offset
        self.versions.note(CLIENTS, (0, offset))
        self.cuts.read(self.uuid, offset)
        self._put(node_address(self.uuid), ADDRESS, Interest(clients_offset=offset))

    def clients_reset(self) -> None:
        """Have `clients` read from its beginning; what does not stand there any more ends then."""
        self.versions.begin_again(CLIENTS)
        self._unread = dict.fromkeys(self.own.asked)
        self.own.elsewhere.clear()
        self.clients_offset, self.clients_caught_up = -1, False
        self._put(node_address(self.uuid), ADDRESS, Interest(clients_offset=-1))

    def clients_read(self, now: int) -> None:
        """Record that `clients` is read to the end found at the start."""
        self.clients_caught_up = True
        unread, self._unread = self._unread, {}
        for endpoint, filter_ in unread:
            self._unsubscribe(endpoint, filter_, now)

    def _unsubscribe(self, endpoint: str, filter_: str, now: int) -> None:
        gone = self.own.pop((endpoint, filter_))
        if gone is None:
            return
        if gone.kind is EndpointKind.CHANNEL:
            for member, interest in endpoint_interest(endpoint, None):
                self._put(filter_, member, interest)
        if not self.own.wants_nothing(endpoint):
            return
        if self.queues.is_shared(endpoint, gone):
            # What is on its way still arrives, to be moved on.
            self.queues.left[endpoint] = Leaving(gone, self.clients_offset, now)
        else:
            self.own.forget(endpoint)

    def forget_left(self, queues: Sequence[str]) -> None:
        """Give up the addresses of queues that were left: nothing for them is on its way."""
        for name in queues:
            if self.queues.left.pop(name, None) is not None:
                self.own.forget(name)
                self.request_round()

    def ended_leases(self, now: int) -> Iterator[EndSubscription]:
        """Yield the subscriptions whose lease has run out, once each. Spec: K13."""
        for endpoint, filter_ in self.own.ended(now):
            yield EndSubscription(endpoint, filter_)

    # -- neighbours -----------------------------------------------------------------------

    def advert_read(self, name: str, scope: Scope, filter_: str, interest: Interest | None) -> None:
        """Record an entry that a neighbour offers or withdraws."""
        reader = self._scope(name, scope)
        if reader is not None:
            reader.advert(filter_, interest)

    def mark_read(self, name: str, scope: Scope, mark: Mark) -> None:
        """Gather what a mark brings into force."""
        reader, neighbour = self._scope(name, scope), self.neighbours[name]
        if reader is None:
            return
        if neighbour.is_read_again and not neighbour.caught_up:
            neighbour.marks[scope] = mark  # an old one would prove what was long ago
            return
        self._marked(name, scope, reader, mark)
        self._proven(neighbour)

    def _proven(self, neighbour: Neighbour) -> None:
        """Go by what a neighbour says itself from here on, if all that it offers is proven."""
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
            self._new_filters.setdefault((name, scope), {}).update(dict.fromkeys(new))
        if not any(one == scope for one, _ in late):
            self._note_version(name, scope, reader)

    def _note_version(self, name: str, scope: Scope, reader: ScopeReader) -> None:
        """Record how far the next round follows a scope: all up to there is in force. K24."""
        if reader.mark is not None:
            version = (reader.mark.epoch, reader.mark.number)
            self.versions.note(input_name(name, scope), max(version, reader.recalled))

    def caught_up(self, name: str, now: int) -> None:
        """Record that a neighbour's control topic is read to the end found at the start."""
        neighbour = self.neighbours[name]
        neighbour.caught_up, neighbour.is_read_again, neighbour.heard_ms = True, False, now
        for scope, mark in neighbour.marks.items():
            self._marked(name, scope, neighbour.scopes[scope], mark)
        neighbour.marks.clear()
        self._proven(neighbour)

    def freeze(
        self, name: str, learned: Mapping[Scope, Sequence[str]], versions: Versions | None = None
    ) -> None:
        """Go by what a neighbour wanted when that was proven last: it is not read. Spec: K21.

        Args:
            name: The neighbour.
            learned: What that was, per scope.
            versions: When the node proved it, which may be later than what this worker has read.
        """
        self.neighbours[name].frozen = True
        for scope, filters in learned.items():
            reader = self._scope(name, scope)
            version = None if versions is None else versions[scope]
            if reader is not None and reader.is_older(version):
                if version is not None:
                    self.versions.note(input_name(name, scope), version)
                for filter_, interest in reader.freeze(filters).items():
                    self._gather(name, scope, filter_, interest)

    def recall(
        self,
        name: str,
        learned: Mapping[Scope, Sequence[str]],
        versions: Mapping[str, tuple[int, int]],
    ) -> None:
        """Go by what the node has acknowledged of a neighbour of whom this worker knows less.

        Args:
            name: The neighbour.
            learned: What the node has kept of it, per scope: all that it has acknowledged.
            versions: What somebody has routed by, by input.

        Spec: K21, K25.
        """
        for scope in self._scopes_of(name):
            source, reader = input_name(name, scope), self._scope(name, scope)
            version = versions.get(source, UNCHANGED)
            if reader is not None and self.versions.is_unrouted(source, version):
                self.versions.note(source, version)
                for filter_, interest in reader.recall(learned.get(scope, ()), version).items():
                    self._gather(name, scope, filter_, interest)

    def can_recall(self, name: str, versions: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether these versions are later than those that this worker routes by."""
        heard = [input_name(name, scope) for scope in self._scopes_of(name)]
        is_later = self.versions.is_unrouted
        return any(is_later(source, versions.get(source, UNCHANGED)) for source in heard)

    def _scopes_of(self, name: str) -> Iterable[Scope]:
        return self.neighbours[name].scopes if self.offered is None else self.offered[name]

    def begin_again(self, name: str) -> None:
        """Have everything that a neighbour offers proven again: the link is enabled."""
        enable(self.neighbours[name], self.router)
        self._acknowledge_again(name)

    def read_again(self, name: str, *, is_reset: bool) -> None:
        """Have a neighbour's control topic read from its beginning; data come and go meanwhile.

        Args:
            name: The neighbour.
            is_reset: Whether the topic has lost its end, or is another one: beats start over there.
        """
        neighbour = self.neighbours[name]
        neighbour.begin_again(has_lost_end=is_reset)
        if is_reset:
            neighbour.beat = (-1, -1)
        self._acknowledge_again(name)

    def _acknowledge_again(self, name: str) -> None:
        for scope in self.neighbours[name].scopes:
            self.versions.begin_again(input_name(name, scope))

    def doubted(self, now: int) -> Iterator[str]:
        """Yield neighbours whose offers stay unproven: they are to be read again. Spec: K23."""
        yield from self._unproven.due(self.neighbours, self._scopes_of, now)

    @property
    def shut(self) -> frozenset[str]:
        """The neighbours over whose links nothing comes and goes, since they are not open. K27."""
        return frozenset(name for name, one in self.neighbours.items() if one.gate is not None)

    def lacks(self, in_force: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether a lane knows more than this worker of a neighbour with a disabled link."""
        return any(
            self.versions.is_unread(source, version)
            for source, version in in_force.items()
            if self.router.modes.get(neighbour_of(source)) is LinkMode.DISABLED
        )

    def is_behind(self, in_force: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether somebody routed by more than this worker does yet. Spec: K16, K25.

        What it will not read does not count: links that are shut, and what is no longer offered.
        """
        return self.lacks_clients(in_force) or bool(self.lagging(in_force))

    def stays_behind(self, in_force: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether somebody routed by more than this worker would after its next round."""
        is_unread = self.versions.is_unread
        return self.is_behind({one: v for one, v in in_force.items() if is_unread(one, v)})

    def lacks_clients(self, in_force: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether somebody routed by more of the own subscriptions than this worker does."""
        return CLIENTS in in_force and self.versions.is_late(CLIENTS, in_force[CLIENTS])

    def lagging(self, in_force: Mapping[str, tuple[int, int]]) -> Sequence[str]:
        """Return the neighbours of whom somebody routed by more than this worker does yet."""
        late = [source for source, v in in_force.items() if self.versions.is_late(source, v)]
        if not late:
            return ()
        found = []
        for name, neighbour in self.neighbours.items():
            if neighbour.is_open and any(
                input_name(name, one) in late for one in self._scopes_of(name)
            ):
                found.append(name)
        return found

    def _scope(self, name: str, scope: Scope) -> ScopeReader | None:
        """Return the reader of a scope that concerns this node, or None."""
        neighbour = self.neighbours[name]
        if scope.zone != neighbour.link.zone or scope.neighbour not in ("", self.node):
            return None
        if self.offered is not None and scope not in self.offered[name]:
            return None
        return neighbour.scopes.setdefault(scope, ScopeReader())

    def _gather(self, name: str, scope: Scope, filter_: str, interest: Interest | None) -> None:
        neighbour = self.neighbours[name]
        if interest is not None:
            interest = neighbour.left_of(interest)
        ownership = ownership_after(neighbour.link.kind, scope.ownership)
        self._put(filter_, Member(scope.zone, name, ownership, scope.row), interest)
        if interest is not None and interest.clients_offset is not None:
            self.cuts.read(filter_.partition("/")[2], interest.clients_offset)

    def _is_catching_up(self, name: str) -> bool:
        """Return whether a neighbour that was not heard is being read to where it is now.

        What it withdrew and offered again meanwhile, as when walks moved, must not be missed
        between the two. Spec: K28.
        """
        neighbour = self.neighbours[name]
        return neighbour.is_down or neighbour.heard_again_ms is not None

    def _withdraw_late(self, name: str, neighbour: Neighbour, now: int) -> None:
        """Have what a neighbour withdrew while it was not heard end, once all of that is read."""
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

    def beat_read(self, name: str, heartbeat: Heartbeat, now: int) -> bool:
        """Record a heartbeat; say whether the neighbour came up by it."""
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
                continue  # it is not read, so no beat is missed
            if neighbour.heard_ms is None:
                neighbour.heard_ms = now  # reading has just begun: no beat is missed yet
            if not neighbour.is_down and now - neighbour.heard_ms >= DOWN_AFTER_MS:
                self._turn(neighbour, is_down=True)
                yield name

    def _turn(self, neighbour: Neighbour, *, is_down: bool) -> None:
        neighbour.is_down = is_down
        route_by(neighbour, self.router)
        self.regather(neighbour.link.neighbour)

    def regather(self, name: str) -> None:
        """Gather again what a neighbour wants: how much of it counts has changed."""
        for scope, reader in self.neighbours[name].scopes.items():
            for filter_, interest in reader.in_force():
                self._gather(name, scope, filter_, interest)

    # -- changes of the topology ----------------------------------------------------------

    def relink(
        self,
        links: Sequence[LocalLink],
        offered: Mapping[str, Sequence[Scope]],
        changes: LinkChanges,
        static: Sequence[str] = (),
    ) -> None:
        """Have other links and controls from the round on that begins next. Spec: K28, EMS-11.

        Neighbours whose links stay keep all that they have proven; nothing is left of the others.
        """
        before = configured_interest(self.links, self.static)
        for change in interest_changes(before, configured_interest(links, static)):
            self._put(*change)
        self.links = self.router.links = links
        self.static = static
        self.offered = offered
        self.router.forget()
        for name in changes.gone:
            self.router.leave(name)
        self._forget_interest(changes.gone)
        self.faults.forget(changes.gone)
        known, self.neighbours = self.neighbours, {}
        for link in links:
            name = link.neighbour
            self.neighbours[name] = Neighbour(link) if name in changes.added else known[name]
            self.neighbours[name].link = link
        self._link_changes = changes

    def _forget_interest(self, gone: Sequence[str]) -> None:
        for filter_, member in list(self._pending):
            if member.zone and member.name in gone:
                del self._pending[filter_, member]
        for filter_, members in self.router.table.entries.items():
            for member, _ in members:
                if member.zone and member.name in gone:
                    self._put(filter_, member, None)
        self.versions.forget(gone)

    # -- rounds ---------------------------------------------------------------------------

    def _put(self, filter_: str, member: Member, interest: Interest | None) -> None:
        self._pending[filter_, member] = interest

    @property
    def era(self) -> Era:
        """The topology that the routing in force goes by. Spec: K10."""
        return Era(self.lineage.domain, self.topology_number)

    @property
    def has_news(self) -> bool:
        """Whether a round would change anything, be it only a version to acknowledge."""
        return bool(self._pending) or self.cuts.has_news or self.versions.has_news

    def request_round(self) -> None:
        """Have a round begin even without news: a new leader compares what it offers."""
        self.versions.ask_for_round()

    def begin_round(self) -> Round:
        """Bring everything gathered into force in the router; return what changed."""
        versions = self.versions.begin_round()
        known, self.followed = self.followed, versions.get(CHANGE, UNCHANGED)
        if self.followed_next is not None:
            self.topology_number, self.lineage = self.followed_next
            self.followed_next = None
        links, self._link_changes = self._link_changes, NO_CHANGES
        touched: dict[str, Members] = {}
        table = self.router.table
        is_another = self.followed != known
        cuts = self.cuts.follow(self.followed, table.entries) if is_another else {}
        queue_changes = self.queues.settle(self.own, table)  # when all else is in force
        for (filter_, member), interest in chain(self._pending.items(), queue_changes):
            before = table.members(filter_)
            if table.put(filter_, member, interest):
                touched.setdefault(filter_, before)
        if touched:
            self.router.forget()
        self.classes = {name: one.message_class for name, one in self.own.endpoints.items()}
        new, self._new_filters = self._new_filters, {}
        round_ = Round(versions, cuts | self.cuts.take(table.entries), touched, links, new)
        self._pending.clear()
        return round_

    def all_cuts(self) -> Mapping[str, int]:
        """Return every node whose `clients` offset is known, for a lane that starts."""
        return self.cuts.all(self.router.table.entries)
