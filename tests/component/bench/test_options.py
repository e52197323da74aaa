"""Mistakes on the command line of the benchmark are told before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mesh.errors import StartError
from tests.bench import peers
from tests.bench.__main__ import main, parsed
from tests.bench.command import parser_of


@pytest.mark.parametrize("option", ["--directory", "--out"])
def test_a_folder_that_is_not_there(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear line and exit code 2, and no figures lost after hours."""
    with pytest.raises(SystemExit) as ended:
        main([option, str(tmp_path / "missing" / "x")])
    assert ended.value.code == 2
    assert "missing/x" in capsys.readouterr().err.splitlines()[-1]


def test_a_command_calls_itself_by_its_name() -> None:
    """What its usage says can be typed."""
    named = {
        file.stem: name
        for file in Path(peers.__file__).parent.glob("*.py")
        for name in re.findall(r'= parser_of\("(\w+)"', file.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert named == {stem: stem for stem in named}


def test_folders_that_are_there(tmp_path: Path) -> None:
    assert parsed(["--directory", str(tmp_path)])[0].directory == tmp_path
    assert parsed(["--out", str(tmp_path / "x")])[0].out == tmp_path / "x"
    assert parser_of("change", None).parse_args(["--directory", str(tmp_path)]).directory


@pytest.mark.parametrize(
    "options",
    [
        ["--rounds", "0"],
        ["--messages", "3"],  # fewer than partitions
        ["--payload", "7"],  # no room for the number
        ["--subjects", "9"],  # no tenth of them
        ["--peers", "pigeon"],
        ["--rounds", "many"],
        ["--audited", "999"],  # fewer than two frames
    ],
)
def test_sizes_that_measure_nothing(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err.splitlines()[-1]


def test_without_java_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["--smoke", "--out", str(tmp_path / "x"), "--directory", str(tmp_path)]) == 2
    [line] = [one for one in capsys.readouterr().err.splitlines() if one.startswith("bench:")]
    assert "Java" in line


@pytest.mark.parametrize("cause", ["no Go", "a build that fails"])
def test_a_peer_that_cannot_be_built_is_one_line(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cause == "a build that fails":
        go = tmp_path / "go"
        go.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if cause != "no Go" else str(tmp_path))
    monkeypatch.setattr(peers, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(StartError, match=r"Go is not installed|go build failed: broken"):
        peers.built(lambda _: None)
