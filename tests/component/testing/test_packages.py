"""Images get the packages that are installed here, and of each a file whose hash is locked."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.testing import packages
from mesh.testing.machines import MACHINES
from mesh.testing.packages import lines, needed

ARM = MACHINES["arm64"]


def test_what_a_node_wants_and_nothing_else() -> None:
    """Dependencies of dependencies, of an extra only where it is wanted, and no tool of tests."""
    plain, more = (
        {line.partition("==")[0] for line in needed("trellis-mesh", extras, ARM)}
        for extras in ((), ("api",))
    )
    assert {"typer", "pydantic-core", "confluent-kafka"} <= plain
    assert {"fastapi", "uvicorn"} <= more - plain
    assert not {"pytest", "pyspark", "trellis-mesh"} & more


def test_each_has_the_locked_hashes() -> None:
    """Of wheels for every machine, so that pip refuses any other file."""
    for line in needed("trellis-mesh", ("api", "otel"), ARM):
        pinned, *hashes = line.split(" ")
        name, _, locked = pinned.partition("==")
        assert version(name) == locked
        assert hashes, line
        assert all(one.startswith("--hash=sha256:") for one in hashes)


def test_another_version_than_the_locked_one_has_no_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So pip refuses it, for all others have some; where there is no lock at all, none has."""
    lock = tmp_path / "requirements.lock"
    lock.write_text(
        f"click=={version('click')} ; sys_platform == 'linux' \\\n    --hash=sha256:1 \\\n"
        "    --hash=sha256:2\n    # via typer\ntyper==0.0.1 \\\n    --hash=sha256:3\n"
    )
    monkeypatch.setattr(packages, "LOCK", lock)
    pinned = [f"{name}=={version(name)}" for name in ("click", "typer")]
    assert lines(("click", "typer")) == [f"{pinned[0]} --hash=sha256:1 --hash=sha256:2", pinned[1]]
    lock.unlink()
    assert lines(("click", "typer")) == pinned


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(StartError, match="no-such-thing is not installed"):
        lines(("no-such-thing",))
