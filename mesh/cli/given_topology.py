"""The topology that a command line gives: of a legal file, or else the one in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from mesh.cli.problems import EXIT_WRONG_INPUT, print_lines
from mesh.cli.render import Output, render
from mesh.cli.target import HERE, Target
from mesh.errors import ConfigError, Problem, wrong_input

if TYPE_CHECKING:
    from mesh.config.located import Document
    from mesh.model.topology import Topology

NO_MESH = "is looked at alone, and no mesh: leave --file, --bootstrap and --context out"
"""What is wrong where both are named."""

Before = Callable[[], "Topology | None"]
"""Finds the topology that one in question is to follow, if there is one."""


def _nothing_before() -> None:
    return None


def legal_or_refused(
    file: Path, output: Output, since: Before = _nothing_before
) -> tuple[Topology, Document]:
    """Return a legal topology and its document, or print what is wrong and end with 2."""
    document = read_or_refused(file, output)
    return legal_document_or_refused(document, output, since), document


def read_or_refused(file: Path, output: Output) -> Document:
    """Return the document of a file, or print what is wrong and end with 2."""
    from mesh.config.located import read_document

    try:
        return read_document(file)
    except ConfigError as error:
        _refuse(error.problems, output)


def legal_document_or_refused(
    document: Document, output: Output, since: Before = _nothing_before
) -> Topology:
    """Return the legal topology of a document, or print what is wrong and end with 2."""
    from mesh.config.legal import legal_topology_of

    try:
        return legal_topology_of(document, since)
    except ConfigError as error:
        _refuse(error.problems, output)


def _refuse(problems: Sequence[Problem], output: Output) -> NoReturn:
    """Print why a file is refused, and end with the exit code for wrong input."""
    if output is Output.TABLE:
        print_lines(problems)
    else:
        listed = [problem.as_mapping() for problem in problems]
        render({"legal": False, "problems": listed}, lambda: "", output)
    raise typer.Exit(EXIT_WRONG_INPUT)


def topology_in_question(path: Path | None, output: Output, target: Target) -> Topology:
    """Return the topology of a file that a command was given, else the one in force.

    Raises:
        ConfigError: A mesh is named beside the file, and would not be looked at.
    """
    from mesh.cli.session import in_force_in

    if path is not None:
        if target != HERE:
            raise wrong_input(str(path), NO_MESH)
        return legal_or_refused(path, output)[0]
    return in_force_in(target).record().topology
