"""What crossed each link, and what did not by reason: the figures behind rates. Spec: lab.md 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.names import name_fault
from mesh.model.state import Ledger
from mesh.model.topology import Topology
from streaming.tables.rows import FrameRow
from streaming.tables.topics import DIRECT, OUTBOX, TopicPlace, is_place, place_of

REASONS_MAX = 64
"""Reasons that are counted apart; the mesh has fewer."""

REASON_MAX = 64
"""Characters of one."""

OTHERS = "others"
"""Stands for all further reasons."""


@dataclass(slots=True)
class LinkCount:
    """What was written to both outboxes of one direction of a link.

    Attributes:
        messages: Messages in frames, repairs left out.
        frames: These frames.
        repairs: Messages sent again as repairs.
        direct: Of `messages`, the direct ones.
        direct_read: Direct messages that the receiver says it read: what lacks of `direct` when
            it has caught up is lost, and stands in `dropped` or was told of by the sender.
        not_forwarded: Reason -> messages that did not leave on this link, as the sender says.
        dropped: Reason -> messages of this link that went nowhere, as the receiver says.
    """

    messages: int = 0
    frames: int = 0
    repairs: int = 0
    direct: int = 0
    direct_read: int = 0
    not_forwarded: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Links:
    """Counts of all links, both directions.

    Attributes:
        prefix: Start of every topic name.
        counts: By link, `tk1->ny1`.
        changed: Links to be published.
        measured: Messages at the last measurement of rates.
        moving: Links whose last rate was above 0.
    """

    prefix: str
    counts: dict[str, LinkCount] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)
    moving: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> Links:
        """Return zeros for every link."""
        names = [
            f"{source}->{target}"
            for link in topology.links
            for source, target in (link.ends, link.ends[::-1])
        ]
        counts = {name: LinkCount() for name in sorted(names)}
        return cls(topology.prefix, counts, dict.fromkeys(counts))

    def _count(self, link: str) -> LinkCount:
        self.changed[link] = None
        return self.counts.setdefault(link, LinkCount())

    def frames(self, rows: Sequence[FrameRow]) -> None:
        """Count the frames of a batch."""
        for row in rows:
            place = place_of(self.prefix, row.place.topic)
            count = self._count(place.link)
            if row.is_repair:
                count.repairs += row.messages
                continue
            count.messages += row.messages
            count.frames += row.frames
            count.direct += row.messages if place.letter == DIRECT else 0

    def ledger(self, ledger: Ledger) -> None:
        """Add the messages that a ledger record reports as read, dropped and not forwarded."""
        for refused in ledger.not_forwarded:
            if name_fault(ledger.node) or name_fault(refused.neighbour):
                continue
            count = self._count(f"{ledger.node}->{refused.neighbour}")
            _add(count.not_forwarded, refused.reason, refused.messages)
        for source in ledger.sources:
            place = self._outbox(source.topic)
            if place is not None and place.letter == DIRECT:
                self._count(place.link).direct_read += source.messages
        for dropped in ledger.dropped:
            place = self._outbox(dropped.topic)
            if place is not None:
                _add(self._count(place.link).dropped, dropped.reason, dropped.messages)

    def _outbox(self, topic: str) -> TopicPlace | None:
        if not is_place(self.prefix, topic):
            return None
        place = place_of(self.prefix, topic)
        return place if place.kind == OUTBOX else None

    def take_rates(self, over_s: float) -> Mapping[str, float]:
        """Return messages per second since the last measurement, of all links.

        A link that has fallen silent is published once more, with a rate of 0.

        Args:
            over_s: Time since then, in seconds; 0: measure nothing.
        """
        if over_s <= 0:
            return {}
        rates: dict[str, float] = {}
        for link, count in self.counts.items():
            more = count.messages - self.measured.get(link, 0)
            rates[link] = more / over_s
            if more:
                self.measured[link] = count.messages
                self.moving[link] = None
            elif link in self.moving:
                del self.moving[link]
                self.changed[link] = None
        return rates


def _add(reasons: dict[str, int], reason: str, messages: int) -> None:
    if messages:
        told = reason[:REASON_MAX]
        known = told if told in reasons or len(reasons) < REASONS_MAX else OTHERS
        reasons[known] = reasons.get(known, 0) + messages
