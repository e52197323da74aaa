"""Deliveries that say what cannot be: another class, or a source that is none. Spec: K9, K29."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streaming.audits.findings import EVIDENCE_MAX, Finding, FindingKind, message_range, records
from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition
from streaming.tables.topics import place_of


class StrangerKey(NamedTuple):
    """Deliveries to one endpoint topic whose source nobody has named."""

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
