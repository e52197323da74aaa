"""`mesh interest`: who wants what through which link, since when; now or at a moment gone by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.render import Output, OutputOption, grid, of_today, render, say, with_unknown
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.model.queues import Attraction, is_of_queue, member_of
from mesh.transport import clock

_CONTROLS = ("static", "local")
"""What the topology says; how long, only `mesh.config` could say."""


def interest(
    node: Annotated[str | None, typer.Argument(help="Only what this node knows.")] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="As it was then: 2026-05-04T10:00:00 (local time, or with Z or an offset), "
            "or 15m for a quarter of an hour ago.",
        ),
    ] = None,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Show the addresses of nodes ($node/...) too.")
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who wants what, since when: a node's endpoints, and its neighbours over their links.

    With --at, what was in force at a moment of the last week. Subscriptions of a node's own
    clients that have ended since then are not shown; what it offered for them is.
    """
    from mesh.operate.documents.interest import interest_document
    from mesh.operate.interest.history import interest_around

    at_ms = None if at is None else _moment(at)
    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = seen.nodes_named(node, "NODE")
        pasts = interest_around(seen, nodes, at_ms, lambda text: say(f"warning: {text}"))
        known = seen.view.node_addresses() if addresses else None
        data = interest_document(seen.topology, pasts, nodes, at_ms, addresses=known)
    render(data, lambda: _table(data), output)


def _moment(at: str) -> int:
    from mesh.operate.moments import moment

    return moment(at, clock.wall_ms())


def _readable(filter_: str, address_of: str | None) -> str:
    """Return an entry as people read it: who attracts what to a queue, and where copies go."""
    if address_of is not None:
        return f"address of {address_of}"
    found = Attraction.parse(filter_)
    if found is not None:
        return f"{found.filter} for queue {found.queue} ({found.kind}) at {found.node}"
    if is_of_queue(filter_):
        queue, node = member_of(filter_)
        return f"copies for queue {queue} at {node}"
    return filter_


def _wanted_by(entry: Mapping[str, Any]) -> str:
    if entry["by"] == "static":
        return "the node itself"
    if entry["by"] == "local":
        return "none of its neighbours"
    return f"endpoint {entry['who']}" if entry["by"] == "endpoint" else f"link to {entry['who']}"


def _since(entry: Mapping[str, Any]) -> str:
    if entry["since"]:
        return of_today(entry["since"])
    return "topology" if entry["by"] in _CONTROLS else "over a week"


def _table(data: Mapping[str, Any]) -> RenderableType:
    rows = [
        (
            entry["node"],
            _readable(entry["filter"], entry.get("address_of")),
            _wanted_by(entry),
            entry["scope"] or "",
            entry["interest"] or "not on record",
            _since(entry),
        )
        for entry in data["interest"]
    ]
    totals = [(name, count["own"], count["links"]) for name, count in data["counts"].items()]
    nothing = "nobody that can be reached wants anything" if data["unknown"] else ""
    columns = ("NODE", "FILTER", "WANTED BY", "SCOPE", "HOW", "SINCE")
    shown = Group(
        grid(columns, rows, nothing or "nobody wants anything"),
        grid(("NODE", "OWN", "OVER LINKS"), totals),
    )
    return with_unknown(shown, data["unknown"])
