"""`mesh trace` and `mesh dlq` as documents: where messages went, and where they stopped."""

from __future__ import annotations

from typing import Any

from mesh.operate.messages.dead_letters import Letter
from mesh.operate.messages.trace import Trace


def trace_document(found: Trace) -> dict[str, Any]:
    """Return what was found of one message: its record, frames, deliveries, dead letter."""
    ingress, identity = found.ingress, found.ingress.identity
    place = f"{ingress.place.topic}/{ingress.place.partition}"
    return {
        "id": f"{place}/{identity.generation}/{identity.offset}",
        "topic_id": identity.topic_id,
        "class": str(ingress.message_class),
        "ingress": {
            "node": ingress.node,
            "there": found.is_there,
            "routed": found.is_routed,
            "subject": found.subject,
            "payload_bytes": found.size,
            "created_ms": found.created_ms,
        },
        "frames": [
            {
                "link": f"{one.source}->{one.target}",
                "place": f"{one.place.topic}/{one.place.partition}/{one.offset}",
                "path": list(one.path),
                "first": one.first,
                "last": one.last,
                "messages": one.messages,
                "repair": one.is_repair,
                "eras": [{"domain": era.domain.hex(), "number": era.number} for era in one.eras],
                "appended_ms": one.appended_ms,
            }
            for one in found.frames
        ],
        "deliveries": [
            {
                "endpoint": f"{one.node}/{one.endpoint}",
                "place": f"{one.place.topic}/{one.place.partition}/{one.offset}",
                "path": list(one.path),
                "committed_ms": one.committed_ms,
            }
            for one in found.deliveries
        ],
        "refused": None
        if found.letter is None
        else {"reason": found.letter.reason, "detail": found.letter.detail},
        "not_looked_at": [f"{one.topic}/{one.partition}" for one in found.unseen],
        "unknown": list(found.unknown),
    }


def letter_document(letter: Letter) -> dict[str, Any]:
    """Return one dead letter."""
    header = letter.header
    source = "" if header is None else f"{header.topic}[{header.partition}]@{header.offset}"
    return {
        "identity": header.identity if header is not None else "",
        "subject": letter.subject,
        "reason": header.reason if header is not None else "UNREADABLE",
        "size": letter.size,
        "is_whole": letter.size == letter.kept,
        "target": header.target if header is not None else "",
        "source": source,
        "place": f"{letter.place}@{letter.offset}",
        "written_ms": letter.written_ms,
        "detail": header.detail if header is not None else "",
    }
