"""`mesh drill` as a document: what was planted, and what was found of it."""

from __future__ import annotations

from typing import Any

from mesh.operate.audit_entries import Entry
from mesh.operate.drills import Planted


def drill_document(planted: Planted, found: Entry | None, seconds: float) -> dict[str, Any]:
    """Return a drill; `seconds` from its last record to the finding, or to where nobody waited on.

    Args:
        planted: What was written.
        found: The finding, or None.
        seconds: How long that took.
    """
    return {
        "drill": planted.drill.value,
        "endpoint": planted.endpoint,
        "message": planted.message,
        "records": list(planted.evidence),
        "expected": planted.drill.finding,
        "found": None if found is None else dict(found),
        "seconds": round(seconds, 2),
    }
