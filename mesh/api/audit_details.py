"""The audit as a whole, and as a wall of endpoints by minute: what views show beside its lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesh.api.items import endpoint_items
from mesh.api.live import Still
from mesh.operate.audit.proof import proof_of
from mesh.operate.audit.trail import Summed
from mesh.operate.audit.wall import wall_of
from mesh.operate.documents.audit import audit_document, proof_document
from mesh.operate.minutes import MINUTE_MS


def audit_now(still: Still, at_ms: int | None) -> dict[str, Any]:
    """Return what `mesh audit report` prints but its lists, and how far all is proven."""
    trail = still.watch.trail
    told = audit_document(trail.audited(at_ms), still.seen.at_ms if at_ms is None else at_ms)
    del told["findings"], told["certificates"]
    if at_ms is not None:
        told |= {"uncertified": None, "waiting": None}  # what waited then nobody wrote
    else:
        _add_summed(told["counts"], list(trail.summed.values()))
    return {
        **told,
        "proof": proof_document(proof_of(trail, still.seen.at_ms, at_ms)),
        "fault": trail.fault or None,
        "batch": None if at_ms is not None else trail.status.get("batch"),
        "endpoints": None if at_ms is not None else trail.status.get("endpoints", []),
    }


def _add_summed(counts: dict[str, Any], summed: Sequence[Summed]) -> None:
    """Count certificates too that are not kept one by one: all of them are equal."""
    for one in summed:
        counts["certificates"] += one.certificates
        counts["equal"] += one.certificates
        counts["expected"] += one.expected
        counts["delivered"] += one.delivered


def wall_document(still: Still, minutes: int, at_ms: int | None) -> dict[str, Any]:
    """Return the audit by endpoint and minute, and what came there by the nodes' own account."""
    traffic = still.watch.traffic
    endpoints = endpoint_items(still, "", at_ms)
    names = [name for name, one in endpoints if one["class"] == "guaranteed"]
    end_ms = still.seen.at_ms if at_ms is None else at_ms
    delivered = traffic.delivered

    def messages(name: str, minute: int) -> int:
        node, _, endpoint = name.partition("/")
        flow = delivered.get((node, endpoint))
        return 0 if flow is None else flow.guaranteed.of(minute)

    def is_busy(name: str, minute: int) -> bool:
        return messages(name, minute) > 0

    wall = wall_of(still.watch.trail, names, end_ms, minutes, is_busy)
    return {
        "first_ms": wall.first * MINUTE_MS,
        "last_ms": wall.last * MINUTE_MS,
        "rows": [
            {
                "endpoint": name,
                "cells": [str(cell) for cell in cells],
                "messages": [
                    messages(name, minute)
                    or (0 if traffic.is_on_record(minute * MINUTE_MS) else None)
                    for minute in range(wall.first, wall.last + 1)
                ],
            }
            for name, cells in wall.rows.items()
        ],
        "counts": {str(kind): count for kind, count in wall.counts().items()},
    }
