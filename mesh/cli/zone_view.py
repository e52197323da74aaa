"""`mesh zone list` and `show`: the zones in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.options import ZoneArgument
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.session import Heard, in_force_in, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node


def list_zones(
    node: Annotated[
        str | None, typer.Option("--node", "-n", help="Only the zones that this node belongs to.")
    ] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the zones in force."""
    from mesh.operate.documents.zones import zone_document

    found = in_force_in(target).record()
    topology = found.topology
    if node is not None:
        check_node(topology, node, "--node")
    zones = [
        zone_document(topology, zone)
        for zone in topology.zones.values()
        if node is None or node in zone.nodes
    ]
    data = {"mesh": topology.name, "version": found.number, "zones": zones}
    render(data, lambda: _list_table(zones), output)


def show(
    zone: ZoneArgument,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a zone in force: its members, and each link as both its ends see it."""
    from mesh.config.zone_edits import zone_of
    from mesh.operate.documents.zones import ends_document, zone_document

    with open_session(target, heard=Heard.ANYBODY) as seen:
        found = seen.in_force.record()
        one = zone_of(found.topology, zone)
        states = [ends_document(seen, link) for link in one.links]
        data = {**zone_document(found.topology, one), "version": found.number, "states": states}
    render(data, lambda: _show_table(data), output)


def _list_table(zones: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return one line per zone."""
    names = ("ZONE", "TITLE", "KIND", "EXCLUSIVE", "ACTIVE", "MEMBERS", "LINKS")
    return grid(names, [_row(zone) for zone in zones], "no zones")


def _row(zone: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        zone["zone"],
        zone["title"],
        f"{zone['kind']}, direct-only" if zone["direct_only"] else zone["kind"],
        "yes" if zone["exclusive"] else "",
        "yes" if zone["active"] else "no",
        _members(zone),
        len(zone["links"]),
    )


def _members(zone: Mapping[str, Any]) -> str:
    join = zone["join"]
    if join is not None:
        return f"{join['from']} to {join['to']}: {join['filter']}"
    clusters = zone["clusters"]
    return ", ".join(
        f"{node} (cluster {clusters[node]})" if node in clusters else node for node in zone["nodes"]
    )


def _show_table(zone: Mapping[str, Any]) -> RenderableType:
    """Return a zone with its links."""
    rows = [
        ("-".join(one["link"]), *(f"{node}: {state}" for node, state in one["states"].items()))
        for one in zone["states"]
    ]
    parts: list[RenderableType] = [_list_table([zone])]
    parts.append(grid(("LINK", "AS ONE END SEES IT", "AS THE OTHER DOES"), rows))
    return Group(*parts)
