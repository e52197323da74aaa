"""The audit as a whole, and as a heatmap of endpoints by minute, as views show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mesh.api.items import endpoint_items
from mesh.api.live import Snapshot
from mesh.operate.audit.heatmap import heatmap_of
from mesh.operate.audit.proof import proof_of
from mesh.operate.audit.trail import Summed
from mesh.operate.documents.audit import audit_document
from mesh.operate.minutes import MINUTE_MS


def audit_now(snapshot: Snapshot, at_ms: int | None) -> dict[str, Any]:
    """Return what `mesh audit report` prints but its lists, and how far all is proven."""
    trail = snapshot.watch.trail
    told = audit_document(trail.audited(at_ms), snapshot.seen.at_ms if at_ms is None else at_ms)
    del told["findings"], told["certificates"]
    if at_ms is not None:
        told |= {"uncertified": None, "waiting": None}  # what waited then nobody wrote
    else:
        _add_summed(told["counts"], list(trail.summed.values()))
    return {
        **told,
        "proof": asdict(proof_of(trail, snapshot.seen.at_ms, at_ms)),
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


def heatmap_document(snapshot: Snapshot, minutes: int, at_ms: int | None) -> dict[str, Any]:
    """Return the audit by endpoint and minute, and what came there by the nodes' own account.

    Args:
        snapshot: The newest look at the mesh.
        minutes: How many, the last of them that of the moment.
        at_ms: The moment that it is about, since 1970; None for now.
    """
    traffic = snapshot.watch.traffic
    endpoints = endpoint_items(snapshot, "", at_ms)
    names = [name for name, one in endpoints if one["class"] == "guaranteed"]
    end_ms = snapshot.seen.at_ms if at_ms is None else at_ms
    delivered = traffic.delivered

    def messages(name: str, minute: int) -> int:
        node, _, endpoint = name.partition("/")
        flow = delivered.get((node, endpoint))
        return 0 if flow is None else flow.guaranteed.of(minute)

    def is_busy(name: str, minute: int) -> bool:
        return messages(name, minute) > 0

    heatmap = heatmap_of(snapshot.watch.trail, names, end_ms, minutes, is_busy)
    return {
        "first_ms": heatmap.first * MINUTE_MS,
        "last_ms": heatmap.last * MINUTE_MS,
        "rows": [
            {
                "endpoint": name,
                "cells": [str(cell) for cell in cells],
                "messages": [
                    messages(name, minute)
                    or (0 if traffic.is_on_record(minute * MINUTE_MS) else None)
                    for minute in range(heatmap.first, heatmap.last + 1)
                ],
            }
            for name, cells in heatmap.rows.items()
        ],
        "counts": {str(kind): count for kind, count in heatmap.counts().items()},
    }
