"""`mesh validate`, `mesh walks` and `mesh schema`. Spec: lab.md 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import RenderableType

from mesh.cli.problems import EXIT_WRONG_INPUT, print_lines
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import ConfigError, Problem, wrong_input
from mesh.model.counted import counted

if TYPE_CHECKING:
    from mesh.config.located import Document
    from mesh.model.topology import Topology

FileArgument = Annotated[Path, typer.Argument(help="A topology file (kind: Mesh).")]
NO_MESH = "is looked at alone, and no mesh: leave --file, --bootstrap and --context out"
"""What is wrong where both are named."""

SourceOption = Annotated[str, typer.Option("--from", help="Where to publish.")]


def validate(file: FileArgument, output: OutputOption = Output.TABLE) -> None:
    """Judge a topology file: its form, and that no message can arrive twice."""
    topology, _ = legal_or_refused(file, output)
    summary = f"{topology.name} is legal: " + ", ".join(
        counted(count, noun)
        for count, noun in (
            (len(topology.nodes), "node"),
            (len(topology.zones), "zone"),
            (len(topology.links), "link"),
        )
    )
    render({"legal": True, "problems": []}, lambda: summary, output)


def walks(file: FileArgument, source: SourceOption, output: OutputOption = Output.TABLE) -> None:
    """List the way from one node to every other, if all want everything."""
    from mesh.core.walks import walks_from

    topology, _ = legal_or_refused(file, output)
    check_node(topology, source, "--from")
    found = walks_from(topology, source)
    reached = {node: [list(walk.nodes) for walk in found[node]] for node in sorted(found)}
    data = {"source": source, "reached": reached}
    render(data, lambda: _walks_table(reached), output)


def schema(output: OutputOption = Output.JSON) -> None:
    """Print the JSON Schema of topology files, for editors."""
    from mesh.config.topology_file import topology_schema

    data = topology_schema()
    render(data, lambda: "", Output.JSON if output is Output.TABLE else output)


def _walks_table(reached: Mapping[str, Sequence[Sequence[str]]]) -> RenderableType:
    rows = [
        (node, len(walk) - 1, " > ".join(walk)) for node, ways in reached.items() for walk in ways
    ]
    return grid(("NODE", "HOPS", "WALK"), rows)


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
    except ConfigError as exc:
        _refuse(exc.problems, output)


def legal_document_or_refused(
    document: Document, output: Output, since: Before = _nothing_before
) -> Topology:
    """Return the legal topology of a document, or print what is wrong and end with 2."""
    from mesh.config.legal import legal_topology_of

    try:
        return legal_topology_of(document, since)
    except ConfigError as exc:
        _refuse(exc.problems, output)


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
    from mesh.cli.session import running_mesh

    if path is not None:
        if target != HERE:
            raise wrong_input(str(path), NO_MESH)
        return legal_or_refused(path, output)[0]
    return running_mesh(target).in_force().topology
