"""Zones as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from mesh.cli.render import grid


def list_table(zones: Sequence[Mapping[str, Any]]) -> RenderableType:
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


def show_table(zone: Mapping[str, Any]) -> RenderableType:
    """Return a zone with its links."""
    rows = [
        ("-".join(one["link"]), *(f"{node}: {state}" for node, state in one["states"].items()))
        for one in zone["states"]
    ]
    parts: list[RenderableType] = [list_table([zone])]
    parts.append(grid(("LINK", "AS ONE END SEES IT", "AS THE OTHER DOES"), rows))
    return Group(*parts)
