"""`mesh lab storm` and `mesh lab check` as a user starts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kafka.fleets import EXAMPLES
from tests.patience import PATIENCE_S


def mesh_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mesh", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_a_storm_and_its_history(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    options = (
        "--backend",
        "sim",
        "--minutes",
        "0.05",
        "--seed",
        "4",
        "--rate",
        "90",
        "--history",
        str(history),
    )
    ended = mesh_lab("storm", str(EXAMPLES / "storm.yaml"), *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("storm on sim: ok\n")
    assert "anomalies: none" in ended.stdout
    assert "longest silence at an endpoint: " in ended.stdout
    again = mesh_lab("check", str(history))
    assert (again.returncode, again.stderr) == (0, "")

    # One record less than there was.
    lines = history.read_text().splitlines()
    index, held = next(
        (n, one) for n, one in enumerate(lines) if '"held"' in one and '"payload":"g-' in one
    )
    history.write_text("\n".join([*lines[:index], *lines[index + 1 :]]))
    spoilt = mesh_lab("check", str(history))
    assert spoilt.returncode == 10
    payload = held.partition('"payload":"')[2].partition('"')[0]
    assert "1 message acknowledged, drained and not there" in spoilt.stdout
    assert payload in spoilt.stdout


def test_a_file_without_a_storm_is_one_line() -> None:
    ended = mesh_lab("storm", str(EXAMPLES / "fig36.yaml"), "--backend", "sim")
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "there is no storm in it" in line


def test_a_file_that_is_no_history_is_one_line() -> None:
    ended = mesh_lab("check", str(EXAMPLES / "fig36.yaml"))
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "fig36.yaml:1" in line
