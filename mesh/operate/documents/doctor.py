"""`mesh doctor` as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mesh.operate.doctor import Check
from mesh.operate.doctor.fixes import Fix


def doctor_document(
    checks: Sequence[Check], fixes: Sequence[Fix] | None, *, ok: bool, dry_run: bool
) -> dict[str, Any]:
    """Return what was checked, by category, and what was fixed if that was requested.

    Args:
        checks: What was checked.
        fixes: What was done about it; None unless that was requested.
        ok: Whether nothing failed.
        dry_run: Whether the fixes were only to be listed.
    """
    grouped: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        said = asdict(check)
        grouped.setdefault(said.pop("category"), []).append(said)
    found: dict[str, Any] = {
        "ok": ok,
        "categories": [{"name": name, "checks": found} for name, found in grouped.items()],
    }
    if fixes is not None:
        found["repairs"] = [_fix(one, dry_run=dry_run) for one in fixes]
    return found


def _fix(fix: Fix, *, dry_run: bool) -> dict[str, Any]:
    if fix.withheld:
        outcome = "left alone"
    elif fix.refusal:
        outcome = "refused"
    else:
        outcome = "would be done" if dry_run else "done"
    return {
        "kafka": fix.kafka,
        "node": fix.node,
        "topic": fix.spec.name,
        "is_new": fix.is_new,
        "before": dict(fix.before),
        "after": dict(fix.spec.settings),
        "outcome": outcome,
        "reason": fix.withheld or fix.refusal,
    }
