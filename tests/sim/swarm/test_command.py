"""Long runs: they go on where they ended, keep what they found, and refuse nonsense in a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.sim.swarm.__main__ import main
from tests.sim.swarm.seeds import Family
from tests.sim.swarm.tally import read_tallies

ROOT = Path(__file__).parents[3]


def test_a_run_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice 10 seeds are 20, each once; rates and rare states of all are told."""
    kept = str(tmp_path / "kept.json")
    assert main(["--families", "plain,joins", "--seeds", "0:10", "--resume", kept]) == 0
    assert main(["--families", "plain", "--seeds", "0:15", "--resume", kept]) == 0
    told = capsys.readouterr().out
    tallies = read_tallies(Path(kept))
    assert {family: (one.next, one.schedules) for family, one in tallies.items()} == {
        Family.PLAIN: (15, 15),
        Family.JOINS: (10, 10),
    }
    assert "15 schedules" in told
    assert "owed/CPU-s" in told
    assert "frame of several messages" in told


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    """The file says how far all schedules were run."""
    kept = tmp_path / "kept.json"
    command = [sys.executable, "-m", "tests.sim.swarm", "--families", "plain", "--seeds", "0:99999"]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, "--resume", str(kept)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        wait_until("it has kept something", lambda: kept.exists() or run.poll() is not None)
        assert run.poll() is None
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: all of them hear it
        told, errors = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130, errors
    assert errors == ""
    assert "interrupted" in told
    tally = read_tallies(kept)[Family.PLAIN]
    assert tally.next == tally.schedules


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--families", "plain,odd"], "no family 'plain,odd': there are plain, joins, losses"),
        (["--families", ""], "no family ''"),
        (["--seeds", "5:5"], "no seeds in '5:5'"),
        (["--seeds", "9:5"], "no seeds in '9:5'"),
        (["--seeds", "all"], "'all' is not of the form first:behind"),
        (["--seed", "17"], "no family '17'"),
        (["--seed", "plain/x"], "a schedule is named as plain/17, not 'plain/x'"),
        (["--seed", "drills/17"], "no drill 0"),
        (["--minutes", "0"], "'0' is no time"),
        (["--minutes", "nan"], "'nan' is no time"),
        (["--jobs", "0"], "'0' is no number of processes"),
    ],
)
def test_nonsense_is_refused_in_a_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"version": "of old", "families": {}}', "its seeds drew other schedules"),
        ("not json", "not a file of this command"),
        ("[]", "not a file of this command"),
        ('{"families": {}}', "not a file of this command"),
    ],
)
def test_a_file_that_cannot_be_gone_on_with_stays_as_it_is(
    content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(content)
    assert main(["--seeds", "0:10", "--resume", str(kept)]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1
    assert kept.read_text() == content


def test_where_nothing_can_be_kept_nothing_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--resume", str(tmp_path / "none" / "kept.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_file_without_a_family_it_knows_is_not_ours(tmp_path: Path) -> None:
    """Whoever edits it learns of it before anything runs."""
    kept = tmp_path / "kept.json"
    assert main(["--families", "plain", "--seeds", "0:1", "--resume", str(kept)]) == 0
    told = json.loads(kept.read_text())
    told["families"]["odd"] = told["families"].pop("plain")
    kept.write_text(json.dumps(told))
    assert main(["--seeds", "0:10", "--resume", str(kept)]) == 2
