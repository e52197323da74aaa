"""Records that clients consumed, and their endpoints no longer had, before the auditor read them.

Which messages they were nobody knows. Those of one source are in order (DESIGN 6), so before the
first that was read there anything may have been, up to what had been published by then; from that
one on nothing else was deleted. What may have been there is owed and not proven. Spec: K5, K29.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from mesh.model.findings import FindingKind
from streaming.audits.cases import endpoint_finding
from streaming.audits.finding_register import Finding, records
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.tables.rows import DeliveryRow, TopicPartition
from streaming.tables.topics import INGRESS, place_of


@dataclass(slots=True)
class ConsumedRecords:
    """The endpoints that had such records.

    Attributes:
        prefix: Start of every topic name.
        bounds: Endpoint -> ingress partition -> what is below may have been deleted; an endpoint
            without bounds is one of which they are not known yet.
        unbounded: Endpoints of which it is not known yet what had been published by then, and of
            each the ranges of records that were deleted: partition of its topic, first, last.
        strange: Endpoints that had more of sources that nobody had named than is kept.
        named: Ids of the topics that were named by then; what was lost is not of these.
    """

    prefix: str
    bounds: dict[EndpointKey, dict[TopicPartition, int]] = field(default_factory=dict)
    unbounded: dict[EndpointKey, list[tuple[TopicPartition, int, int]]] = field(
        default_factory=dict
    )
    strange: dict[EndpointKey, None] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)

    def lose(self, place: TopicPartition, first: int, last: int) -> None:
        """Take that records of an endpoint were deleted unread."""
        topic = place_of(self.prefix, place.topic)
        endpoint = EndpointKey(topic.node, topic.other)
        self.bounds[endpoint] = {}
        self.unbounded.setdefault(endpoint, []).append((place, first, last))

    def lose_all(self, endpoint: EndpointKey) -> None:
        """Take that an endpoint may have got anything up to now: its topic was deleted, for one."""
        self.bounds[endpoint] = {}
        self.unbounded.setdefault(endpoint, [])

    def lose_strange(self, endpoint: EndpointKey, names: Names) -> None:
        """Take that an endpoint got something of a source that nobody has named, and what is lost.

        It was of none that has a name: whoever floods an endpoint hides nothing of those.
        """
        if not self.strange:
            self.named = dict.fromkeys(names.topics)
        self.strange[endpoint] = None

    def look_at(self, names: Names) -> bool:
        """Take which topics have names; return whether one may have been among what was lost."""
        if not self.strange:
            return False
        topics = [topic for id_, topic in names.topics.items() if id_ not in self.named]
        news = [one for one in topics if place_of(self.prefix, one).kind == INGRESS]
        self.named = dict.fromkeys(names.topics)
        if not news:
            return False
        for endpoint in self.strange:
            self.lose_all(endpoint)
        self.strange.clear()
        return True

    def keep(self, endpoints: Collection[EndpointKey]) -> None:
        """Forget all other endpoints: nobody asks for anything there."""
        self.strange = {one: None for one in self.strange if one in endpoints}
        self.bounds = {one: known for one, known in self.bounds.items() if one in endpoints}
        self.unbounded = {one: lost for one, lost in self.unbounded.items() if one in endpoints}

    def bound(
        self, ends: Mapping[TopicPartition, int], promised: Collection[EndpointKey]
    ) -> Iterator[Finding]:
        """Take where ingress partitions end: nothing behind that was deleted; yield the news.

        Args:
            ends: That, of guaranteed messages.
            promised: Endpoints that are owed something; the others get direct messages at most.
        """
        for endpoint, lost in self.unbounded.items():
            known = self.bounds[endpoint]
            self.bounds[endpoint] = {
                place: min(end, known.get(place, end)) for place, end in ends.items() if end
            }
            told = _unproven if endpoint in promised else _unexamined
            for place, first, last in lost:
                yield told(endpoint, place, first, last)
        self.unbounded.clear()

    def deliver(self, rows: Sequence[DeliveryRow], names: Names) -> bool:
        """Narrow the bounds by deliveries that were read; return whether a bound has changed."""
        is_news = False
        for row in rows if self.bounds else ():
            topic, place = place_of(self.prefix, row.place.topic), names.place(row.source)
            endpoint = EndpointKey(topic.node, topic.other)
            bounds = self.bounds.get(endpoint)
            if bounds is None or place is None or row.is_moved:
                continue
            is_bounded = place in bounds or endpoint in self.unbounded
            if is_bounded and row.first < bounds.get(place, inf):
                bounds[place] = row.first
                is_news = True
        return is_news

    def below(self, endpoint: EndpointKey, place: TopicPartition) -> float:
        """Return the source offset below which messages may have been there and be deleted."""
        if endpoint in self.unbounded:
            return self.bounds[endpoint].get(place, inf)
        return self.bounds.get(endpoint, {}).get(place, 0)


def _unproven(endpoint: EndpointKey, place: TopicPartition, first: int, last: int) -> Finding:
    owed = f"whether {endpoint} had got what it had to by then is not proven"
    return _finding(endpoint, place, first, last, owed, f"deleted@{first}")


def _unexamined(endpoint: EndpointKey, place: TopicPartition, first: int, last: int) -> Finding:
    """Return the news of an endpoint that is owed nothing: one finding for each partition.

    Brokers bound such a topic by bytes, so one that is read late loses some again and again.
    """
    doubt = (
        f"whether somebody had requested what {endpoint} got there, and whether it came once, in"
        " order and by a way that the topology has, nobody knows"
    )
    return _finding(endpoint, place, first, last, doubt, "deleted")


def _finding(
    endpoint: EndpointKey, place: TopicPartition, first: int, last: int, doubt: str, anchor: str
) -> Finding:
    where, span = records(place, first, last), (first, last, last - first + 1)
    text = f"{where} was deleted before it could be read: {doubt}"
    kind = FindingKind.UNPROVEN
    return endpoint_finding(kind, text, endpoint, place, *span, anchor=anchor, ids=(where,))
