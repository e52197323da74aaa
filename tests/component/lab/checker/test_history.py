"""A history file says the same as the history it was made of; a bad one names its line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.errors import ConfigError
from mesh.lab.checker.history import LINE_MAX, check_writable, read_history, write_history
from mesh.lab.checker.judge import check
from tests.component.lab.checker.histories import Run, wanted


def test_a_file_gives_the_same_history(tmp_path: Path) -> None:
    run = Run(subscriptions=[wanted(), wanted("x", ending_ms=1, ended_ms=2)], drains=[7])
    run.publishes[0] = replace(run.publishes[0], key=None, offset=3, transaction=1)
    run.held[1] = replace(run.held[1], origin=None)
    history = run.history()
    write_history(tmp_path / "h.jsonl", history)
    read = read_history(tmp_path / "h.jsonl")
    assert replace(read, held=list(read.held)) == history
    assert check(read) == check(history)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "h.jsonl:1", "not a history of a storm"),
        ("{}\n", "h.jsonl:1", "no line of a history: it has no 'is'; name a file"),
        ('{"is": "song"}\n', "h.jsonl:1", "no record is called 'song'"),
        ("\n[1", "h.jsonl:1", "no line of a history"),
        ('{"is": "held", "origin": null}\n', "h.jsonl:1", "no line of a history"),
        (
            '\n{"is":"run","drained":true}\n'.lstrip(),
            "h.jsonl:1",
            "no line of a history: it has no 'origins'; name a file",
        ),
        ('{"is":"run","drained":1,"drains":[],"origins":[1]}', "h.jsonl:1", "no line of a history"),
        ("\0" * (LINE_MAX + 1), "h.jsonl:1", "no line of a history is so long"),
        ("[" * 100_000, "h.jsonl:1", "no line of a history"),
        ("\udcff\udcfe", "h.jsonl", "is not UTF-8 at byte 0"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, text: str, place: str, message: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError) as caught:
        read_history(path)
    [problem] = caught.value.problems
    assert str(problem.where).endswith(place)
    assert message in problem.message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node": None}, "node: Input should be a valid string"),
        ({"sequence": []}, "sequence: Input should be a valid integer"),
        ({"sequence": -1}, "sequence: -1 is not between 0 and"),
        ({"sequence": 10**30}, "is not between 0 and"),
        ({"outcome": "maybe"}, "outcome: Input should be 'ok', 'failed' or 'unknown'"),
        ({}, "two publishes are called"),
    ],
)
def test_a_line_that_says_what_cannot_be_is_named(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    path = tmp_path / "h.jsonl"
    write_history(path, Run().history())
    told = next(line for line in path.read_text().splitlines() if '"is":"publish"' in line)
    with path.open("a") as file:
        file.write(json.dumps({**json.loads(told), **changed}) + "\n")
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_history(path)


def test_what_could_not_be_written_afterwards_is_refused_before(tmp_path: Path) -> None:
    """A storm takes minutes, and its verdict would be lost with the file."""
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        check_writable(tmp_path / "none" / "h.jsonl")
    kept = tmp_path / "h.jsonl"
    kept.write_text("x")
    check_writable(kept)
    assert kept.read_text() == "x"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_history(tmp_path / "none.jsonl")
