"""The table of commands: help is made from it alone, and everything in it can be run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from mesh.cli.commands import COMMANDS, Command, Entry
from mesh.cli.main import app

WIDTH = 80


def rows() -> Iterator[tuple[str, str]]:
    """Yield every command line there is, and what the list says about it."""
    entries: list[tuple[str, Entry]] = [
        (name, one) for part in COMMANDS.values() for name, one in part.items()
    ]
    for name, entry in entries:
        yield name, entry.summary
        if not isinstance(entry, Command):
            yield from ((f"{name} {inner}", one.summary) for inner, one in entry.commands.items())


@pytest.mark.parametrize("line", [line for line, _ in rows()])
def test_every_command_of_the_table_is_there_and_says_more_than_the_table(line: str) -> None:
    """A place that names no function, or one without a docstring, is found here."""
    found: Any = typer.main.get_command(app)
    for word in line.split():
        found = found.commands[word]
    assert found.name == line.rsplit(maxsplit=1)[-1]
    assert found.help


def test_summaries_fit_one_line() -> None:
    """On a terminal of 80 columns nothing is cut or folded."""
    width = max(len(name) for part in COMMANDS.values() for name in part)
    assert [line for line, summary in rows() if len(summary) + width + 4 > WIDTH] == []


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules of commands that a command line has loaded when it ends."""
    program = (
        "import sys\nfrom mesh.cli.main import main\n"
        f"try:\n    main({list(arguments)})\nexcept SystemExit:\n    pass\n"
        "print(*[name for name in sys.modules if name.startswith('mesh.cli.')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    return {name.removeprefix("mesh.cli.") for name in done.stderr.splitlines()[-1].split()}


def test_help_loads_no_command() -> None:
    """The list of all commands costs the table and nothing else."""
    assert loaded_by("--help") == {"main", "lazy", "commands", "problems", "render"}


def test_imports_are_hardly_searched_for_garbage() -> None:
    """They make many objects and leave none: to look for that took a tenth of a worker's start."""
    program = (
        "import atexit, gc, sys\nfrom mesh.__main__ import main\n"
        "done = lambda: gc.get_stats()[0]['collections']\nbefore = done()\n"
        "atexit.register(lambda: print(done() - before, file=sys.stderr))\n"
        "sys.argv[1:] = ['--help']\nmain()"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert int(told.stderr) <= 2


def test_a_command_loads_itself_alone() -> None:
    """What a command does not name is not there, however many commands there are."""
    assert loaded_by("schema") == loaded_by("--help") | {"validate", "given_topology", "target"}


@pytest.mark.parametrize("line", ["status", "queue consume", "zone create", "plan"])
def test_every_command_that_speaks_to_a_mesh_takes_the_same_three_options(line: str) -> None:
    """Made of one parameter, behind the command's name."""
    found: Any = typer.main.get_command(app)
    for word in line.split():
        found = found.commands[word]
    options = [option for one in found.params for option in one.opts]
    assert {"-f", "--file", "--bootstrap", "-c", "--context"} <= set(options)
    assert "--target" not in options
