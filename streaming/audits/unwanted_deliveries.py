"""Direct messages that an endpoint got and never asked for. Spec: K31, DESIGN 6.

Spark matches subjects against what was known when a batch was read; a subscription may have been
read after the first messages for it, so what looks unwanted is asked again a while later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.finding_register import Finding, message_range, records
from streaming.audits.interest import EndpointKey, Interest
from streaming.audits.matching import is_filter, is_subject, pattern_of, selects
from streaming.audits.names import Names
from streaming.audits.pending import Pending
from streaming.tables.rows import SourceKey, TopicPartition, UnwantedRow
from streaming.tables.topics import place_of

UNWANTED_WAIT_S = 3.0
"""Once all has been read that was written so many seconds after a suspicion, a subscription that
excuses it has been read."""

HELD_MAX = 1_000
"""Suspicions that wait at most: nothing is judged while a Kafka cluster is not read. Others are
reported as not examined."""


class UnwantedKey(NamedTuple):
    """Messages of one source in one endpoint partition."""

    place: TopicPartition
    source: SourceKey


@dataclass(slots=True)
class UnwantedDeliveries:
    """What looks unwanted, and since when.

    Attributes:
        prefix: Start of every topic name.
        held: By endpoint partition and source.
    """

    prefix: str
    held: Pending[UnwantedKey, UnwantedRow] = field(default_factory=Pending)

    def absorb(self, rows: Sequence[UnwantedRow], now_s: float) -> Iterator[Finding]:
        """Take what looked unwanted in a batch; yield what there is no room for."""
        for row in rows:
            key = UnwantedKey(row.place, row.source)
            if not self.held.hold(key, row, now_s, UnwantedRow.joined, HELD_MAX):
                yield _unexamined(self._endpoint(row), row)

    def excuse(self, interest: Interest) -> None:
        """Drop what has been requested by now: ended subscriptions are soon forgotten."""
        for key, (_, row) in list(self.held.items()):
            if row.subjects and not self._strange(row, interest):
                del self.held[key]

    def judge(self, interest: Interest, names: Names, now_s: float) -> Iterator[Finding]:
        """Yield what nobody has asked for.

        Args:
            interest: Who asks.
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        for _, row in self.held.take_due(UNWANTED_WAIT_S, now_s):
            strange = self._strange(row, interest)
            if strange or not row.subjects:
                yield _finding(self._endpoint(row), row, strange, names)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.held.go_ahead(ahead_s)

    def _endpoint(self, row: UnwantedRow) -> EndpointKey:
        topic = place_of(self.prefix, row.place.topic)
        return EndpointKey(topic.node, topic.other)

    def _strange(self, row: UnwantedRow, interest: Interest) -> Sequence[str]:
        """Return the subjects that neither the endpoint nor its queue's members have requested."""
        endpoint = self._endpoint(row)
        askers = (endpoint, *interest.others_of(endpoint))
        asked = [one for who in askers for one in interest.subscriptions.get(who, ())]
        filters = [filter_ for one in asked for filter_ in one.selecting]
        return [
            one
            for one in row.subjects
            if not (is_subject(one) and any(selects(wanted, one) for wanted in filters))
        ]


def wanted_patterns(prefix: str, interest: Interest) -> Mapping[str, str]:
    """Return, by endpoint topic, a regular expression for all subjects ever requested there."""
    names = TopicNames(prefix)
    return {
        names.endpoint(endpoint.node, endpoint.name): pattern_of(
            filter_ for one in subscriptions if is_filter(one.filter) for filter_ in one.selecting
        )
        for endpoint, subscriptions in interest.subscriptions.items()
    }


def _finding(
    endpoint: EndpointKey, row: UnwantedRow, subjects: Sequence[str], names: Names
) -> Finding:
    source = names.text(row.source)
    told = ", ".join(subjects[:3]) or "no subject"
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{endpoint} got direct messages of {source} that it never asked for: {told}",
        ids=(message_range(source, 0, row.first, row.last),),
        endpoint=str(endpoint),
        source=source,
        first=row.first,
        last=row.last,
        count=row.count,
        anchor="direct",
        node=endpoint.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )


def _unexamined(endpoint: EndpointKey, row: UnwantedRow) -> Finding:
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{endpoint} got direct messages that it may not have requested, while too many others"
        " waited to be examined: nobody knows whether it had requested them",
        endpoint=str(endpoint),
        count=row.count,
        anchor="unexamined",
        node=endpoint.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )
