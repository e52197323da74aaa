"""What an endpoint is if its subscriptions do not agree. Spec: K13.

Only the set of subscriptions decides, never their order: workers of one node, and one that
restarts, read `clients` compacted to different degrees. The one that promises most prevails, so
that no record takes away a promise by promising less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.queues import Queue, QueuePolicy, declared_queue, policy_in_force
from mesh.model.topology import Topology

CLASSES = (MessageClass.GUARANTEED, MessageClass.DIRECT)
KINDS = (EndpointKind.CHANNEL, EndpointKind.QUEUE)
POLICIES = (QueuePolicy.EVERY, QueuePolicy.LOCAL, QueuePolicy.HOME, QueuePolicy.ANY)
"""What promises most comes first."""


class Form(NamedTuple):
    """The properties an endpoint has once, whatever its subscriptions say."""

    message_class: MessageClass
    kind: EndpointKind

    def __str__(self) -> str:
        """Return it as people say it: `guaranteed channel`."""
        return f"{self.message_class} {self.kind}"


def form_of(subscription: Subscription) -> Form:
    """Return the form that a subscription gives its endpoint."""
    return Form(subscription.message_class, subscription.kind)


def prevailing_form(forms: Iterable[Form]) -> Form:
    """Return the form of an endpoint, given one or more forms."""
    return min(forms, key=lambda one: (CLASSES.index(one.message_class), KINDS.index(one.kind)))


def forms_in_force(subscriptions: Mapping[tuple[str, str], Subscription]) -> Mapping[str, Form]:
    """Return what each endpoint of a node is, by its subscriptions by endpoint and filter."""
    said: dict[str, dict[Form, None]] = {}
    for (endpoint, _), one in subscriptions.items():
        said.setdefault(endpoint, {})[form_of(one)] = None
    return {endpoint: prevailing_form(forms) for endpoint, forms in said.items()}


def prevailing_policy(policies: Iterable[QueuePolicy]) -> QueuePolicy:
    """Return the policy of a queue, given one or more policies."""
    return min(policies, key=POLICIES.index)


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What decides which subscriptions of queues a node accepts. Spec: K13, DESIGN 6.

    Attributes:
        declared: The topology's declarations of queues, by name.
        unsaid: The policy of a queue for which none is given.
    """

    declared: Mapping[str, Queue] = field(default_factory=dict)
    unsaid: QueuePolicy = QueuePolicy.EVERY

    @classmethod
    def at(cls, node: str, topology: Topology) -> QueueRules:
        """Return those of a node."""
        return cls(topology.queues, topology.unsaid_policy(node))

    def policy_of(self, endpoint: str, subscription: Subscription) -> QueuePolicy:
        """Return the policy of a queue: the declared one, else what the subscription says."""
        return policy_in_force(self.declared, endpoint, subscription.policy, self.unsaid)

    def policies(
        self, subscriptions: Mapping[tuple[str, str], Subscription]
    ) -> Mapping[str, QueuePolicy]:
        """Return which policy prevails for each queue, by its subscriptions at the node."""
        said: dict[str, dict[QueuePolicy, None]] = {}
        for (endpoint, _), one in subscriptions.items():
            if not self._is_hidden(endpoint, one):
                said.setdefault(endpoint, {})[self.policy_of(endpoint, one)] = None
        return {endpoint: prevailing_policy(several) for endpoint, several in said.items()}

    def refusal(
        self, endpoint: str, subscription: Subscription, policies: Mapping[str, QueuePolicy]
    ) -> str | None:
        """Return why a subscription attracts nothing, two homes apart; None if it is accepted.

        Args:
            endpoint: Name of the queue.
            subscription: The one.
            policies: Which prevail, all subscriptions of the node considered.
        """
        said, queue = subscription.policy, declared_queue(self.declared, endpoint)
        if queue is not None and said not in (None, queue.policy.value):
            return (
                f"queue {queue.name} is declared with policy {queue.policy}, not {said}; "
                "subscribe with that or with none"
            )
        asked = self.policy_of(endpoint, subscription)
        if asked is not (policy := policies.get(endpoint, asked)):
            return f"endpoint {endpoint} is a queue with policy {policy}, not {said or self.unsaid}"
        if self._is_hidden(endpoint, subscription):
            return (
                f"queue {endpoint} has the policy {policy}: its members must be known to other "
                "nodes, so it cannot be noexport; leave that out"
            )
        return None

    def _is_hidden(self, endpoint: str, subscription: Subscription) -> bool:
        """Return whether a subscription hides a member that others must know: it decides nothing.

        Its filter attracts nothing either way.
        """
        return subscription.noexport and self.policy_of(endpoint, subscription).is_shared
