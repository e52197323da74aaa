"""`mesh doctor` as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mesh.operate.doctor import Check
from mesh.operate.doctor.repair import Repair


def doctor_document(
    checks: Sequence[Check], repairs: Sequence[Repair] | None, *, ok: bool, dry_run: bool
) -> dict[str, Any]:
    """Return what was checked, by category, and what was mended where that was asked for.

    Args:
        checks: What was checked.
        repairs: What was done about it; None unless that was asked for.
        ok: Whether nothing failed.
        dry_run: Whether the repairs were only to be told.
    """
    grouped: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        said = asdict(check)
        grouped.setdefault(said.pop("category"), []).append(said)
    found: dict[str, Any] = {
        "ok": ok,
        "categories": [{"name": name, "checks": found} for name, found in grouped.items()],
    }
    if repairs is not None:
        found["repairs"] = [_repair(one, dry_run=dry_run) for one in repairs]
    return found


def _repair(repair: Repair, *, dry_run: bool) -> dict[str, Any]:
    if repair.withheld:
        outcome = "left alone"
    elif repair.refusal:
        outcome = "refused"
    else:
        outcome = "would be done" if dry_run else "done"
    return {
        "kafka": repair.kafka,
        "node": repair.node,
        "topic": repair.spec.name,
        "is_new": repair.is_new,
        "before": dict(repair.before),
        "after": dict(repair.spec.settings),
        "outcome": outcome,
        "reason": repair.withheld or repair.refusal,
    }
