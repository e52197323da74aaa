"""Mistakes on the command line of the benchmark are told before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_folders_that_are_there(tmp_path: Path) -> None:
    assert parsed(["--directory", str(tmp_path)])[0].directory == tmp_path
    assert parsed(["--out", str(tmp_path / "x")])[0].out == tmp_path / "x"
    assert parser_of("change", None).parse_args(["--directory", str(tmp_path)]).directory
