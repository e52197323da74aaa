"""What the clients of this node want, according to its `clients` topic. Spec: K13, K25, K26."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mesh.core.endpoints import Form
from mesh.core.interest import ADDRESS
from mesh.model.control import EndpointKind, Interest, Subscription, node_address
from mesh.model.effects import EndSubscription, EnsureEndpoint, Note
from mesh.model.interest_inputs import CLIENTS
from mesh.node.own_interest import endpoint_interest
from mesh.node.pending_interest import PendingInterest
from mesh.node.queues import Leaving, OwnQueues
from mesh.node.subscriptions import Key, OwnSubscriptions, SubscriptionChange


@dataclass(slots=True)
class OwnClients:
    """Follows `clients`, and gathers its contents.

    Attributes:
        uuid: The node's intrinsic identity.
        pending: Waits for the next round.
        queues: What the subscriptions to queues want.
        wanted: What clients requested.
        offset: Of the newest record read; -1 before the first.
        caught_up: Whether the topic is read to the end found at the start.
        making: Since when topics of endpoints that are new or changed class are being created.
    """

    uuid: str
    pending: PendingInterest
    queues: OwnQueues
    wanted: OwnSubscriptions = field(default_factory=OwnSubscriptions)
    offset: int = -1
    caught_up: bool = False
    making: dict[str, int] = field(default_factory=dict)
    _unread: dict[Key, None] = field(default_factory=dict)

    def subscription_read(
        self, offset: int, endpoint: str, filter_: str, subscription: Subscription | None, now: int
    ) -> Iterator[EnsureEndpoint | Note]:
        """Follow a record. `mesh.core.endpoints` decides what an endpoint is. Spec: K13."""
        self.passed(offset)
        self._unread.pop((endpoint, filter_), None)
        if subscription is None:
            yield from self._unsubscribe(endpoint, filter_, now)
            return
        if endpoint in self.queues.left and self.wanted.wants_nothing(endpoint):
            del self.queues.left[endpoint]
            self.wanted.forget(endpoint)
        key = (endpoint, filter_)
        if (full := self.wanted.full(key)) is not None:
            yield Note("subscription.refused", {"endpoint": endpoint, "text": full})
            return
        known = self.wanted.endpoints.get(endpoint)
        changes = self.wanted.put(key, subscription, now)
        yield from self._follow(endpoint, known, changes, now)

    def _follow(
        self, endpoint: str, known: Form | None, changes: Sequence[SubscriptionChange], now: int
    ) -> Iterator[EnsureEndpoint | Note]:
        """Apply what is in force of an endpoint, given what it was before."""
        for (_, filter_), before, after in changes:
            was_channel = before is not None and before.kind is EndpointKind.CHANNEL
            is_channel = after is not None and after.kind is EndpointKind.CHANNEL
            if was_channel or is_channel:
                for member, interest in endpoint_interest(endpoint, after if is_channel else None):
                    self.pending.put(filter_, member, interest)
        form = self.wanted.endpoints[endpoint]
        if known is not None and known.kind is not form.kind:
            self._keep_address(endpoint, changes, now)
        refused = [one.key[1] for one in changes if self.wanted.is_refused(one.key)]
        if refused:
            others = f" and {len(refused) - 1} more" if refused[1:] else ""
            text = (
                f"it is a {form}: its subscription to {refused[0]}{others}, of another kind or "
                "class, attracts nothing"
            )
            yield Note("subscription.refused", {"endpoint": endpoint, "text": text})
        if any(one.after is not None for one in changes):
            if known is None or known.message_class is not form.message_class:
                # A topic of another class retains less than it must.
                self.making.setdefault(endpoint, now)
            yield EnsureEndpoint(endpoint, form.message_class)

    def _keep_address(self, endpoint: str, changes: Sequence[SubscriptionChange], now: int) -> None:
        """Let messages on their way to a formerly shared queue still arrive."""
        for _, before, _ in changes:
            if before is not None and self.queues.is_shared(endpoint, before):
                self.queues.left[endpoint] = Leaving(before, self.offset, now)
                return

    def keeps_its_own(self, endpoint: str) -> bool:
        """Return whether an endpoint shares its messages with no other member, like a channel."""
        if self.wanted.wants_nothing(endpoint):
            return False
        if self.wanted.endpoints[endpoint].kind is EndpointKind.CHANNEL:
            return True
        policy = self.queues.policies.get(endpoint)
        return policy is not None and not policy.is_shared

    def endpoint_made(self, endpoint: str) -> None:
        """Record that the topic of an endpoint exists."""
        self.making.pop(endpoint, None)

    def passed(self, offset: int) -> None:
        """Record that the topic is read up to an offset: a version for others to learn."""
        self.offset = offset
        self.pending.versions.note(CLIENTS, (0, offset))
        self.pending.cuts.read(self.uuid, offset)
        self.tell_offset()

    def tell_offset(self) -> None:
        """Have the node's own address state how far the topic is read. Spec: K26."""
        interest = Interest(clients_offset=self.offset)
        self.pending.put(node_address(self.uuid), ADDRESS, interest)

    def begin_again(self) -> None:
        """Read it from its beginning again; what is no longer there then ends."""
        self.pending.versions.begin_again(CLIENTS)
        self._unread = dict.fromkeys(self.wanted.keys())
        self.wanted.elsewhere.clear()
        self.offset, self.caught_up = -1, False
        self.tell_offset()

    def read_to_end(self, now: int) -> Iterator[EnsureEndpoint | Note]:
        """Record that it is read to the end found at the start: what was not there has ended."""
        self.caught_up = True
        unread, self._unread = self._unread, {}
        for endpoint, filter_ in unread:
            yield from self._unsubscribe(endpoint, filter_, now)

    def _unsubscribe(
        self, endpoint: str, filter_: str, now: int
    ) -> Iterator[EnsureEndpoint | Note]:
        known = self.wanted.endpoints.get(endpoint)
        changes = self.wanted.pop((endpoint, filter_))
        if not changes:
            return
        yield from self._follow(endpoint, known, changes, now)
        if not self.wanted.wants_nothing(endpoint):
            return
        last = changes[0].before
        if last is not None and self.queues.is_shared(endpoint, last):
            # Messages on their way still arrive, to be moved on.
            self.queues.left[endpoint] = Leaving(last, self.offset, now)
        elif endpoint not in self.queues.left:
            self.wanted.forget(endpoint)

    def forget_left(self, queues: Sequence[str]) -> None:
        """Give up the addresses of queues that were left: nothing is on its way to them."""
        for name in queues:
            if self.queues.left.pop(name, None) is not None:
                if self.wanted.wants_nothing(name):
                    self.wanted.forget(name)
                self.pending.versions.ask_for_round()

    def ended_leases(self, now: int) -> Iterator[EndSubscription]:
        """Yield the subscriptions whose lease has run out, once each. Spec: K13."""
        for endpoint, filter_ in self.wanted.ended(now):
            yield EndSubscription(endpoint, filter_)
