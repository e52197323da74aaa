"""What one subscription asks for, by what the topology says of queues. Spec: K13, DESIGN 6."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from streaming.audits.queues import SHARED, QueueRules
from streaming.tables.rows import TopicPartition

POLICIES_BY_PROMISE = ("every", "local", "home", "any")
"""Of the policies that the subscriptions of a queue say, the first one here is in force."""

EVERYTHING = ">"
"""The filter that every other one is covered by."""


@dataclass(slots=True)
class JudgedSubscription:
    """One subscription, from its record on `clients` to the one that ends it.

    Attributes:
        filter: What it asks for.
        is_certified: Of the guaranteed class: the mesh promises each message exactly once.
        noexport: It attracts nothing: of other nodes' messages it may get any, and must none.
        added: Offset of the record; its version. Spec: K13.
        removed: Offset of the record that ends it, or None.
        policy: Of a queue; empty for a channel.
        is_unsure: Another topology gave its queue another policy or home: nothing tells from where
            on who gets what, so it may get anything that it selects until it is subscribed again.
        ended: Version of all interest with which it ended.
        is_refused: Of another kind, class or policy than its endpoint has: nodes leave it out.
        asked: What its record says.
        since_ms: When that came, by the broker's clock.
        is_wide: Nodes may have merged its filter with others under a wider one: beyond what it asks
            for it may get anything.
        is_surplus: The queues of its node have more shapes of wildcards than it takes: it may leave
            this one out.
        lacked: Source partition -> offset up to which every hop had passed while it was in force,
            and something had not come: that was owed, wherever it is said to have ended.
    """

    filter: str
    is_certified: bool
    added: int
    removed: int | None = None
    noexport: bool = False
    policy: str = ""
    is_unsure: bool = False
    ended: int = field(default=0, compare=False)
    is_refused: bool = field(default=False, compare=False)
    asked: Subscription = field(default=Subscription(), compare=False)
    since_ms: int = field(default=0, compare=False)
    is_wide: bool = field(default=False, compare=False)
    is_surplus: bool = field(default=False, compare=False)
    lacked: dict[TopicPartition, int] = field(default_factory=dict, compare=False)

    @property
    def selecting(self) -> tuple[str, ...]:
        """The filters whose messages are allowed: its own, and `>` if a node may widen it."""
        return (self.filter, EVERYTHING) if self.is_wide else (self.filter,)

    @property
    def standing(self) -> tuple[bool, bool, int]:
        """What an endpoint has one of, least where most is promised: that is in force. Spec: K13.

        Whether it is direct, whether a queue, and its policy. One whose policy contradicts the
        declared one stands behind all others of its class and kind.
        """
        is_queue = self.asked.kind is EndpointKind.QUEUE
        known = POLICIES_BY_PROMISE.index(self.policy) if self.policy else len(POLICIES_BY_PROMISE)
        return self.asked.message_class is MessageClass.DIRECT, is_queue, known * is_queue

    def repeats(self, before: JudgedSubscription) -> bool:
        """Return whether it only repeats a subscription, in force or refused."""
        same = replace(self, added=before.added, is_certified=before.is_certified)
        is_alike = self.is_certified is before.is_certified or before.is_refused
        return same == before and is_alike and self.standing == before.standing

    @property
    def is_gone(self) -> bool:
        """Whether only its end was there to be read."""
        return self.removed == self.added

    @property
    def is_shared_out(self) -> bool:
        """Whether a queue's policy in the topology decides what it gets."""
        return self.asked.kind is EndpointKind.QUEUE and not (self.is_refused or self.is_gone)

    @property
    def is_channel(self) -> bool:
        """Whether its endpoint is a channel, by its word in force."""
        is_open = self.removed is None and not self.is_refused
        return is_open and self.asked.kind is EndpointKind.CHANNEL

    @property
    def may_move(self) -> bool:
        """Whether messages may be moved to its endpoint, or from there: one member gets each.

        Of what the mesh refuses, and of what was deleted before it was read, nobody can tell.
        """
        is_refused = not self.policy and self.asked.kind is EndpointKind.QUEUE
        return self.policy in SHARED or self.is_unsure or self.is_gone or is_refused


def judged_subscription(
    rules: QueueRules, endpoint: tuple[str, str], filter_: str, asked: Subscription, offset: int
) -> JudgedSubscription:
    """Return the subscription of a record.

    Args:
        rules: What the topology says of queues.
        endpoint: Its node and its name.
        filter_: What is asked for.
        asked: What the record says.
        offset: Of the record.
    """
    policy = rules.policy_of(*endpoint, asked)
    return JudgedSubscription(
        filter_,
        policy is not None and asked.message_class is MessageClass.GUARANTEED,
        offset,
        noexport=asked.noexport,
        policy=policy or "",
        asked=asked,
    )


def judged_by(
    subscription: JudgedSubscription,
    endpoint: tuple[str, str],
    before: QueueRules,
    rules: QueueRules,
) -> JudgedSubscription:
    """Return what a subscription is by other rules; the very same one if they change nothing."""
    is_same = before.place_of(*endpoint, subscription.asked) == rules.place_of(
        *endpoint, subscription.asked
    )
    if is_same or subscription.removed is not None:
        return subscription
    judged = judged_subscription(
        rules, endpoint, subscription.filter, subscription.asked, subscription.added
    )
    return replace(
        judged,
        is_certified=judged.is_certified and not subscription.is_refused,
        is_refused=subscription.is_refused,
        since_ms=subscription.since_ms,
        is_wide=subscription.is_wide,
        is_surplus=subscription.is_surplus,
        lacked=subscription.lacked,
    )
