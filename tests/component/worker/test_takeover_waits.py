"""The page of waits names each one of those who give lanes up and take them."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from mesh.worker.lanes import takeover_waits

NAMED = re.findall(r"`(mesh[\w.]+)\.(\w+)`", takeover_waits.__doc__ or "")
MODULES = [
    *(
        f"mesh.worker.lanes.{name}"
        for name in (
            *("taking", "admission", "committing", "direct_copies"),
            *("truncated_logs", "first_records"),
        )
    ),
    *(f"mesh.worker.process.{name}" for name in ("errands", "recall")),
]


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_every_wait_that_is_named_is_there(module: str, name: str) -> None:
    assert isinstance(getattr(import_module(module), name), int | float)


@pytest.mark.parametrize("module", MODULES)
def test_every_wait_that_is_there_is_named(module: str) -> None:
    """But for those that stand on the page itself."""
    known = {*vars(takeover_waits), *(name for where, name in NAMED if where == module)}
    waits = [name for name in vars(import_module(module)) if re.fullmatch(r"[A-Z_]+_(MS|S)", name)]
    assert [name for name in waits if name not in known] == []
