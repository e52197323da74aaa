"""The node's own subscriptions: what each endpoint wants, and which of them end by themselves.

Nothing here takes longer the more there is: a node may have a hundred thousand, and takes thousands
of changes a second. Spec: K13.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mesh.core.matcher import Shape
from mesh.core.queues import QUEUE_SHAPES_MAX, shapes_within
from mesh.model.control import UNHEARD, EndpointKind, EndpointStatus, Subscription
from mesh.model.effects import Note
from mesh.model.inputs import SubscriptionElsewhere

Key = tuple[str, str]
"""Endpoint and filter."""

NODE_MAX = 1_000_000
ENDPOINT_MAX = 200_000
"""Most subscriptions of a node and of one endpoint: a client's mistake must not take a node's
memory from all others."""

SPARE_MAX = 64
"""How many ends of renewed leases may be kept besides as many as there are leases."""

ELSEWHERE_MAX = 1_000
"""Of how many keys it is known what stands in partitions that are not read."""


@dataclass(slots=True)
class OwnSubscriptions:
    """What the clients of this node asked for.

    Attributes:
        asked: Every subscription, by endpoint and filter.
        queues: Those of queues among them.
        endpoints: Endpoint -> the subscription that gave it its kind and class.
        elsewhere: What other partitions of `clients` than the first say of a subscription.
    """

    asked: dict[Key, Subscription] = field(default_factory=dict)
    queues: dict[Key, Subscription] = field(default_factory=dict)
    endpoints: dict[str, Subscription] = field(default_factory=dict)
    elsewhere: dict[Key, SubscriptionElsewhere] = field(default_factory=dict)
    _filters: Counter[str] = field(default_factory=Counter)
    _shapes: Counter[Shape] = field(default_factory=Counter)  # of queues' filters
    _leases: dict[Key, int] = field(default_factory=dict)
    _ends: list[tuple[int, Key]] = field(default_factory=list)

    def put(self, key: Key, subscription: Subscription, now: int) -> None:
        """Take a subscription in, of the kind and class of its endpoint, or renew it."""
        endpoint, _ = key
        if key not in self.asked:
            self._filters[endpoint] += 1
        self.asked[key] = subscription
        if subscription.kind is EndpointKind.QUEUE:
            if key not in self.queues:
                self._shapes[Shape.of(key[1])] += 1
            self.queues[key] = subscription
        self._leases.pop(key, None)
        if subscription.lease_s is not None:
            until = self._leases[key] = now + 1000 * subscription.lease_s
            heapq.heappush(self._ends, (until, key))
            if len(self._ends) > SPARE_MAX + 2 * len(self._leases):
                # Who does not lead ends none, and each renewal leaves its former end behind.
                self.tell_again()

    def surplus(self) -> frozenset[Key]:
        """Return the subscriptions of queues whose shapes are more than a node may have."""
        if sum(not one.is_literal for one in self._shapes) <= QUEUE_SHAPES_MAX:
            return frozenset()
        shapes = {key: shape for key in self.queues if not (shape := Shape.of(key[1])).is_literal}
        wanted: dict[str, set[Shape]] = {}
        for (endpoint, _), shape in shapes.items():
            wanted.setdefault(endpoint, set()).add(shape)
        kept = shapes_within(wanted, QUEUE_SHAPES_MAX)
        return frozenset(key for key, shape in shapes.items() if shape not in kept)

    def full(self, key: Key) -> str | None:
        """Return why one more subscription is refused, in words, or None if it is not."""
        if key in self.asked:
            return None
        if self._filters[key[0]] >= ENDPOINT_MAX:
            return f"endpoint {key[0]} has {ENDPOINT_MAX} subscriptions already"
        if len(self.asked) >= NODE_MAX:
            return f"the node has {NODE_MAX} subscriptions already"
        return None

    def pop(self, key: Key) -> Subscription | None:
        """Remove and return a subscription; None if there is none."""
        gone = self.asked.pop(key, None)
        self._leases.pop(key, None)
        if gone is not None:
            if self.queues.pop(key, None) is not None:
                shape = Shape.of(key[1])
                self._shapes[shape] -= 1
                if not self._shapes[shape]:
                    del self._shapes[shape]
            self._filters[key[0]] -= 1
        return gone

    def wants_nothing(self, endpoint: str) -> bool:
        """Return whether no subscription of an endpoint is left."""
        return not self._filters[endpoint]

    def forget(self, endpoint: str) -> None:
        """Forget an endpoint: the next subscription gives it its kind and class."""
        del self.endpoints[endpoint], self._filters[endpoint]

    def read_elsewhere(self, said: SubscriptionElsewhere) -> Iterator[Note]:
        """Take in what stands in a partition of `clients` that is not read.

        Versions are offsets of the first one (K13): in another one it cannot come into force.
        """
        key = (said.endpoint, said.filter_)
        self.elsewhere.pop(key, None)
        if len(self.elsewhere) < ELSEWHERE_MAX:
            self.elsewhere[key] = said
        if self._is_unheard(said):
            yield Note("subscription.unheard", _unheard(said))

    def unheard(self) -> Sequence[EndpointStatus]:
        """Return the endpoints of which another partition says what is not in force, once each."""
        found = [one for one in self.elsewhere.values() if self._is_unheard(one)]
        texts = {one.endpoint: _unheard(one) for one in found}
        return [EndpointStatus(name, UNHEARD, text) for name, text in sorted(texts.items())]

    def _is_unheard(self, said: SubscriptionElsewhere) -> bool:
        return said.is_asked != ((said.endpoint, said.filter_) in self.asked)

    def ended(self, now: int) -> Iterator[Key]:
        """Yield those whose lease has run out, once each until `tell_again`."""
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            if self._leases.get(key) == until:  # else it was renewed, or is no more
                yield key

    def tell_again(self) -> None:
        """Have those yielded again that are asked for still: their end was not written."""
        self._ends = [(until, key) for key, until in self._leases.items()]
        heapq.heapify(self._ends)


def _unheard(said: SubscriptionElsewhere) -> str:
    what, then = ("asked for", "attracts nothing") if said.is_asked else ("ended", "is in force")
    return (
        f"{said.filter_} is {what} in partition {said.partition} of clients, where nobody reads: "
        f"it {then}; write it to partition 0 (kcat -p 0)"
    )
