"""What an endpoint is if its subscriptions do not agree. Spec: K13.

Only the set of subscriptions decides, never their order: workers of one node, and one that
restarts, read `clients` compacted to different degrees. The one that promises most prevails, so
that no record takes away a promise by promising less.
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
