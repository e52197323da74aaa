"""`mesh endpoint list`: endpoints, what waits in them, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target, check_node


def list_endpoints(
    node: Annotated[str | None, typer.Option(help="Only those of this node.")] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List every endpoint: class, filters, and how much waits for the slowest of its readers.

    A reader is a consumer group with a position in the endpoint's topic; consumers that keep
    their positions elsewhere are not seen.
    """
    from mesh.operate.documents.endpoints import endpoints_document

    with open_session(target, heard=Heard.NOBODY) as seen:
        if node is not None:
            check_node(seen.topology, node, "--node")
        nodes = [node] if node is not None else list(seen.topology.nodes)
        data = endpoints_document(seen.topology, seen.view, seen.kafka, nodes)
    render(View(data=data, table=lambda: _table(data)), output)


def _table(data: Mapping[str, Any]) -> RenderableType:
    rows = [
        (
            one["node"],
            one["endpoint"],
            one["class"] if one["kind"] == "channel" else f"{one['class']} {one['kind']}",
            ", ".join(one["filters"]),
            _waiting(one),
            one["slowest"] or "",
        )
        for one in data["endpoints"]
    ]
    columns = ("NODE", "ENDPOINT", "CLASS", "FILTERS", "WAITING", "SLOWEST READER")
    parts: list[RenderableType] = [grid(columns, rows) if rows else "no endpoints"]
    if data["unknown"]:
        parts.append(f"unknown, their Kafka does not answer: {', '.join(data['unknown'])}")
    return Group(*parts)


def _waiting(one: Mapping[str, Any]) -> str:
    if one["readers"] == 0:
        return "no reader"
    if one["waiting"] is None:
        return "?"
    return f"{one['waiting']}{'' if one['is_counted'] else ' offsets'}"
