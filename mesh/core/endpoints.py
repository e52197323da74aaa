"""What an endpoint is where its subscriptions do not agree. Spec: K13.

Only the set of subscriptions decides, never their order: workers of one node, and one that
restarts, read `clients` as far compacted as it is then. What promises most prevails, so that no
record takes away what was promised by promising less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy

CLASSES = (MessageClass.GUARANTEED, MessageClass.DIRECT)
KINDS = (EndpointKind.CHANNEL, EndpointKind.QUEUE)
POLICIES = (QueuePolicy.EVERY, QueuePolicy.LOCAL, QueuePolicy.HOME, QueuePolicy.ANY)
"""Of each what promises most comes first."""


class Form(NamedTuple):
    """What an endpoint has one of, whatever its subscriptions say."""

    message_class: MessageClass
    kind: EndpointKind

    def __str__(self) -> str:
        """Return it as people say it: `guaranteed channel`."""
        return f"{self.message_class} {self.kind}"


def form_of(subscription: Subscription) -> Form:
    """Return what a subscription has its endpoint be."""
    return Form(subscription.message_class, subscription.kind)


def prevailing_form(forms: Iterable[Form]) -> Form:
    """Return which of some forms, one at least, an endpoint has."""
    return min(forms, key=lambda one: (CLASSES.index(one.message_class), KINDS.index(one.kind)))


def forms_in_force(subscriptions: Mapping[tuple[str, str], Subscription]) -> Mapping[str, Form]:
    """Return what each endpoint of a node is, by its subscriptions by endpoint and filter."""
    said: dict[str, dict[Form, None]] = {}
    for (endpoint, _), one in subscriptions.items():
        said.setdefault(endpoint, {})[form_of(one)] = None
    return {endpoint: prevailing_form(forms) for endpoint, forms in said.items()}


def prevailing_policy(policies: Iterable[QueuePolicy]) -> QueuePolicy:
    """Return which of some policies, one at least, a queue has."""
    return min(policies, key=POLICIES.index)
