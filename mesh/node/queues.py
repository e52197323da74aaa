"""The queues of a node: what its subscriptions to them want, and which of those it refuses.

Recomputed in every round, because what others want of the same queues, and the topology's
declarations, matter as well. Spec: DESIGN 6, K13.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.endpoints import QueueRules
from mesh.core.interest import InterestTable, Member
from mesh.core.queues import QUEUE_SHAPES_MAX
from mesh.model.control import EndpointKind, EndpointStatus, Interest, Subscription
from mesh.model.frames import MessageClass
from mesh.model.names import fold
from mesh.model.queues import (
    Attraction,
    MemberKind,
    QueuePolicy,
    declared_queue,
    is_of_queue,
    member_kind,
    queue_address,
)
from mesh.model.topology import Topology
from mesh.model.words import EndpointWord
from mesh.node.subscriptions import Key, OwnSubscriptions

LEFT_MS = 3_600_000
"""How long a queue that was left keeps its address once all know of it: that is how far back
repairs reach, and earlier messages have arrived by then. Later copies would count as
`queue_left`."""

LEFT_MAX_MS = 7 * 24 * LEFT_MS
"""How long it keeps the address at most, while a node that is down or cut off is unaware."""

SURPLUS = (
    "the filters of this node's queues have more than "
    f"{QUEUE_SHAPES_MAX} wildcard shapes: {{}} of queue {{}} attracts nothing; take out others"
)


@dataclass(frozen=True, slots=True)
class Leaving:
    """A shared queue that nobody here subscribes to any more.

    Attributes:
        wanted: What was last wanted.
        offset: Offset on `clients` of the record that ended it.
        left_ms: When that was read.
    """

    wanted: Subscription
    offset: int
    left_ms: int


@dataclass(slots=True)
class OwnQueues:
    """The queues of a node, as entries in the table of interest.

    Attributes:
        node: Name of the node; the empty one has no queues.
        rules: By which topology it accepts what is subscribed.
        policies: Endpoint -> the policy that is in force.
        refused: (endpoint, filter) -> why it attracts nothing.
        left: Shared queues that nobody here subscribes to any more, or that have become channels:
            they attract nothing, and keep their address for what is on its way.
    """

    node: str = ""
    rules: QueueRules = field(default_factory=QueueRules)
    policies: Mapping[str, QueuePolicy] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    left: dict[str, Leaving] = field(default_factory=dict)
    _placed: dict[tuple[str, Member], Interest] = field(default_factory=dict)
    _statuses: Sequence[EndpointStatus] | None = None

    @classmethod
    def at(cls, node: str, topology: Topology) -> OwnQueues:
        """Return the queues of a node by a topology; nothing is subscribed yet."""
        queues = cls(node)
        queues.relink(topology)
        return queues

    def relink(self, topology: Topology) -> None:
        """Switch to another topology."""
        self.rules = QueueRules.at(self.node, topology)

    def policy_of(self, endpoint: str, subscription: Subscription) -> QueuePolicy:
        """Return the policy of a queue: the declared one, else what the subscription says."""
        return self.rules.policy_of(endpoint, subscription)

    def wants_every(self, endpoint: str, subscription: Subscription) -> bool:
        """Return whether an endpoint gets everything it subscribes to: no member is chosen."""
        if subscription.kind is EndpointKind.CHANNEL:
            return True
        return self.policy_of(endpoint, subscription) is QueuePolicy.EVERY

    def is_shared(self, endpoint: str, subscription: Subscription) -> bool:
        """Return whether an endpoint is a queue of which one member gets each message."""
        is_queue = subscription.kind is EndpointKind.QUEUE
        return is_queue and self.policy_of(endpoint, subscription).is_shared

    def settle(
        self,
        own: OwnSubscriptions,
        table: InterestTable,
        others: Container[tuple[str, Member]],
    ) -> Iterator[tuple[tuple[str, Member], Interest | None]]:
        """Yield what changes in the table, given what it holds of other nodes just now.

        Args:
            own: The node's subscriptions; those of channels are left alone.
            table: It already has everything else that comes into force.
            others: Those entries. They include that of a subscription which has been a channel's
                meanwhile, or is one now: it is as the channel has made it.
        """
        queues = own.queues
        if not (queues or self.left or self._placed or self.refused):
            return
        self.refused.clear()
        self._statuses = None
        wanted = dict(self._wanted(queues, own.surplus(), table))
        for endpoint, leaving in self.left.items():
            if self.is_shared(endpoint, leaving.wanted):
                interest = Interest(durable=leaving.wanted.message_class is MessageClass.GUARANTEED)
                wanted[queue_address(endpoint, self.node), Member("", endpoint)] = interest
        before = {key: interest for key, interest in self._placed.items() if key not in others}
        self._placed = wanted
        for filter_, member in [key for key in before if key not in wanted]:
            yield (filter_, member), None
        for key, interest in wanted.items():
            if before.get(key) != interest:
                yield key, interest

    def left_long_ago(self, complete: int, now_ms: int) -> Sequence[str]:
        """Return queues for which nothing is on its way any more.

        Args:
            complete: The offset of `clients` up to which all know what is wanted here. Spec: K24.
            now_ms: The present moment.
        """
        return [
            name
            for name, one in self.left.items()
            if now_ms - one.left_ms >= (LEFT_MS if one.offset <= complete else LEFT_MAX_MS)
        ]

    def statuses(self) -> Sequence[EndpointStatus]:
        """Return the reported state of refused endpoints: why they attract nothing, once each."""
        if self._statuses is None:  # called ten times a second
            by_endpoint = {endpoint: text for (endpoint, _), text in self.refused.items()}
            self._statuses = [
                EndpointStatus(endpoint, EndpointWord.REFUSED, text)
                for endpoint, text in sorted(by_endpoint.items())
            ]
        return self._statuses

    def _wanted(
        self, queues: Mapping[Key, Subscription], surplus: Collection[Key], table: InterestTable
    ) -> Iterator[tuple[tuple[str, Member], Interest]]:
        """Yield what each subscription of a queue attracts, by the policy that prevails.

        A refused one attracts nothing, with its reason in `refused`; if it may have been in force
        before, what is on its way to it still arrives.
        """
        self.policies = self.rules.policies(queues)
        for (endpoint, filter_), subscription in queues.items():
            asked = self.policy_of(endpoint, subscription)
            policy = self.policies.get(endpoint, asked)
            fault = self.rules.refusal(endpoint, subscription, self.policies)
            kind = member_kind(policy)
            if kind is MemberKind.HOME and fault is None:
                kind, fault = self._home_or_proxy(endpoint, table)
            if (endpoint, filter_) in surplus:
                fault = SURPLUS.format(filter_, endpoint)
            interest = Interest(durable=subscription.message_class is MessageClass.GUARANTEED)
            if fault is not None:
                self.refused[endpoint, filter_] = fault
                if asked is not policy and asked.is_shared:
                    # It may have been in force: what is on its way to it still arrives.
                    yield (queue_address(endpoint, self.node), Member("", endpoint)), interest
                continue
            member = Member("", endpoint, noexport=subscription.noexport)
            if kind is None:
                yield (filter_, member), interest
                continue
            yield (str(Attraction(endpoint, self.node, kind, filter_)), member), interest
            if kind is not MemberKind.LOCAL:
                yield (queue_address(endpoint, self.node), member), interest

    def _home_or_proxy(self, endpoint: str, table: InterestTable) -> tuple[MemberKind, str | None]:
        """Return whether the node is the home of a queue or a proxy, or why it is neither.

        Of two undeclared homes that come up at once the one with the lesser name stays home.
        """
        queue = declared_queue(self.rules.declared, endpoint)
        if queue is not None and queue.home is not None:
            return (MemberKind.HOME if queue.home == self.node else MemberKind.PROXY), None
        others = [
            one.node
            for one in table.attractions.all()
            if one.kind is MemberKind.HOME and one.node != self.node and one.name == fold(endpoint)
        ]
        if others and not (self._is_home(endpoint) and self.node < min(others)):
            return MemberKind.HOME, (
                f"queue {endpoint} has its home at {min(others)} already, and none is declared; "
                "declare it in spec.queues, or unsubscribe at one of the two"
            )
        return MemberKind.HOME, None

    def _is_home(self, endpoint: str) -> bool:
        return any(
            (found := Attraction.parse(entry)) is not None
            and found.queue == endpoint
            and found.kind is MemberKind.HOME
            for entry, _ in self._placed
        )


def is_offered(filter_: str, member: Member) -> bool:
    """Return whether queue rules let a member's interest in a filter be offered to other nodes.

    Local queues stay here, and nodes near a home learn of it from the home itself. Spec: EMS-12.
    """
    if not is_of_queue(filter_):
        return True
    found = Attraction.parse(filter_)
    if found is None or found.kind is MemberKind.ANY:
        return True
    return found.kind is not MemberKind.LOCAL and not member.zone
