"""What says of its origin what cannot be: another class or node, or a source that is none.

Spec: K9, K10, K29, DESIGN 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import EVIDENCE_MAX, Finding, message_range, records
from streaming.audits.names import Names
from streaming.audits.paths import began_at
from streaming.audits.pending import Pending
from streaming.audits.row_findings import row_finding
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import INGRESS, OUTBOX, place_of

UNNAMED_S = 60.0
"""How long the name of a source may be read after its messages, in seconds."""

UNNAMED_MAX = 1_000
"""Links and sources of which frames wait for that at most: nothing is judged while a Kafka cluster
is not read. Others are reported as not examined."""


class StrangerKey(NamedTuple):
    """Records of one topic, an endpoint's or an outbox, whose source nobody has named."""

    topic: str
    source: SourceKey


def mislabelled_finding(prefix: str, place: TopicPartition, row: DeliveryRow) -> Finding:
    """Return the finding for deliveries whose class differs from that of their ingress."""
    endpoint = place_of(prefix, row.place.topic).endpoint
    text = f"{endpoint} got messages of {place} that say they are {row.message_class}"
    return row_finding(FindingKind.UNEXPECTED, text, row, prefix, str(place), anchor="class")


def never_published_finding(prefix: str, place: TopicPartition, row: DeliveryRow) -> Finding:
    """Return the finding for deliveries whose source is no ingress topic."""
    endpoint = place_of(prefix, row.place.topic).endpoint
    text = f"{endpoint} got messages of {place}, to which no client publishes"
    return row_finding(FindingKind.FORGED_ORIGIN, text, row, prefix, str(place))


def forged_finding(prefix: str, key: StrangerKey, rows: Sequence[DeliveryRow]) -> Finding:
    """Return the finding for deliveries whose source topic no Kafka cluster has."""
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


def unexamined_finding(prefix: str, row: DeliveryRow | FrameRow) -> Finding:
    """Return that there was no room for records whose source nobody has named: it may be forged."""
    topic = place_of(prefix, row.place.topic)
    way = ">".join(row.path) or "nowhere"
    text = (
        f"has messages of sources that nobody had named, as of {TopicPartition(*row.source)} by"
        f" {way}, while too many others waited for that: they are not examined"
    )
    if isinstance(row, DeliveryRow):
        text += "; of sources that are named later it is not proven what had come by then"
    told = row_finding(FindingKind.UNPROVEN, "", row, prefix, "", anchor="unexamined")
    where = topic.link or topic.endpoint
    return replace(told, text=f"{where} {text}", ids=(), first=None, last=None)


def late_finding(prefix: str, place: TopicPartition, row: DeliveryRow) -> Finding:
    """Return that there was no room for late deliveries: they may be copies, or unrequested."""
    text = (
        f"{place_of(prefix, row.place.topic).endpoint} got messages of {place} after their block"
        " had been certified for good, while too many others waited to be examined: nobody knows"
        " whether they are copies, or were not requested"
    )
    return row_finding(FindingKind.UNPROVEN, text, row, prefix, str(place), anchor="late")


def forgotten_findings(
    prefix: str, gone: Iterable[TopicPartition], anchor: str, unseen: str
) -> Iterator[Finding]:
    """Yield that sources that nobody has named are no longer followed, for each link.

    Args:
        prefix: Start of every topic name.
        gone: Partition of the outbox, once for each of these sources.
        anchor: Tells apart the audits that follow sources.
        unseen: The faults that are not found from now on.
    """
    for outbox, count in Counter(gone).items():
        topic = place_of(prefix, outbox.topic)
        yield Finding(
            kind=FindingKind.UNPROVEN,
            text=f"{outbox} names too many sources that no Kafka cluster is known to have: they are"
            f" no longer followed, and {unseen} of their messages are not found",
            link=topic.link,
            count=count,
            anchor=anchor,
            node=topic.node,
        )


def unfollowed_finding(prefix: str, place: TopicPartition) -> Finding:
    """Return that an endpoint got messages of more sources than are followed in order."""
    topic = place_of(prefix, place.topic)
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{topic.endpoint} got messages of too many sources, or by too many ways: those silent"
        " for longest are no longer followed, and if they go on, neither disorder nor copies of"
        " direct messages from before are found",
        endpoint=topic.endpoint,
        anchor="order",
        node=topic.node,
    )


@dataclass(slots=True)
class StrangeFrames:
    """What frames say of where their messages were published.

    Attributes:
        prefix: Start of every topic name.
        unnamed: Those of sources that nobody has named, and since when.
    """

    prefix: str
    unnamed: Pending[StrangerKey, FrameRow] = field(default_factory=Pending)

    def absorb(self, rows: Sequence[FrameRow], names: Names, now_s: float) -> Iterator[Finding]:
        """Take the frames of a batch; yield those whose origin is another than they say.

        Frames of unnamed sources that there is no room for are reported as well; what has been
        named by now takes none.
        """
        for row in (*self._take_named(names), *rows):
            place = names.place(row.source)
            if place is None:
                key = StrangerKey(row.place.topic, row.source)
                if not self.unnamed.hold(key, row, now_s, FrameRow.joined, UNNAMED_MAX):
                    yield unexamined_finding(self.prefix, row)
            elif (finding := self._fault(place, row)) is not None:
                yield finding

    def _take_named(self, names: Names) -> Sequence[FrameRow]:
        named = [one for one in self.unnamed if names.place(one.source) is not None]
        return [self.unnamed.pop(key)[1] for key in named]

    def _fault(self, place: TopicPartition, row: FrameRow) -> Finding | None:
        outbox, origin = place_of(self.prefix, row.place.topic), place_of(self.prefix, place.topic)
        if origin.kind != INGRESS and (row.messages or origin.kind != OUTBOX):
            text = f"carries messages of {place}, to which no client publishes"
            return self._finding(FindingKind.FORGED_ORIGIN, text, str(place), row)
        # Who moves on what was moved to it knows from where it came last, and no further back.
        if began_at(origin, row) != row.node and not row.is_moved:
            text = f"carries messages of {place} that say they were published at {row.node}"
            return self._finding(FindingKind.FORGED_ORIGIN, text, str(place), row)
        if origin.letter != outbox.letter:
            text = f"carries messages of {place} by another class than that of their ingress"
            return self._finding(FindingKind.UNEXPECTED, text, str(place), row, "class")
        return None

    def judge(self, names: Names, now_s: float) -> Iterator[Finding]:
        """Yield what has crossed links of sources that no Kafka cluster has, and drop it.

        Args:
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        yield from self.absorb([], names, now_s)
        for key, row in self.unnamed.take_due(UNNAMED_S, now_s):
            source = str(TopicPartition(*key.source))
            text = f"carries messages of a topic that no Kafka cluster has: id {source}"
            yield self._finding(FindingKind.FORGED_ORIGIN, text, source, row)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.unnamed.go_ahead(ahead_s)

    def _finding(
        self, kind: FindingKind, text: str, source: str, row: FrameRow, anchor: str = ""
    ) -> Finding:
        link = place_of(self.prefix, row.place.topic).link
        return row_finding(kind, f"{link} {text}", row, self.prefix, source, anchor=anchor)
