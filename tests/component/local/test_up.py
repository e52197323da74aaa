"""Which context a mesh of this machine becomes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mesh.config.context import VARIABLE, Context, context_named, current_context, save_context
from mesh.local.fleet import Fleet
from mesh.local.up import select_mesh


def test_a_context_that_a_person_added_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it says what the mesh is called instead, and what wins over it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    file = tmp_path / "mesh.yaml"
    added = Context("prod", file, {"k": "far:9092"})
    save_context(added)
    here = SimpleNamespace(
        topology=SimpleNamespace(name="prod"), file=file, addresses={"k": "localhost:1"}
    )
    lines: list[str] = []
    select_mesh(cast("Fleet", here), lines.append)
    assert (context_named("prod"), current_context()) == (
        added,
        Context("prod-2", file, {"k": "localhost:1"}, is_local=True),
    )
    assert lines == [
        "context prod stays, because it was added by you, or its mesh still runs; this mesh is prod-2",
        "context prod-2 is selected: other commands speak to this mesh now",
    ]
    monkeypatch.setenv(VARIABLE, "prod")
    select_mesh(cast("Fleet", here), lines.append)
    assert lines[-1] == f"context prod-2 is selected, but {VARIABLE} says prod and wins"
