"""`mesh interest`: who wants what through which link, since when; now or at a moment gone by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli import clock
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.session import Heard, Session, open_session
from mesh.cli.target import HERE, Target, check_node, say
from mesh.model.queues import Attraction, is_of_queue, member_of

if TYPE_CHECKING:
    from mesh.operate.history import InterestAt


_CONTROLS = ("static", "local")
"""What the topology says; how long, only `mesh.config` could tell."""


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
        bool, typer.Option("--addresses", help="Also the addresses of nodes ($node/...).")
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who wants what, since when: a node's endpoints, and its neighbours over their links.

    With --at, what was in force at a moment of the last week. Subscriptions of a node's own
    clients that have ended since then are not shown; what it offered for them is.
    """
    from mesh.operate.documents.interest import interest_document, node_addresses
    from mesh.operate.history import moment

    at_ms = None if at is None else moment(at, clock.wall_ms())
    with open_session(target, heard=Heard.NOBODY) as seen:
        if node is not None:
            check_node(seen.topology, node, "NODE")
        nodes = [node] if node is not None else list(seen.topology.nodes)
        pasts = _pasts(seen, nodes, at_ms)
        known = node_addresses(seen.view) if addresses else None
        data = interest_document(seen.topology, pasts, nodes, at_ms, addresses=known)
    render(View(data=data, table=lambda: _table(data["interest"], data["counts"])), output)


def _pasts(seen: Session, nodes: Sequence[str], at_ms: int | None) -> Mapping[str, InterestAt]:
    """Return what these nodes and their neighbours wanted, as far as they can be read."""
    from mesh.errors import TransportError
    from mesh.operate.history import interest_at, interest_now

    wanted = dict.fromkeys(nodes)
    for name in nodes:
        wanted |= dict.fromkeys(seen.topology.neighbours(name))
    found: dict[str, InterestAt] = {}
    for name in wanted:
        if seen.view.is_unreachable(name):
            continue  # told already
        if at_ms is None:
            found[name] = interest_now(seen.view.nodes[name])
            continue
        cluster = seen.kafka[seen.topology.nodes[name].kafka]
        try:
            found[name] = interest_at(seen.topology, cluster, name, at_ms, clock.now_ms)
        except TransportError as exc:
            say(f"warning: what {name} wants is not known: {exc}")
    return found


def _readable(filter_: str, address_of: str | None) -> str:
    """Return an entry as people read it: who attracts what to a queue, and where copies go."""
    if address_of is not None:
        return f"address of {address_of}"
    found = Attraction.parse(filter_)
    if found is not None:
        return f"{found.filter}  for queue {found.queue} ({found.kind}) at {found.node}"
    if is_of_queue(filter_):
        queue, node = member_of(filter_)
        return f"copies for queue {queue} at {node}"
    return filter_


def _wanted_by(entry: Mapping[str, Any]) -> str:
    if entry["by"] == "static":
        return "the node itself"
    if entry["by"] == "local":
        return "nobody over its links"
    return f"endpoint {entry['who']}" if entry["by"] == "endpoint" else f"link to {entry['who']}"


def _table(
    entries: Sequence[Mapping[str, Any]], counts: Mapping[str, Mapping[str, int]]
) -> RenderableType:
    rows = [
        (
            entry["node"],
            _readable(entry["filter"], entry.get("address_of")),
            _wanted_by(entry),
            entry["scope"] or "",
            entry["wish"] or "not on record",
            entry["since"] or ("topology" if entry["by"] in _CONTROLS else "over a week"),
        )
        for entry in entries
    ]
    totals = [(name, count["own"], count["links"]) for name, count in counts.items()]
    columns = ("NODE", "FILTER", "WANTED BY", "SCOPE", "HOW", "SINCE")
    return Group(
        grid(columns, rows, "nobody wants anything"),
        grid(("NODE", "OWN", "OVER LINKS"), totals),
    )
