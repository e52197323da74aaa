"""`mesh queue list` and `show` as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mesh.model.topology import Topology
from mesh.operate.endpoints.queues import QueueStatus, queue_statuses, queue_statuses_then
from mesh.operate.interest.history import HeldSubscription, InterestAt
from mesh.view.mesh_view import RunningMesh


def queues_document(mesh: RunningMesh) -> dict[str, Any]:
    """Return every queue: policy, home, members, their consumers, and what waits."""
    found = queue_statuses(mesh)
    unknown = [node for node in mesh.topology.nodes if mesh.view.is_unreachable(node)]
    return {"ok": True, "queues": [queue_document(one) for one in found], "unknown": unknown}


def queues_document_then(
    topology: Topology,
    pasts: Mapping[str, InterestAt],
    ended: Mapping[str, Sequence[HeldSubscription]],
) -> dict[str, Any]:
    """Return every queue of a past moment, with null for what is not on record; see there."""
    found = queue_statuses_then(topology, pasts, ended)
    unknown = [node for node in topology.nodes if node not in pasts]
    never = {"consumers": None, "waiting": None}
    return {"queues": [{**queue_document(one), **never} for one in found], "unknown": unknown}


def queue_document(one: QueueStatus) -> dict[str, Any]:
    """Return one queue; sums are null if a node that may be a member cannot be queried."""
    members = [asdict(member) for member in one.members]
    declared = one.declared
    return {
        "queue": one.name,
        "policy": str(one.policy),
        "home": one.home,
        "is_declared": declared is not None,
        "max_deliveries": None if declared is None else declared.max_deliveries,
        "max_age_s": None if declared is None else declared.max_age_s,
        "consumers": None if one.unknown else _sum([member["consumers"] for member in members]),
        "waiting": None if one.unknown else _sum([member["waiting"] for member in members]),
        "members": members,
        "unknown": list(one.unknown),
    }


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum, or None if one of them is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
