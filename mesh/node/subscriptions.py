"""The node's own subscriptions: what each endpoint wants, and which of them expire.

Nothing here gets slower with size: a node may have a hundred thousand, and takes thousands of
changes a second. Spec: K13.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.core.endpoints import Form, form_of, prevailing_form
from mesh.core.matcher import Shape
from mesh.core.queues import QUEUE_SHAPES_MAX, shapes_within
from mesh.model.control import EndpointKind, EndpointStatus, Subscription
from mesh.model.effects import Note
from mesh.model.inputs import SubscriptionElsewhere
from mesh.model.words import EndpointWord

Key = tuple[str, str]
"""Endpoint and filter."""

NODE_MAX = 1_000_000
ENDPOINT_MAX = 200_000
"""Maximum number of subscriptions of a node and of one endpoint, including refused ones: a client's
mistake must not exhaust a node's memory."""

SPARE_MAX = 64
"""How many stale ends of renewed leases may be kept, besides as many as there are leases."""

ELSEWHERE_MAX = 1_000
"""For how many keys the contents of partitions that are not read are known."""


class SubscriptionChange(NamedTuple):
    """The effect of a record on one subscription.

    Attributes:
        before, after: What is in force of it; None if nothing is.
    """

    key: Key
    before: Subscription | None
    after: Subscription | None


