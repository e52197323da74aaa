"""A plan as scripts read it, and as `mesh plan --out` keeps it. Spec: K27, K28."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from mesh.config.located import FILE_BYTES_MAX, Document
from mesh.config.published import published_document
from mesh.core.reach import ReachChange, SourceReach
from mesh.core.rights import Right
from mesh.core.walks import Walk
from mesh.operate.changes.plan import Plan

PLAN_BYTES_MAX = 256 * 1024 * 1024
"""Topics and rights of some ten thousand new links."""


def large_plan(path: Path) -> Document | None:
    """Return the content of a kept plan that is larger than any hand-written file.

    A program has written it, so nothing is located in it. None for anything else.
    """
    try:
        if not FILE_BYTES_MAX < path.stat().st_size <= PLAN_BYTES_MAX:
            return None
        plan = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(plan, dict) or plan.get("kind") != "Plan":
        return None
    value = {key: plan.get(key) for key in ("kind", "base", "document")}
    return Document(name=str(path), value=value, marks={})


def plan_document(plan: Plan, *, allow_delete: bool) -> Mapping[str, object]:
    """Return everything a plan says, and the proposed document.

    Args:
        plan: The plan.
        allow_delete: Whether unread messages may be lost with their topics.
    """
    return {
        "apiVersion": "mesh/v1",
        "kind": "Plan",
        "metadata": {"name": plan.base.topology.name},
        "base": {"version": plan.base.number, "hash": plan.base.hash},
        "allow_delete": allow_delete,
        "changes": [asdict(one) for one in plan.differences],
        "restart": list(plan.to_restart),
        "topics": asdict(plan.topics),
        "rights": {
            "needed": [_right(one) for one in plan.rights.needed],
            "unneeded": [_right(one) for one in plan.rights.unneeded],
        },
        "reach": _reach(plan.reach),
        "queues": list(plan.queues),
        "interest": _interest(plan) if plan.knows_interest else None,
        "unread": [asdict(one) for one in plan.unread],
        "document": published_document(plan.proposed),
    }


def _right(right: Right) -> Mapping[str, str]:
    return {
        "node": right.node,
        "kafka": right.kafka,
        "operation": str(right.operation),
        "resource": str(right.resource),
        "name": right.name,
        "pattern": "prefixed" if right.is_prefix else "literal",
    }


def _reach(reach: ReachChange) -> Mapping[str, object]:
    return {
        "sources": [_source(one) for one in reach.sources],
        "moves": [
            {
                "old": _walk(move.old),
                "new": _walk(move.new),
                "walks": move.walks,
                "pairs": move.pairs,
                "example": [_walk(walk) for walk in move.example],
            }
            for move in reach.moves
        ],
        "guaranteed": [_source(one) for one in reach.guaranteed],
    }


def _source(one: SourceReach) -> Mapping[str, object]:
    return {
        "source": one.source,
        "links_before": one.before,
        "links_after": one.after,
        "gained": list(one.gained),
        "lost": list(one.lost),
    }


def _walk(walk: Walk) -> Mapping[str, object]:
    return {"nodes": list(walk.nodes), "zones": [link.zone for link in walk.links]}


def _interest(plan: Plan) -> Mapping[str, object]:
    return {
        "endpoints": [
            {
                "endpoint": f"{one.subscription.node}/{one.subscription.endpoint}",
                "filter": one.subscription.filter,
                "gains": list(one.gains),
                "loses": list(one.loses),
            }
            for one in plan.reach.audience
        ],
        "copies": [
            {
                "filter": one.filter,
                "links": {source: list(copies) for source, copies in one.copies.items()},
            }
            for one in plan.reach.copies
        ],
    }
