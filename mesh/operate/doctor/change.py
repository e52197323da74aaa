"""Does a change of the topology go on, and do all nodes know how far it is? Spec: K28."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.control import Change, Stage
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.findings import Category, Check, first_of, judged
from mesh.view.change_records import change_order

STILL_S = 60.0
"""A change that is at one stage for so long stands still."""


def check_change(at: Examination) -> Iterator[Check]:
    """Yield one check, if a change was ever begun."""
    change = at.view.change
    if change is None:
        return
    description = f"the change to version {change.number} goes on"
    since_s = 0.0 if at.wall_ms is None else (at.wall_ms() - at.view.change_ms) / 1000
    behind = first_of(_behind(at, change))
    if since_s < STILL_S or not (change.stage in (Stage.HOLD, Stage.SWITCH) or behind):
        yield judged(Category.NODES, description, "", "")
        return
    error = f"it is at stage {change.stage} for {since_s:.0f} s"
    hint = "go on with it by the command that began it (`mesh apply` of the same file)"
    if change.stage is Stage.HOLD:
        error += f", and {len(change.holding)} nodes take nothing of their clients"
        hint += ", or go back by `mesh apply --abort`"
    elif change.stage is Stage.ABORT:
        hint = "end it by `mesh apply --abort`"
    yield judged(Category.NODES, description, error + (f": {behind}" if behind else ""), hint)


def _behind(at: Examination, change: Change) -> Iterator[str]:
    """Yield nodes that beat and have not done what the stage asks for."""
    for node, seen in at.view.nodes.items():
        told = seen.heartbeat.change if seen.heartbeat is not None else None
        if not at.beats.get(node) or told is None:
            continue
        is_older = change_order(Change(told.number, told.stage, "")) < change_order(change)
        if is_older:
            yield f"{node} has not read it"
        elif not told.is_done:
            yield f"{node} has not done it"
