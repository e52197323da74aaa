"""`mesh route`: the one way from a node to another, or why there is none. Spec: DESIGN 4.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.given_topology import topology_in_question
from mesh.cli.options import OtherTopologyArgument
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import wrong_input


def route(
    source: Annotated[str, typer.Argument(metavar="A", help="Node where it is published.")],
    to: Annotated[str, typer.Argument(metavar="B", help="Node that it should reach.")],
    path: OtherTopologyArgument = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the way from one node to another, link by link, if everybody wants everything.

    Exit code 10: there is none; the node nearest to B says why.
    """
    from mesh.operate.documents.explanations import route_document

    topology = topology_in_question(path, output, target)
    check_node(topology, source, "A")
    check_node(topology, to, "B")
    if source == to:
        raise wrong_input("B", f"{to} is A itself: what is published there stays there")
    data = route_document(topology, source, to)
    is_reached = data["reached"]
    render(data, lambda: _way_table(data) if is_reached else data["text"], output)
    raise typer.Exit(0 if is_reached else EXIT_NOT_WELL)


def _way_table(data: Mapping[str, Any]) -> RenderableType:
    rows = [
        (f"{one['from']}->{one['to']}", one["zone"], one["kind"], one["hops"], one["kafka"])
        for one in data["links"]
    ]
    columns = ("LINK", "ZONE", "KIND", "HOPS IN ZONE", "READ FROM KAFKA")
    return Group(" > ".join(data["path"]), grid(columns, rows))
