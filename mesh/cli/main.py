"""The command `mesh`. Which commands there are is in `commands.py`; each is built when named."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from mesh.cli.lazy import LazyGroup
from mesh.cli.problems import (
    EXIT_COULD_NOT_RUN,
    EXIT_INTERRUPTED,
    asked_output,
    misused,
    refused_by_system,
    report,
)
from mesh.cli.render import Output, standard_output
from mesh.errors import InvariantError, MeshError

app = typer.Typer(
    name="mesh",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        with standard_output():
            typer.echo(f"mesh {version('trellis-mesh')}")
        raise typer.Exit


@app.callback()
def mesh(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _tell_version(wanted=wanted),
            is_eager=True,
            help="Print the version and end.",
        ),
    ] = False,
) -> None:
    """An event mesh on your own Kafka clusters."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit.

    Exit codes: 0 ok, 1 could not run, 2 wrong input, and what a command says of its own.

    Spec: lab.md 2, lab.md 3.
    """
    _take_every_character(sys.stdout)
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = asked_output(given)
    try:
        # For people the library says itself how a command line goes on; scripts get it as data.
        code = _commands()(given, prog_name="mesh", standalone_mode=output is Output.TABLE)
    except KeyboardInterrupt:  # before the command itself has begun, which ends likewise
        sys.exit(EXIT_INTERRUPTED)
    except InvariantError:
        raise
    except TyperException as error:  # what is no command line
        sys.exit(report(misused(error), output))
    except typer.Abort:  # somebody was asked and gave no answer
        sys.exit(EXIT_COULD_NOT_RUN)
    except MeshError as error:
        sys.exit(report(error, output))
    except OSError as error:  # a folder that cannot be written, a disk that is full
        if error.filename is None:
            sys.stdout = None  # or what it holds back comes once more when the program ends
        sys.exit(report(refused_by_system(error), output))
    sys.exit(code if isinstance(code, int) else 0)


def _take_every_character(output: object) -> None:
    """Have standard output refuse no character, whatever encoding somebody's environment names.

    Files and pipes get UTF-8, for that is what is read, by these commands too; a terminal gets an
    escape in place of what it cannot show.
    """
    if isinstance(output, io.TextIOWrapper):
        encoding = output.encoding if output.isatty() else "utf-8"
        output.reconfigure(encoding=encoding, errors="backslashreplace")


@functools.cache
def _commands() -> Callable[..., object]:
    return typer.main.get_command(app)
