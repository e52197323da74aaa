"""`mesh explain`: who gets a message, which way, and why nobody else. Spec: DESIGN 4.2, 4.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.faults import wrong_input
from mesh.cli.looking import look
from mesh.cli.publish import ClassOption, class_of
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.target import BootstrapOption, ContextOption, FileOption, check_node

if TYPE_CHECKING:
    from rich.tree import Tree

    from mesh.node.explanation import Explanation


def mount(app: typer.Typer) -> None:
    """Put the command of this module on the command line."""
    app.command()(explain)


def explain(
    subject: Annotated[str, typer.Argument(help="Mesh address, as in acme/orders/eu.")],
    source: Annotated[str, typer.Option("--from", help="Where it is published.")],
    class_: ClassOption = "guaranteed",
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell who would get a message now, over which links, and why no other node would."""
    from mesh.client.knowledge import known_nodes
    from mesh.model.subject import subject_fault
    from mesh.node.explanation import explain as explain_message

    if (fault := subject_fault(subject)) is not None:
        raise wrong_input("SUBJECT", fault)
    message_class = class_of(class_)
    with look(file, bootstrap, context) as seen:
        check_node(seen.topology, source, "--from")
        known = known_nodes(seen.view, seen.beats)
        told = explain_message(seen.topology, known, subject, source, message_class)
        unknown = [node for node in seen.topology.nodes if seen.view.is_unreachable(node)]
    data = as_mapping(told, unknown)
    render(View(data=data, table=lambda: _table(told, data)), output)


def as_mapping(told: Explanation, unknown: list[str]) -> dict[str, Any]:
    """Return an explanation as scripts read it; `reached` holds nodes passed through too."""
    return {
        "subject": told.subject,
        "source": told.source,
        "class": str(told.message_class),
        "reached": [
            {
                "node": one.node,
                "endpoints": list(one.endpoints),
                "path": list(one.path),
                "waits": one.waits,
            }
            for one in told.reached
        ],
        "links": [
            {"link": f"{one.source}->{one.target}", "zone": one.zone} for one in told.crossed
        ],
        "refused": [
            {"node": one.node, "neighbour": one.neighbour, "reason": one.reason}
            for one in told.refused
        ],
        "not_reached": [
            {
                "node": one.node,
                "reason": one.reason,
                "link": "->".join(one.link) if one.link[0] else None,
                "wants": one.wants,
            }
            for one in told.not_reached
        ],
        "unknown": unknown,
    }


def _table(told: Explanation, data: Mapping[str, Any]) -> RenderableType:
    refused = [(one.node, one.neighbour, one.reason) for one in told.refused]
    missed = [
        (one["node"], one["reason"], one["link"] or "", "yes" if one["wants"] else "no")
        for one in data["not_reached"]
    ]
    parts: list[RenderableType] = [_tree(told)]
    if refused:
        parts += ["", "links that it does not cross", grid(("AT", "TO", "REASON"), refused)]
    if missed:
        columns = ("NODE", "REASON", "WHERE THE WAY ENDS", "WANTS IT")
        parts += ["nodes that it does not reach", grid(columns, missed)]
    if data["unknown"]:
        parts.append(f"unknown, their Kafka does not answer: {', '.join(data['unknown'])}")
    return Group(*parts)


def _tree(told: Explanation) -> Tree:
    from rich.tree import Tree

    zones = {(one.source, one.target): one.zone for one in told.crossed}
    root = Tree(f"{told.subject} ({told.message_class})")
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for one in told.reached:
        label = one.node
        if len(one.path) > 1:
            label += f"  over {zones[one.path[-2], one.node]}"
        if one.endpoints:
            label += f"  => {', '.join(one.endpoints)}"
        if one.waits:
            label += "  (down: the message waits before it)"
        branches[one.path] = branches[one.path[:-1]].add(label)
    return root
