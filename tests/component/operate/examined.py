"""A simulated mesh examined as the doctor does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesh.operate.doctor import Category, Check, Examination, Result, examine
from mesh.operate.status import observe
from tests.component.in_memory_mesh import Mesh


def examination(mesh: Mesh, **options: Any) -> Examination:
    view = mesh.view()
    view.refresh()
    beats = observe(view, mesh.time)
    found: dict[str, Any] = {
        "topology": mesh.topology,
        "kafka": mesh.world.kafka,
        "view": view,
        "beats": beats,
        "time": mesh.time,
        "wall_ms": mesh.now_ms,
    }
    return Examination(**{**found, **options})


def unwell(mesh: Mesh, *categories: Category, **options: Any) -> Sequence[Check]:
    """Return the checks that are not well, of all categories or of some."""
    checks = examine(examination(mesh, **options), categories or list(Category))
    return [one for one in checks if one.result is not Result.OK]


def failed(mesh: Mesh, *categories: Category, **options: Any) -> dict[str, str]:
    """Return what is wrong, by description."""
    return {one.description: one.error for one in unwell(mesh, *categories, **options)}
