"""`mesh validate`, `mesh walks` and `mesh schema`. Spec: lab.md 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from mesh.cli.given_topology import legal_or_refused
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.config.nearest import check_node
from mesh.model.counted import counted

TopologyArgument = Annotated[Path, typer.Argument(help="A topology file (kind: Mesh).")]
SourceOption = Annotated[str, typer.Option("--from", help="Where to publish.")]


def validate(file: TopologyArgument, output: OutputOption = Output.TABLE) -> None:
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


def walks(
    file: TopologyArgument, source: SourceOption, output: OutputOption = Output.TABLE
) -> None:
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
