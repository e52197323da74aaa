"""Findings about rows: where what a row tells of belongs in a finding."""

from __future__ import annotations

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import Finding, message_range, records
from streaming.tables.rows import DeliveryRow, FrameRow
from streaming.tables.topics import place_of


def row_finding(
    kind: FindingKind,
    text: str,
    row: DeliveryRow | FrameRow,
    prefix: str,
    source: str,
    *,
    path: tuple[str, ...] = (),
    anchor: str = "",
) -> Finding:
    """Return what is wrong with deliveries or frames of one source on one partition.

    Args:
        kind: What it is.
        text: One line for a person.
        row: The deliveries, or the frames.
        prefix: Start of every topic name.
        source: Of the messages, for people.
        path: Nodes visited, where the way tells apart what is found.
        anchor: What tells apart two faults alike in all else.
    """
    place = place_of(prefix, row.place.topic)
    match row:
        case DeliveryRow():
            count, offsets = row.digest.count, (row.record_first, row.record_last)
        case FrameRow():
            count, offsets = row.messages, (row.head.offset, row.tail.offset)
    return Finding(
        kind=kind,
        text=text,
        ids=(message_range(source, row.generation, row.first, row.last),),
        link=place.link,
        endpoint=place.endpoint,
        path=path,
        source=source,
        first=row.first,
        last=row.last,
        count=count,
        anchor=anchor,
        node=place.node,
        evidence=(records(row.place, *offsets),),
        is_moved=row.is_moved,
    )
