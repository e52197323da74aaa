"""`mesh audit report` as a document."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mesh.operate.audit.latest import Audited, is_unsure


def audit_document(found: Audited, wall_ms: int) -> dict[str, Any]:
    """Return findings and certificates, and why the mesh is not proven sound, if it is not.

    Args:
        found: What the auditor has written.
        wall_ms: Now, ms since 1970.
    """
    doubts = found.doubts(wall_ms)
    kinds = Counter(str(one.get("kind")) for one in found.findings)
    return {
        "ok": not doubts,
        "doubts": list(doubts),
        "running": found.has_topics,
        "uncertified": found.status.get("uncertified", 0),
        "waiting": found.status.get("waiting", []),
        "counts": {
            "findings": dict(sorted(kinds.items())),
            "certificates": len(found.certificates),
            "equal": sum(bool(one.get("equal")) for one in found.certificates),
            "unsure": sum(is_unsure(one) for one in found.certificates),
            "expected": sum(int(one.get("expected", 0)) for one in found.certificates),
            "delivered": sum(int(one.get("delivered", 0)) for one in found.certificates),
        },
        "findings": list(found.findings),
        "certificates": list(found.certificates),
        "hours": list(found.hours),
    }
