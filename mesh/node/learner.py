"""What a worker knows of its clients' and neighbours' interest, and puts in force.

Every worker of a node learns by itself, so that another one takes over without relearning. What was
read is gathered and comes into force in *rounds*: one change of the routing at a time, each
committed by the lanes before the next. Spec: K16, K22-K26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import chain

from mesh.core.interest import Members
from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.model.control import NEVER, UNKNOWN_LINEAGE, Lineage, Scope, Version
from mesh.model.frames import Era, MessageClass
from mesh.model.interest_inputs import CHANGE, CLIENTS, input_name, neighbour_of
from mesh.model.link_modes import LinkMode
from mesh.node.cuts import Cuts
from mesh.node.faults import Faults
from mesh.node.hearing import Hearing
from mesh.node.neighbour import Neighbour
from mesh.node.own_clients import OwnClients
from mesh.node.own_interest import configured_interest, interest_changes
from mesh.node.pending_interest import PendingInterest
from mesh.node.queues import OwnQueues
from mesh.node.relinking import NO_CHANGES, LinkChanges
from mesh.node.rounds import Round


@dataclass(slots=True)
class Learner:
    """Puts gathered interest in force in the router, in rounds.

    Attributes:
        node: Name of this node.
        uuid: Its intrinsic identity.
        links: To its neighbours.
        router: Routes by what is in force.
        static: Filters that the topology makes this node want.
        covering: Whether entries that others cover are left out of offers.
        classes: Class of each endpoint that the routing in force knows.
        faults: What is wrong with the node's sources.
        followed: How far the routing in force follows changes of the topology.
        topology_number, lineage: Of the topology that the routing in force goes by. Spec: K10.
        followed_next: The same for the topology that the next round goes by.
        pending: What waits for the next round.
        clients: Gathers what the clients of this node want.
        hearing: Gathers what its neighbours offer.
    """

    node: str
    uuid: str
    links: Sequence[LocalLink]
    router: Router
    offered: InitVar[Mapping[str, Sequence[Scope]] | None] = None
    static: Sequence[str] = ()
    covering: bool = False
    queues: InitVar[OwnQueues | None] = None
    classes: Mapping[str, MessageClass] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    followed: Version = NEVER
    topology_number: int = 0
    lineage: Lineage = UNKNOWN_LINEAGE
    followed_next: tuple[int, Lineage] | None = None
    pending: PendingInterest = field(init=False)
    clients: OwnClients = field(init=False)
    hearing: Hearing = field(init=False)
    _link_changes: LinkChanges = NO_CHANGES

    def __post_init__(
        self, offered: Mapping[str, Sequence[Scope]] | None, queues: OwnQueues | None
    ) -> None:
        """Set up the neighbours, and what the topology wants, before anything is read."""
        self.pending = PendingInterest(Cuts(self.uuid))
        self.clients = OwnClients(self.uuid, self.pending, queues or OwnQueues())
        self.hearing = Hearing(self.node, self.router, self.pending, offered)
        for link in self.links:
            self.hearing.neighbours[link.neighbour] = Neighbour(link)
        for change in interest_changes({}, configured_interest(self.links, self.static)):
            self.pending.put(*change)
        self.clients.tell_offset()

    @property
    def neighbours(self) -> Mapping[str, Neighbour]:
        """The neighbours at the other ends of its links, by name."""
        return self.hearing.neighbours

    @property
    def is_synced(self) -> bool:
        """Whether every input is read to its end and proven or frozen. Spec: K23."""
        return self.clients.caught_up and all(n.is_settled for n in self.neighbours.values())

    @property
    def shut(self) -> frozenset[str]:
        """The neighbours over whose links no data flow, since they are not open. K27."""
        return frozenset(name for name, one in self.neighbours.items() if one.gate is not None)

    # -- who knows more ---------------------------------------------------------------------

    def lacks(self, in_force: Mapping[str, Version]) -> bool:
        """Return whether a lane knows more than this worker of a neighbour with a disabled link."""
        return any(
            self.pending.versions.is_unread(input_, version)
            for input_, version in in_force.items()
            if self.router.modes.get(neighbour_of(input_)) is LinkMode.DISABLED
        )

    def is_behind(self, in_force: Mapping[str, Version]) -> bool:
        """Return whether a lane has routed by more than this worker does yet. Spec: K16, K25.

        What it will not read does not count: shut links, and what is no longer offered.
        """
        return self.lacks_clients(in_force) or bool(self.lagging(in_force))

    def stays_behind(self, in_force: Mapping[str, Version]) -> bool:
        """Return whether a lane has routed by more than this worker would after its next round."""
        is_unread = self.pending.versions.is_unread
        return self.is_behind({one: v for one, v in in_force.items() if is_unread(one, v)})

    def lacks_clients(self, in_force: Mapping[str, Version]) -> bool:
        """Return whether a lane has routed by more own subscriptions than this worker does."""
        is_late = self.pending.versions.is_late
        return CLIENTS in in_force and is_late(CLIENTS, in_force[CLIENTS])

    def lagging(self, in_force: Mapping[str, Version]) -> Sequence[str]:
        """Return the neighbours for which a lane has routed by more than this worker does yet."""
        is_late = self.pending.versions.is_late
        late = [input_ for input_, version in in_force.items() if is_late(input_, version)]
        if not late:
            return ()
        found = []
        for name, neighbour in self.neighbours.items():
            if neighbour.is_open and any(
                input_name(name, one) in late for one in self.hearing.scopes_of(name)
            ):
                found.append(name)
        return found

    # -- changes of the topology ----------------------------------------------------------

    def relink(
        self,
        links: Sequence[LocalLink],
        offered: Mapping[str, Sequence[Scope]],
        changes: LinkChanges,
        static: Sequence[str] = (),
    ) -> None:
        """Switch to other links and controls from the round that begins next. K28, EMS-11."""
        before = configured_interest(self.links, self.static)
        for change in interest_changes(before, configured_interest(links, static)):
            self.pending.put(*change)
        self.links = self.router.links = links
        self.static = static
        self.router.forget()
        for name in changes.gone:
            self.router.leave(name)
        self.pending.forget(changes.gone, self.router.table.entries)
        self.faults.forget(changes.gone)
        self.hearing.relink(links, offered, changes)
        self._link_changes = changes

    def follow_next(self, number: int, lineage: Lineage) -> None:
        """Request a round that goes by another topology. Spec: K10, K28."""
        self.pending.cuts.number = number
        self.followed_next = number, lineage
        self.request_round()

    @property
    def era(self) -> Era:
        """The topology that the routing in force goes by. Spec: K10."""
        return Era(self.lineage.domain, self.topology_number)

    # -- rounds ---------------------------------------------------------------------------

    def request_round(self) -> None:
        """Request a round even without news: a new leader compares what it offers."""
        self.pending.versions.ask_for_round()

    def begin_round(self) -> Round:
        """Put everything gathered in force in the router; return what changed."""
        pending, clients = self.pending, self.clients
        versions = pending.versions.begin_round()
        known, self.followed = self.followed, versions.get(CHANGE, NEVER)
        is_another = self.followed != known or self.followed_next is not None
        if self.followed_next is not None:
            self.topology_number, self.lineage = self.followed_next
            self.followed_next = None
        links, self._link_changes = self._link_changes, NO_CHANGES
        touched: dict[str, Members] = {}
        table = self.router.table
        cuts = pending.cuts.follow(self.followed, table.entries) if is_another else {}
        # Queues look at the table once everything else is in force.
        queue_changes = clients.queues.settle(clients.wanted, table, pending.changes)
        for (filter_, member), interest in chain(pending.changes.items(), queue_changes):
            before = table.members(filter_)
            if table.put(filter_, member, interest):
                touched.setdefault(filter_, before)
        if touched:
            self.router.forget()
        self.classes = {name: one.message_class for name, one in clients.wanted.endpoints.items()}
        new, pending.new_filters = pending.new_filters, {}
        cuts |= pending.cuts.take(table.entries)
        pending.changes.clear()
        return Round(versions, cuts, touched, links, new)

    def all_cuts(self) -> Mapping[str, int]:
        """Return every node whose `clients` offset is known, for a lane that starts."""
        return self.pending.cuts.all(self.router.table.entries)
