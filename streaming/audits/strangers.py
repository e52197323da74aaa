"""What says of its origin what cannot be: another class or node, or a source that is none.

Spec: K9, K10, K29, DESIGN 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streaming.audits.findings import EVIDENCE_MAX, Finding, FindingKind, message_range, records
from streaming.audits.names import Names
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import INGRESS, place_of

UNNAMED_S = 60.0
"""How long the name of a source may be read after its messages, in seconds."""

UNNAMED_MAX = 1_000
"""Links and sources of which frames wait for that at most; then they are judged at once."""


class StrangerKey(NamedTuple):
    """Records of one topic, an endpoint's or an outbox, whose source nobody has named."""

    topic: str
    source: SourceKey


@dataclass(slots=True)
class Stranger:
    """These deliveries, and when the first of them was read, on the auditor's clock."""

    since_s: float
    rows: list[DeliveryRow] = field(default_factory=list)


def mislabelled_finding(prefix: str, place: TopicPartition, row: DeliveryRow) -> Finding:
    """Return that deliveries say another class than that of their ingress."""
    text = f"got messages of {place} that say they are {row.message_class}"
    return replace(_of_delivery(FindingKind.UNEXPECTED, text, prefix, place, row), anchor="class")


def never_published_finding(prefix: str, place: TopicPartition, row: DeliveryRow) -> Finding:
    """Return that deliveries name a topic to which no client publishes."""
    text = f"got messages of {place}, to which no client publishes"
    return _of_delivery(FindingKind.FORGED_ORIGIN, text, prefix, place, row)


def _of_delivery(
    kind: FindingKind, text: str, prefix: str, place: TopicPartition, row: DeliveryRow
) -> Finding:
    topic, source = place_of(prefix, row.place.topic), str(place)
    return Finding(
        kind=kind,
        text=f"{topic.endpoint} {text}",
        ids=(message_range(source, row.generation, row.first, row.last),),
        endpoint=topic.endpoint,
        source=source,
        first=row.first,
        last=row.last,
        count=row.digest.count,
        node=topic.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )


def forged_finding(prefix: str, key: StrangerKey, rows: Sequence[DeliveryRow]) -> Finding:
    """Return that deliveries name a topic that no Kafka cluster has."""
    endpoint, source = place_of(prefix, key.topic).endpoint, str(TopicPartition(*key.source))
    first, last = min(row.first for row in rows), max(row.last for row in rows)
    return Finding(
        kind=FindingKind.FORGED_ORIGIN,
        text=f"{endpoint} got messages of a topic that no Kafka cluster has: id {source}",
        ids=(message_range(source, rows[0].generation, first, last),),
        endpoint=endpoint,
        source=source,
        first=first,
        last=last,
        count=sum(row.digest.count for row in rows),
        node=place_of(prefix, key.topic).node,
        evidence=tuple(
            records(row.place, row.record_first, row.record_last) for row in rows[:EVIDENCE_MAX]
        ),
    )


@dataclass(slots=True)
class StrangeFrames:
    """What frames say of where their messages were published.

    Attributes:
        prefix: Start of every topic name.
        unnamed: Those of sources that nobody has named, and since when.
    """

    prefix: str
    unnamed: dict[StrangerKey, tuple[float, FrameRow]] = field(default_factory=dict)

    def absorb(self, rows: Sequence[FrameRow], names: Names, now_s: float) -> Iterator[Finding]:
        """Take the frames of a batch; yield those whose origin is another than they say."""
        for row in rows:
            place = names.place(row.source)
            if place is None:
                key = StrangerKey(row.place.topic, row.source)
                since_s, known = self.unnamed.get(key, (now_s, row))
                self.unnamed[key] = (since_s, known if known is row else known.joined(row))
            elif (finding := self._fault(place, row)) is not None:
                yield finding

    def _fault(self, place: TopicPartition, row: FrameRow) -> Finding | None:
        outbox, origin = place_of(self.prefix, row.place.topic), place_of(self.prefix, place.topic)
        if origin.kind != INGRESS:
            text = f"carries messages of {place}, to which no client publishes"
            return self._finding(FindingKind.FORGED_ORIGIN, text, str(place), row)
        # Who moves on what was moved to it knows from where it came last, and no further back.
        if origin.node != row.node and not row.is_moved:
            text = f"carries messages of {place} that say they were published at {row.node}"
            return self._finding(FindingKind.FORGED_ORIGIN, text, str(place), row)
        if origin.letter != outbox.letter:
            text = f"carries messages of {place} by another class than that of their ingress"
            finding = self._finding(FindingKind.UNEXPECTED, text, str(place), row)
            return replace(finding, anchor="class")
        return None

    def judge(self, names: Names, now_s: float) -> Iterator[Finding]:
        """Yield what has crossed links of sources that no Kafka cluster has, and drop it.

        Args:
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        is_full = len(self.unnamed) > UNNAMED_MAX
        for key, (since_s, row) in list(self.unnamed.items()):
            if names.place(key.source) is not None:
                del self.unnamed[key]
                yield from self.absorb([row], names, now_s)
            elif is_full or now_s - since_s >= UNNAMED_S:
                del self.unnamed[key]
                source = str(TopicPartition(*key.source))
                text = f"carries messages of a topic that no Kafka cluster has: id {source}"
                yield self._finding(FindingKind.FORGED_ORIGIN, text, source, row)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.unnamed = {key: (at + ahead_s, row) for key, (at, row) in self.unnamed.items()}

    def _finding(self, kind: FindingKind, text: str, source: str, row: FrameRow) -> Finding:
        outbox = place_of(self.prefix, row.place.topic)
        return Finding(
            kind=kind,
            text=f"{outbox.link} {text}",
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=outbox.link,
            source=source,
            first=row.first,
            last=row.last,
            count=row.messages,
            node=outbox.node,
            evidence=(records(row.place, row.head.offset, row.tail.offset),),
        )
