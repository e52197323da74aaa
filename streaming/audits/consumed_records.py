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
from streaming.tables.topics import place_of


@dataclass(slots=True)
class ConsumedRecords:
    """The endpoints that had such records.

    Attributes:
        prefix: Start of every topic name.
        bounds: Endpoint -> ingress partition -> what is below may have been deleted; an endpoint
            without bounds is one of which they are not known yet.
        unbounded: Endpoints of which it is not known yet what had been published by then, and of
            each the records that were deleted, by partition of its topic.
    """

    prefix: str
    bounds: dict[EndpointKey, dict[TopicPartition, int]] = field(default_factory=dict)
    unbounded: dict[EndpointKey, dict[TopicPartition, tuple[int, int]]] = field(
        default_factory=dict
    )

    def lose(self, place: TopicPartition, first: int, last: int) -> None:
        """Take that records of an endpoint were deleted unread."""
        topic = place_of(self.prefix, place.topic)
        endpoint = EndpointKey(topic.node, topic.other)
        self.bounds[endpoint] = {}
        self.unbounded.setdefault(endpoint, {})[place] = (first, last)

    def lose_all(self, endpoint: EndpointKey) -> None:
        """Take that an endpoint may have got anything up to now: its topic was deleted, for one."""
        self.bounds[endpoint] = {}
        self.unbounded.setdefault(endpoint, {})

    def keep(self, endpoints: Collection[EndpointKey]) -> None:
        """Forget all other endpoints: nobody asks for anything there."""
        self.bounds = {one: known for one, known in self.bounds.items() if one in endpoints}
        self.unbounded = {one: lost for one, lost in self.unbounded.items() if one in endpoints}

    def bound(self, ends: Mapping[TopicPartition, int]) -> Iterator[Finding]:
        """Take where ingress partitions end: nothing behind that was deleted; yield the news."""
        for endpoint, lost in self.unbounded.items():
            known = self.bounds[endpoint]
            self.bounds[endpoint] = {
                place: min(end, known.get(place, end)) for place, end in ends.items() if end
            }
            for place, (first, last) in lost.items():
                yield _finding(endpoint, place, first, last)
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


def _finding(endpoint: EndpointKey, place: TopicPartition, first: int, last: int) -> Finding:
    where = records(place, first, last)
    text = (
        f"{where} was deleted before it could be read: whether {endpoint} had got what it had to by"
        " then is not proven"
    )
    span, anchor = (first, last, last - first + 1), f"deleted@{first}"
    kind = FindingKind.UNPROVEN
    return endpoint_finding(kind, text, endpoint, place, *span, anchor=anchor, ids=(where,))
