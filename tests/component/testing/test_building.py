"""What keeps an image from being made is told in one line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mesh.errors import StartError
from mesh.testing.__main__ import app
from mesh.testing.building import FETCH_SPARK, build_whole
from mesh.testing.contents import bill_of
from mesh.testing.machines import MACHINES
from mesh.testing.transposing import _load

ENGINE = """#!/bin/sh
case "$1" in
  version) echo amd64 ;;
  image) echo '[{"Created": "now", "Config": {}}]' ;;
  *) echo "no space left on device" >&2; exit 1 ;;
esac
"""
"""Answers, and has no room for anything."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder in which programs are looked for; it is empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}")
    return folder


def docker(programs: Path, script: str) -> None:
    """Have a program that is called so, with the shell that it needs."""
    (programs / "docker").write_text(script)
    (programs / "docker").chmod(0o755)


def told(*arguments: str) -> tuple[int, str]:
    """Return the exit code of `python -m mesh.testing build`, and what it prints."""
    done = CliRunner().invoke(app, ["build", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


def test_without_docker(programs: Path) -> None:
    """Whatever is asked for: the command, or a part of it from a program."""
    line = "docker not found: install docker.io, or Docker"
    assert told("node") == (1, f"error: {line}\n")
    with pytest.raises(StartError, match=line):
        bill_of("trellis-node:dev")
    with pytest.raises(StartError, match=r"^docker not found: install it$"):
        build_whole("trellis-kafka:dev", "trellis-node:dev", progress=lambda _: None)


def test_without_an_engine(programs: Path) -> None:
    docker(programs, "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n")
    code, line = told("node")
    assert (code, line.count("\n")) == (1, 1)
    assert line.startswith("error: no Docker engine answers: Cannot connect to the Docker daemon;")


def test_an_engine_without_room(programs: Path, tmp_path: Path) -> None:
    """It ends amid a build, or while it is still being given an image."""
    docker(programs, ENGINE)
    with pytest.raises(StartError, match=r"^`docker build --quiet -t ...` failed with exit code 1"):
        build_whole("trellis-kafka:dev", "trellis-node:dev", progress=lambda _: None)
    layer = tmp_path / "layer.tar"
    layer.write_bytes(bytes(1_000_000))  # more than a pipe holds
    with pytest.raises(StartError, match=r"^docker load of other failed with exit code 1$"):
        _load(layer, "image", "other", MACHINES["arm64"])


def test_a_machine_without_room(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is laid beside a recipe cannot be written: here there is no folder for it."""
    docker(programs, ENGINE)
    monkeypatch.setattr(tempfile, "tempdir", str(programs / "gone"))
    code, line = told("kafka")
    assert (code, line.count("\n")) == (1, 1)
    assert line.startswith("error: [Errno 2] No such file or directory:")


@pytest.mark.parametrize("tag", ["", "a b", "of/a", "x:y", ".x", "x" * 129])
def test_what_no_engine_takes_for_a_tag_is_refused_first(programs: Path, tag: str) -> None:
    docker(programs, ENGINE)
    code, text = told("kafka", "--tag", tag)
    assert code == 2
    assert "is not a tag" in text


def test_spark_is_not_started_for_jars_that_are_here(tmp_path: Path) -> None:
    """There is no Java: who wanted to start it would fail."""
    jars = tmp_path / "ivy-spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "one.jar").touch()
    (jars.parent / f"jars-{version('pyspark')}.txt").write_text("one.jar\n", encoding="utf-8")
    command = [sys.executable, "-c", FETCH_SPARK, str(tmp_path)]
    nowhere = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert subprocess.run(command, env=nowhere, check=False).returncode == 0
    (jars / "one.jar").unlink()
    assert subprocess.run(command, env=nowhere, capture_output=True, check=False).returncode == 1


def test_a_bill_that_would_be_a_file_is_refused_first(programs: Path) -> None:
    """And not after the minutes that images take."""
    docker(programs, ENGINE)
    code, text = told("node", "--bill", str(programs / "docker"))
    assert code == 2
    assert "is a file" in text
