"""How problems and errors reach the user: one line each, or JSON for scripts. Spec: lab.md 3."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from typing import Literal

from typer.exceptions import TyperException

from mesh.cli.render import EXIT_NOT_WELL, Output, printable, render, standard_output
from mesh.errors import (
    ConfigError,
    MeshError,
    NotBegunError,
    NotInTimeError,
    OutputError,
    Problem,
    StartError,
    wrong_input,
)

EXIT_COULD_NOT_RUN = 1
EXIT_WRONG_INPUT = 2
EXIT_UNKNOWN = 3
"""Of a Nagios plugin that could not look: 1 and 2 would say how the mesh is."""
EXIT_INTERRUPTED = 130
NAGIOS: Literal["nagios"] = "nagios"
"""The form that Nagios reads, of the doctor alone: the first line is what it shows."""

_EXITS: Mapping[type[MeshError], int] = {
    NotBegunError: EXIT_WRONG_INPUT,
    NotInTimeError: EXIT_NOT_WELL,
}


def print_lines(problems: Sequence[Problem]) -> None:
    """Print problems for people, on standard error."""
    if sys.stderr is None:  # closed: there is nobody to tell
        return
    with suppress(OSError):  # nobody reads it any more, or there is no room for it
        for problem in problems:
            sys.stderr.write(printable(problem.line()) + "\n")


def refused_by_system(error: OSError) -> MeshError:
    """Return the error that says what the operating system did not let a command do."""
    what = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        hint = "; make room where it writes" if error.errno in (ENOSPC, EDQUOT) else ""
        return OutputError(f"the system refused this command: {what}{hint}")
    if isinstance(error, FileExistsError):  # a folder is made unless it is there
        return StartError(f"{error.filename}: is there, and is no folder; name another place")
    return StartError(f"{error.filename}: {what}; check the path and its rights")


def misused(error: TyperException) -> ConfigError:
    """Return the error that says, for scripts, what is wrong with a command line."""
    context = getattr(error, "ctx", None)
    command = "mesh" if context is None else context.command_path
    what = " ".join(error.format_message().split()).rstrip(".")
    return wrong_input(command, f"{what}; `{command} -h` tells what there is", code="USAGE")


def report(error: MeshError, output: Output | Literal["nagios"]) -> int:
    """Print an error in the form the user asked for and return the exit code."""
    if isinstance(error, ConfigError):
        problems: Sequence[Problem] = error.problems
        code = EXIT_WRONG_INPUT
    else:
        problems = [Problem(code=_code(error), message=" ".join(str(error).split()))]
        code = _EXITS.get(type(error), EXIT_COULD_NOT_RUN)
    if output == NAGIOS:
        _tell_nagios(problems)
        return EXIT_UNKNOWN
    if output is Output.TABLE or isinstance(error, OutputError):
        print_lines(problems)
        return code
    listed = [problem.as_mapping() for problem in problems]
    try:
        render({"error": listed}, lambda: "", output)
    except OutputError:
        print_lines(problems)
    except BrokenPipeError:
        sys.stdout = None  # nobody reads it, and nobody is to hear that when the program ends
    return code


def _tell_nagios(problems: Sequence[Problem]) -> None:
    # What is behind a bar counts as performance data.
    told = "; ".join(problem.line() for problem in problems).replace("|", "/")
    with suppress(OutputError, BrokenPipeError), standard_output():
        sys.stdout.write(printable(f"MESH UNKNOWN - {told}") + "\n")


def asked_output(arguments: Sequence[str]) -> Output | Literal["nagios"]:
    """Return the output that a command line asks for.

    Looked up here and not in the command, because errors come from anywhere below it.
    """
    chosen: Output | Literal["nagios"] = Output.TABLE
    for index, argument in enumerate(arguments):
        if argument in {"-o", "--output"} and index + 1 < len(arguments):
            value = arguments[index + 1]
        elif argument.startswith("--output="):
            value = argument.removeprefix("--output=")
        elif argument.startswith("-o"):
            value = argument.removeprefix("-o").removeprefix("=")
        else:
            continue
        if value == NAGIOS and arguments[0] == "doctor":
            chosen = NAGIOS
        elif value in {str(output) for output in Output}:
            chosen = Output(value)
    return chosen


def _code(error: MeshError) -> str:
    """Return the type of an error as a word for scripts: StartError is START."""
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() or "MESH"
