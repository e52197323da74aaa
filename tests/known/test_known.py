"""Each known fault still shows, by what its file does and by nothing else. Spec: DESIGN 6."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.known import former_neighbours, moved_copies
from tests.known.__main__ import KNOWN, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_still_shows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If it does not, somebody has cured it: tell so, and make its file a test."""
    assert main([name]) == 0
    assert "FAILS: " in capsys.readouterr().out


def test_without_what_it_takes_the_same_comes_out_well() -> None:
    """Else the files would show something else."""
    assert moved_copies.run(vanish=False) == ""
    assert former_neighbours.run(is_read_no_more=False) == ""


def test_each_is_named_among_what_is_not_promised() -> None:
    """Whoever reads the promises finds the command that shows what they leave out."""
    told = (ROOT / "docs" / "guarantees.md").read_text().split("## What is not promised")[1]
    assert [name for name in KNOWN if f"`{name}`" not in told] == []


def test_the_command_refuses_a_name_that_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
