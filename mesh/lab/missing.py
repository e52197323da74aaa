"""What endpoints lack when a scenario has ended: the checker judges, by steps as its moments.

Owed is what was published after the settle that follows the subscription, and drained before its
end and before the next change of the topology. Spec: lab.md 2 (`missing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.lab.checker.history import HeldRecord, History, Publish, PublishOutcome, SubscriptionSpan
from mesh.lab.checker.judge import check
from mesh.lab.clients import ScenarioSubscription
from mesh.lab.driver import Driver
from mesh.lab.queue_accounts import QueueAccounts
from mesh.lab.tally import MessageId
from mesh.model.frames import MessageClass

END = 1 << 30
"""A step after all others: what was not drained by the end is owed to nobody."""


def missing(driver: Driver, accounts: QueueAccounts) -> Mapping[str, int]:
    """Return how many messages each endpoint lacks; a direct one that was discarded is not owed."""
    guaranteed, direct = (_Ends(driver, accounts, one).absent() for one in MessageClass)
    discarded = driver.tally.discarded_direct
    return {
        name: guaranteed.get(name, 0) + max(0, direct.get(name, 0) - discarded)
        for name in driver.tally.endpoints
    }


@dataclass(slots=True)
class _Ends:
    """A run as the checker hears of it: the messages of one class."""

    driver: Driver
    accounts: QueueAccounts
    message_class: MessageClass
    _asked: dict[tuple[str, str, int], ScenarioSubscription] = field(default_factory=dict)

    def absent(self) -> Mapping[str, int]:
        """Return how many messages are not where they must be, by endpoint."""
        history = History(
            publishes=list(self._publishes()),
            subscriptions=list(self._subscriptions()),
            origins={},
            held=self._held(),
            drained=True,
            drains=self.driver.drains,
        )
        found = check(history, self._comes).anomalies
        return {one.endpoint: one.count for one in found if one.kind == "lost"}

    def _publishes(self) -> Iterator[Publish]:
        for publication in self.driver.clients.publications:
            for identity, message in self.driver.tally.published.items():
                is_of_class = message.message_class is self.message_class
                if is_of_class and publication.has(identity, message):
                    yield Publish(
                        publisher=_source(identity),
                        sequence=message.offset,
                        node=publication.node,
                        topic=message.place.topic,
                        partition=message.place.partition,
                        subject=message.subject,
                        key=None,
                        headers="",
                        guaranteed=self.message_class is MessageClass.GUARANTEED,
                        outcome=PublishOutcome.OK,
                        invoked_ms=publication.step,
                        ended_ms=publication.step,
                    )

    def _subscriptions(self) -> Iterator[SubscriptionSpan]:
        for one in self.driver.clients.subscriptions:
            self._asked[one.place, one.filter_, one.began_at] = one
            yield SubscriptionSpan(
                endpoint=one.place,
                filter=one.filter_,
                guaranteed=True,  # once settled and drained, an endpoint of any class has them
                invoked_ms=one.began_at,
                effective_ms=one.settled_at if one.settled_at >= 0 else None,
                ending_ms=END if one.ended_at is None else one.ended_at,
            )

    def _held(self) -> Iterator[HeldRecord]:
        """Yield what endpoints have; of a shared queue each member has what all have together."""
        for name, tally in self.driver.tally.endpoints.items():
            for identity in self.accounts.seen_by_all(name, tally):
                payload = f"{_source(identity)}-{identity[-1]}"
                yield HeldRecord(
                    endpoint=name, partition=0, offset=0, payload=payload, subject="", key=None,
                    headers="",
                )  # fmt: skip

    def _comes(self, publish: Publish, wanted: SubscriptionSpan) -> bool:
        """Return whether a message must come, by all that was in force since it was settled."""
        driver, at = self.driver, publish.invoked_ms
        asked = self._asked[wanted.endpoint, wanted.filter, wanted.invoked_ms]
        drained = next(drain for drain in driver.drains if drain > at)
        is_remote = publish.node != asked.node
        if driver.topologies.is_changed(at, drained) or (is_remote and asked.noexport):
            return False
        settled = max(step for step in driver.settles if step < at)
        return driver.topologies.carry(
            publish.node, asked.node, publish.subject, (settled, at), self.message_class
        ) and self.accounts.is_owed(publish, asked, self.message_class)


def _source(identity: MessageId) -> str:
    topic_id, partition, generation, _ = identity
    return f"{topic_id.hex()}-{partition}-{generation}"