@dataclass(slots=True)
class OwnSubscriptions:
    """What the clients of this node requested.

    A subscription of another form than its endpoint's is refused, but remembered: it comes into
    force once the others have ended.

    Attributes:
        said: Endpoint -> filter -> what the newest record says, refused or not.
        asked: Every subscription in force, by endpoint and filter.
        queues: Those of queues among them.
        endpoints: Endpoint -> its form.
        elsewhere: What partitions of `clients` other than the first say about a subscription.
    """

    said: dict[str, dict[str, Subscription]] = field(default_factory=dict)
    asked: dict[Key, Subscription] = field(default_factory=dict)
    queues: dict[Key, Subscription] = field(default_factory=dict)
    endpoints: dict[str, Form] = field(default_factory=dict)
    elsewhere: dict[Key, SubscriptionElsewhere] = field(default_factory=dict)
    _said_count: int = 0
    _in_force: Counter[str] = field(default_factory=Counter)  # by endpoint
    _shapes: Counter[Shape] = field(default_factory=Counter)  # of queues' filters
    _leases: dict[Key, int] = field(default_factory=dict)
    _ends: list[tuple[int, Key]] = field(default_factory=list)

    def keys(self) -> Iterator[Key]:
        """Yield every subscription, refused or not."""
        for endpoint, said in self.said.items():
            for filter_ in said:
                yield endpoint, filter_

    def put(self, key: Key, subscription: Subscription, now: int) -> Sequence[SubscriptionChange]:
        """Add or renew a subscription; return the effects on its endpoint's subscriptions."""
        endpoint, filter_ = key
        said = self.said.setdefault(endpoint, {})
        self._said_count += filter_ not in said
        said[filter_] = subscription
        self._leases.pop(key, None)
        if subscription.lease_s is not None:
            until = self._leases[key] = now + 1000 * subscription.lease_s
            heapq.heappush(self._ends, (until, key))
            if len(self._ends) > SPARE_MAX + 2 * len(self._leases):
                # A worker that does not lead ends none, and each renewal leaves its former end
                # behind.
                self.tell_again()
        form, known = form_of(subscription), self.endpoints.get(endpoint)
        if known is None or (form != known and form == prevailing_form((known, form))):
            return self._turn(endpoint, form)
        return self._keep(key, known)

    def pop(self, key: Key) -> Sequence[SubscriptionChange]:
        """Remove a subscription; return the effects on its endpoint's subscriptions."""
        endpoint, filter_ = key
        if self.said.get(endpoint, {}).pop(filter_, None) is None:
            return ()
        self._said_count -= 1
        self._leases.pop(key, None)
        return self._keep(key, self.endpoints[endpoint])

    def _keep(self, key: Key, form: Form) -> list[SubscriptionChange]:
        """Keep an endpoint's form as long as a subscription of that form is left."""
        endpoint, _ = key
        changes = [self._enforce(key, form)]
        said = self.said[endpoint]
        if said and not self._in_force[endpoint]:
            changes += self._turn(endpoint, prevailing_form(map(form_of, said.values())))
        return changes

    def _turn(self, endpoint: str, form: Form) -> list[SubscriptionChange]:
        """Change an endpoint's form, or create it."""
        self.endpoints[endpoint] = form
        return [self._enforce((endpoint, filter_), form) for filter_ in self.said[endpoint]]

    def _enforce(self, key: Key, form: Form) -> SubscriptionChange:
        """Put a subscription in force if it has its endpoint's form."""
        endpoint, filter_ = key
        before, after = self.asked.get(key), self.said[endpoint].get(filter_)
        if after is not None and form_of(after) != form:
            after = None
        if (after is None) != (before is None):
            self._in_force[endpoint] += 1 if before is None else -1
        if after is not None:
            self.asked[key] = after
        elif before is not None:
            del self.asked[key]
        self._file(key, after)
        return SubscriptionChange(key, before, after)

    def _file(self, key: Key, subscription: Subscription | None) -> None:
        """Index what is in force for queues separately."""
        if subscription is not None and subscription.kind is EndpointKind.QUEUE:
            if key not in self.queues:
                self._shapes[Shape.of(key[1])] += 1
            self.queues[key] = subscription
        elif self.queues.pop(key, None) is not None:
            shape = Shape.of(key[1])
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]

    def surplus(self) -> frozenset[Key]:
        """Return queue subscriptions whose shapes exceed what a node may have."""
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
        endpoint, filter_ = key
        said = self.said.get(endpoint, {})
        if filter_ in said:
            return None
        if len(said) >= ENDPOINT_MAX:
            return f"endpoint {endpoint} has {ENDPOINT_MAX} subscriptions already"
        if self._said_count >= NODE_MAX:
            return f"the node has {NODE_MAX} subscriptions already"
        return None

    def is_refused(self, key: Key) -> bool:
        """Return whether a subscription has another form than its endpoint."""
        endpoint, filter_ = key
        return filter_ in self.said.get(endpoint, ()) and key not in self.asked

    def wants_nothing(self, endpoint: str) -> bool:
        """Return whether no subscription of an endpoint is left."""
        return not self.said.get(endpoint)

    def forget(self, endpoint: str) -> None:
        """Forget an endpoint of which nothing is left: the next subscription creates a new one."""
        del self.endpoints[endpoint], self._in_force[endpoint], self.said[endpoint]

    def read_elsewhere(self, said: SubscriptionElsewhere) -> Iterator[Note]:
        """Note a record in a partition of `clients` that is not used.

        Versions are offsets of the first one (K13): in another one it cannot come into force.
        """
        key = (said.endpoint, said.filter_)
        self.elsewhere.pop(key, None)
        if len(self.elsewhere) < ELSEWHERE_MAX:
            self.elsewhere[key] = said
        if self._is_unheard(said):
            yield Note("subscription.unheard", {"endpoint": said.endpoint, "text": _unheard(said)})

    def unheard(self) -> Sequence[EndpointStatus]:
        """Return the endpoints for which another partition has records not in force, once each."""
        found = [one for one in self.elsewhere.values() if self._is_unheard(one)]
        texts = {one.endpoint: _unheard(one) for one in found}
        word = EndpointWord.UNHEARD
        return [EndpointStatus(name, word, text) for name, text in sorted(texts.items())]

    def _is_unheard(self, said: SubscriptionElsewhere) -> bool:
        return said.is_asked != (said.filter_ in self.said.get(said.endpoint, ()))

    def ended(self, now: int) -> Iterator[Key]:
        """Yield those whose lease has run out, once each until `tell_again`."""
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            if self._leases.get(key) == until:  # else it was renewed, or is gone
                yield key

    def tell_again(self) -> None:
        """Have those yielded again that still exist: their end was not written."""
        self._ends = [(until, key) for key, until in self._leases.items()]
        heapq.heapify(self._ends)


def _unheard(said: SubscriptionElsewhere) -> str:
    what, then = ("asked for", "attracts nothing") if said.is_asked else ("ended", "is in force")
    return (
        f"{said.filter_} is {what} in partition {said.partition} of clients, where nobody reads: "
        f"it {then}; write it to partition 0 (kcat -p 0)"
    )
