"""Hand-written histories: one calm run, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mesh.lab.checker.history import HeldRecord, History, Publish, PublishOutcome, SubscriptionSpan

ENDPOINT = "b/orders"


def publish(sequence: int, publisher: str = "p", **changes: object) -> Publish:
    calm = Publish(
        publisher=publisher,
        sequence=sequence,
        node="a",
        topic="mesh.a.in.g",
        partition=0,
        subject="acme/x",
        key="k",
        headers=f"n={sequence}",
        guaranteed=True,
        outcome=PublishOutcome.OK,
        invoked_ms=100 + sequence,
        ended_ms=101 + sequence,
    )
    return replace(calm, **changes)


def wanted(filter_: str = "acme/>", **changes: object) -> SubscriptionSpan:
    calm = SubscriptionSpan(
        endpoint=ENDPOINT, filter=filter_, guaranteed=True, invoked_ms=10, effective_ms=50
    )
    return replace(calm, **changes)


def held(of: Publish, offset: int = 0, **changes: object) -> HeldRecord:
    calm = HeldRecord(
        endpoint=ENDPOINT,
        partition=of.partition,
        offset=offset,
        payload=of.payload,
        subject=of.subject,
        key=of.key,
        headers=of.headers,
        origin=(of.topic, of.partition, of.sequence),
    )
    return replace(calm, **changes)


@dataclass
class Run:
    """A history in the making: everything published is there once, in order."""

    publishes: list[Publish] = field(default_factory=lambda: [publish(n) for n in range(6)])
    subscriptions: list[SubscriptionSpan] = field(default_factory=lambda: [wanted()])
    held: list[HeldRecord] = field(default_factory=list)
    drained: bool = True
    drains: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.held = [held(one, n) for n, one in enumerate(self.publishes)]

    def history(self) -> History:
        return History(
            publishes=self.publishes,
            subscriptions=self.subscriptions,
            origins={"a": {"a": ()}, "b": {"a": (), "b": ()}, "c": {"c": ()}},
            held=self.held,
            drained=self.drained,
            drains=self.drains,
        )


Spoil = Callable[[Run], None]
