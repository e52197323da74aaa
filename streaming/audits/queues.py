"""Queues by their policy: who may get a message, and of which queues one member does.

The members of a queue of which one gets a message are judged together, as one endpoint `*/name`:
what all of them got is held against what any of them asked for. Spec: DESIGN 6, K29.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.control import EndpointKind, Subscription
from mesh.model.topology import Topology
from streaming.audits.ways import Between

EVERYWHERE = "*"
"""Stands for the node in the key of all members of a queue together."""

SHARED = ("home", "any")
EACH = ("", "every", "local")
"""Policies under which each endpoint is certified for itself; a channel has none."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a topology says that concerns queues.

    Attributes:
        policies: Of declared queues, by their names in lower case.
        homes: Likewise, where they are; only of those that have one.
        linked: Node -> nodes to which it is linked otherwise than by a join.
        exclusive: Nodes in exclusive zones: their queues are local unless somebody says otherwise.
    """

    policies: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    linked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exclusive: Sequence[str] = ()

    @classmethod
    def of(cls, topology: Topology) -> QueueRules:
        """Return the queue rules of a topology."""
        declared = {name.casefold(): queue for name, queue in topology.queues.items()}
        linked: dict[str, list[str]] = {}
        for link in topology.links:
            if topology.kind_of(link).value != "join":
                for end in link.ends:
                    linked.setdefault(end, []).append(link.other(end))
        return cls(
            policies={name: queue.policy.value for name, queue in declared.items()},
            homes={name: queue.home for name, queue in declared.items() if queue.home},
            linked={node: tuple(others) for node, others in linked.items()},
            exclusive=tuple(
                {
                    node: None
                    for zone in topology.zones.values()
                    if zone.exclusive
                    for node in zone.nodes
                }
            ),
        )

    def policy_of(self, node: str, name: str, subscription: Subscription) -> str | None:
        """Return the policy of an endpoint, empty for a channel; None if the mesh refuses it."""
        if subscription.kind is EndpointKind.CHANNEL:
            return ""
        declared = self.policies.get(name.casefold())
        if declared is not None and subscription.policy not in (None, declared):
            return None
        unsaid = "local" if node in self.exclusive else "every"
        policy = declared or subscription.policy or unsaid
        return None if subscription.noexport and policy in SHARED else policy

    def place_of(
        self, node: str, name: str, subscription: Subscription
    ) -> tuple[str | None, str | None]:
        """Return an endpoint's policy and its queue's home, which decide who gets each message."""
        policy = self.policy_of(node, name, subscription)
        return policy, self.home_of(name, policy)

    def home_of(self, name: str, policy: str | None) -> str | None:
        """Return the node where a queue is at home, if one is declared."""
        return self.homes.get(name.casefold()) if policy == "home" else None

    def may_come(
        self, policy: str, name: str, node: str, between: Between, *, is_local: bool
    ) -> bool:
        """Return whether messages of an origin can come to a queue of a node at all.

        Args:
            policy: Of the queue: one with a home gets only what nodes linked with that send.
            name: Of the queue.
            node: Where the queue is.
            between: What stands between the origin and that node.
            is_local: Whether they are one.
        """
        if policy == "local":
            return is_local or between.ends_with_join
        if policy == "home":
            return self.homes.get(name.casefold(), node) == node
        return policy != "any" or not between.joins
