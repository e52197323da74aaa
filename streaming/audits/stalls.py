"""What stands still: hops that pass nothing on, silent links, subscriptions nobody takes up.

Time alone never makes a loss (K30), but whoever waits wants to know for whom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import Finding, Register
from streaming.audits.interest import EndpointKey
from streaming.audits.pending import Pending
from streaming.audits.tickets import Standstill
from streaming.tables.rows import TopicPartition

STALLED_S = 60.0
"""How long something may stand still until it is told, in seconds."""


class UntakenSubscription(NamedTuple):
    """A subscriber, and an ingress whose lanes do not know of its subscription."""

    endpoint: EndpointKey
    place: TopicPartition


@dataclass(slots=True)
class Stalls:
    """Since when what stands still.

    Attributes:
        hops: Hop -> since when, and how it stood.
        links: The same of links, by direction.
        untaken: The same of subscriptions.
    """

    hops: Pending[str, str] = field(default_factory=Pending)
    links: Pending[str, str] = field(default_factory=Pending)
    untaken: dict[UntakenSubscription, float] = field(default_factory=dict)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.hops.go_ahead(ahead_s)
        self.links.go_ahead(ahead_s)
        self.untaken = {one: at + ahead_s for one, at in self.untaken.items()}

    def judge_hops(self, stops: Mapping[str, Standstill], now_s: float, register: Register) -> None:
        """Report hops that stand still, and take back what goes on.

        Args:
            stops: Hop -> how it stands, of all that wait just now.
            now_s: The auditor's clock, in seconds.
            register: Of findings.
        """
        _judge(self.hops, stops, _stalled, now_s, register)

    def judge_links(
        self, stops: Mapping[str, Standstill], now_s: float, register: Register
    ) -> None:
        """Report links over which nothing moves, and take back what goes on.

        Args:
            stops: Direction of a link -> how it stands, of all on which frames wait.
            now_s: The auditor's clock, in seconds.
            register: Of findings.
        """
        _judge(self.links, stops, _silent, now_s, register)

    def judge_interest(
        self, untaken: Mapping[UntakenSubscription, None], now_s: float, register: Register
    ) -> None:
        """Report subscriptions that no lane takes up, and take back those that are known now.

        Args:
            untaken: Those that are not known just now though they could be.
            now_s: The auditor's clock, in seconds.
            register: Of findings.
        """
        for one in [one for one in self.untaken if one not in untaken]:
            del self.untaken[one]
            register.withdraw(_untaken(one).id)
        for one in untaken:
            since_s = min(self.untaken.get(one, now_s), now_s)
            self.untaken[one] = since_s
            if now_s - since_s >= STALLED_S:
                register.replace(_untaken(one))


def _judge(
    known: Pending[str, str],
    stops: Mapping[str, Standstill],
    finding: Callable[[str, Standstill], Finding],
    now_s: float,
    register: Register,
) -> None:
    for one in [one for one in known if one not in stops]:
        del known[one]
        register.withdraw(finding(one, Standstill("", "")).id)
    for one, stop in stops.items():
        since_s, reason = known.get(one, (now_s, stop.reason))
        if reason != stop.reason or now_s < since_s:
            register.withdraw(finding(one, stop).id)
            since_s = now_s
        known[one] = (since_s, stop.reason)
        if now_s - since_s >= STALLED_S:
            register.replace(finding(one, stop))


def _silent(link: str, stop: Standstill) -> Finding:
    return Finding(
        kind=FindingKind.SILENT_LINK,
        text=f"nothing has come over {link} for a minute though frames wait: {stop.reason}",
        ids=(link,),
        node=stop.node,
        link=link,
    )


def _stalled(hop: str, stop: Standstill) -> Finding:
    return Finding(
        kind=FindingKind.STALLED,
        text=f"nothing has moved for a minute: {stop.reason}",
        ids=(hop,),
        node=stop.node,
        source=hop,
    )


def _untaken(one: UntakenSubscription) -> Finding:
    return Finding(
        kind=FindingKind.STALE_INTEREST,
        text=f"messages of {one.place} match a subscription of {one.endpoint} that its lane does"
        " not know: they are owed to nobody",
        ids=(str(one.place),),
        node=one.endpoint.node,
        endpoint=str(one.endpoint),
        source=str(one.place),
    )
