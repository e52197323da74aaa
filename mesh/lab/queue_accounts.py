"""What is owed to queues, each by its policy: the lab's own judgement. Spec: lab.md 2, DESIGN 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mesh.lab.checker.history import Publish
from mesh.lab.checker.matching import wants
from mesh.lab.checker.reach import Copy
from mesh.lab.clients import ScenarioSubscription
from mesh.lab.driver import Driver
from mesh.lab.tally import EndpointTally, MessageId
from mesh.model.frames import MessageClass
from mesh.model.names import fold
from mesh.model.queues import QueuePolicy, declared_queue, policy_in_force
from mesh.model.topology import Topology

SHARED = tuple(policy for policy in QueuePolicy if policy.is_shared)
"""Of such a queue one member gets a message."""


def policy_of(subscription: ScenarioSubscription, topology: Topology) -> QueuePolicy | None:
    """Return the policy of the queue that a subscription is for, or None if it is for a channel."""
    if subscription.policy is None:
        return None
    unsaid = topology.unsaid_policy(subscription.node)
    return policy_in_force(topology.queues, subscription.endpoint, subscription.policy, unsaid)


def is_refused(subscription: ScenarioSubscription, topology: Topology) -> bool:
    """Return whether nodes refuse a subscription to a queue: nothing is owed to it. Spec: K13."""
    if subscription.policy is None:
        return False
    policy, queue = (
        policy_of(subscription, topology),
        declared_queue(topology.queues, subscription.endpoint),
    )
    contradicts = queue is not None and subscription.policy not in ("", queue.policy)
    return contradicts or (subscription.noexport and policy in SHARED)


def is_shared(subscription: ScenarioSubscription, topology: Topology) -> bool:
    """Return whether a subscription makes its node a member of a queue shared with others."""
    is_taken = not is_refused(subscription, topology)
    return is_taken and policy_of(subscription, topology) in SHARED


def _is_open(way: Copy, subject: str) -> bool:
    """Return whether copies for a member go a way: over no join, and no node keeps it local."""
    return not way.filters and not way.is_kept(subject)


@dataclass(slots=True)
class QueueAccounts:
    """Judges messages of a finished run.

    Attributes:
        driver: What was done.
    """

    driver: Driver

    def is_owed(
        self,
        publish: Publish,
        subscription: ScenarioSubscription,
        message_class: MessageClass,
    ) -> bool:
        """Return whether a subscription that was served then must get a message, as a queue.

        True for a channel, and for a queue of which every one gets a copy.

        Args:
            publish: The message; its moment is the step.
            subscription: That matches it.
            message_class: Of the message.
        """
        source, step, subject = publish.node, publish.invoked_ms, publish.subject
        topologies = self.driver.topologies
        topology = topologies.at(step)
        policy = policy_of(subscription, topology)
        if is_refused(subscription, topology):
            return False
        way = topologies.way(source, subscription.node, step, message_class)
        match policy:
            case None | QueuePolicy.EVERY:
                return True
            case QueuePolicy.LOCAL:
                return source == subscription.node or (way is not None and way.by_join)
            case QueuePolicy.HOME | QueuePolicy.ANY:
                pass
            case _:
                assert_never(policy)
        if way is None or not self._is_settled(step, subscription, subject):
            return False
        rivals = [
            (len(found.path), other.node)
            for other in self._members(subscription)
            if self.is_served(other, step)
            and wants(other.filter_, subject)
            and is_shared(other, topology)
            and self._is_home(other, topology)
            and (found := topologies.way(source, other.node, step, message_class)) is not None
            and _is_open(found, subject)
            and (policy is QueuePolicy.ANY or len(found.path) <= 2)
        ]
        return bool(rivals) and min(rivals) == (len(way.path), subscription.node)

    def is_served(self, subscription: ScenarioSubscription, step: int) -> bool:
        """Return whether a subscription was known from when a step published until that drained."""
        drained = next((drain for drain in self.driver.drains if drain > step), None)
        if not 0 <= subscription.settled_at < step or drained is None:
            return False
        if self.driver.topologies.is_changed(step, drained):
            return False
        return subscription.ended_at is None or drained < subscription.ended_at

    def seen_by_all(self, name: str, tally: EndpointTally) -> set[MessageId]:
        """Return what the members of a shared queue have together; of others what one has."""
        found = set(tally.seen)
        for _, other in self._other_tallies(name):
            found.update(one for one in other.seen - found if self._was_shared(name, one))
        return found

    def doubled(self, name: str, tally: EndpointTally) -> int:
        """Return how many messages another member has as well, none of both taken away by a mover.

        They are counted at one of both: where the name is greater.
        """
        return sum(
            other.place(identity) == tally.place(identity) and self._was_shared(name, identity)
            for other_name, other in self._other_tallies(name)
            if other_name < name
            for identity in other.seen & tally.seen
        )

    def _was_shared(self, name: str, identity: MessageId) -> bool:
        """Return whether one member was to get a message, by the topology when it was published."""
        message = self.driver.tally.published.get(identity)
        if message is None:
            return False
        for publication in self.driver.clients.publications:
            if publication.has(identity, message):
                return self._is_shared(name, self.driver.topologies.at(publication.step))
        return False

    def certified(self) -> Mapping[str, int]:
        """Return how many guaranteed messages the auditor certifies, by what it calls endpoints.

        All members of a queue of which one gets a message are one: `*/name`. Spec: K29.
        """
        found: dict[str, int] = {}
        for name, tally in self.driver.tally.endpoints.items():
            if self._is_shared(name, self.driver.topology):
                name = f"*/{fold(name.partition('/')[2])}"
            found[name] = found.get(name, 0) + tally.guaranteed - tally.moves
        return found

    def _is_shared(self, name: str, topology: Topology) -> bool:
        mine = self.driver.clients.subscriptions_of(name)
        return any(policy_of(one, topology) in SHARED for one in mine)

    def _other_tallies(self, name: str) -> Sequence[tuple[str, EndpointTally]]:
        mine = self.driver.clients.subscriptions_of(name)
        names = {one.place for subscription in mine for one in self._members(subscription)}
        found = self.driver.tally.endpoints
        return [(one, found[one]) for one in sorted(names) if one != name and one in found]

    def _members(self, subscription: ScenarioSubscription) -> Iterator[ScenarioSubscription]:
        for one in self.driver.clients.subscriptions:
            if one.policy is not None and fold(one.endpoint) == fold(subscription.endpoint):
                yield one

    def _is_settled(self, at: int, subscription: ScenarioSubscription, subject: str) -> bool:
        """Return whether it was known of every member then whether it is one."""
        drained = next((drain for drain in self.driver.drains if drain > at), at)
        return all(
            self.is_served(one, at)
            or one.began_at > drained
            or any((one.ended_at or at) < settle < at for settle in self.driver.settles)
            for one in self._members(subscription)
            if wants(one.filter_, subject)
        )

    @staticmethod
    def _is_home(subscription: ScenarioSubscription, topology: Topology) -> bool:
        queue = declared_queue(topology.queues, subscription.endpoint)
        return queue is None or queue.home in (None, subscription.node)
