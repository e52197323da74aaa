"""`mesh topology`: a topology as text for people, as a drawing, or as data. Spec: DESIGN 3."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.given_topology import topology_in_question
from mesh.cli.options import OtherTopologyArgument
from mesh.cli.render import Output, as_json, console, render, standard_output
from mesh.cli.target import HERE, Target
from mesh.model.counted import counted

if TYPE_CHECKING:
    from mesh.model.topology import Topology, Zone


_WIDTH = 78
"""Lines are no longer, however wide the terminal is."""


class Drawing(StrEnum):
    """How a topology is shown."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


def topology_command(
    path: OtherTopologyArgument = None,
    target: Target = HERE,
    output: Annotated[
        Drawing,
        typer.Option("-o", "--output", help="text for people; mermaid and dot draw; json"),
    ] = Drawing.TEXT,
) -> None:
    """Show a topology: Kafka clusters, zones, links, gateways."""
    from mesh.cli.topology_drawings import as_dot, as_mermaid

    asked = Output.JSON if output is Drawing.JSON else Output.TABLE
    found = topology_in_question(path, asked, target)
    match output:
        case Drawing.TEXT:
            render({}, lambda: as_text(found, min(_WIDTH, console().width)), Output.TABLE)
            return
        case Drawing.MERMAID:
            text = as_mermaid(found)
        case Drawing.DOT:
            text = as_dot(found)
        case Drawing.JSON:
            text = as_json(as_mapping(found))
    with standard_output():
        sys.stdout.write(text + "\n")


def as_text(topology: Topology, width: int) -> str:
    """Return a topology for people: zones as groups, and who connects them."""
    zones_of = _zones_of(topology)
    kafka = counted(len(topology.kafka), "Kafka cluster")
    counts = f"{counted(len(topology.zones), 'zone')}, {counted(len(topology.links), 'link')}"
    lines = [f"{topology.name}: {counted(len(topology.nodes), 'node')} on {kafka}, {counts}", ""]
    longest = max(map(len, topology.kafka), default=0)
    for name in topology.kafka:
        here = [node for node, one in topology.nodes.items() if one.kafka == name]
        lines += _folded(f"Kafka cluster {name:{longest}}  ", here or ["no node"], width)
    for zone in topology.zones.values():
        lines += ["", _headline(zone), *_members(zone, width)]
    several = [f"{node} ({', '.join(zones)})" for node, zones in zones_of.items() if zones[1:]]
    gateways = [node for node in topology.nodes if _is_gateway(topology, node)]
    alone = [node for node, zones in zones_of.items() if not zones]
    if several or gateways or alone:
        lines.append("")
    for title, names in (
        ("in several zones  ", several),
        ("gateways          ", gateways),
        ("not linked        ", alone),
    ):
        if names:
            lines += _folded(title, names, width)
    return "\n".join(lines)


def as_mapping(topology: Topology) -> dict[str, Any]:
    """Return a topology as scripts read it, links spelt out."""
    zones_of = _zones_of(topology)
    return {
        "mesh": topology.name,
        "kafka": [
            {"kafka": name, "nodes": [n for n, one in topology.nodes.items() if one.kafka == name]}
            for name in topology.kafka
        ],
        "nodes": [
            {
                "node": node,
                "kafka": one.kafka,
                "realm": one.realm,
                "lanes": one.lanes,
                "zones": list(zones_of[node]),
                "gateway": _is_gateway(topology, node),
            }
            for node, one in topology.nodes.items()
        ],
        "zones": [
            {
                "zone": zone.name,
                "kind": str(zone.kind),
                "title": zone.title,
                "exclusive": zone.exclusive,
                "direct_only": zone.direct_only,
                "nodes": list(zone.nodes),
            }
            for zone in topology.zones.values()
        ],
        "links": [
            {
                "link": list(link.ends),
                "zone": link.zone,
                "kind": str(topology.kind_of(link)),
                "directions": [
                    f"{a}->{b}" for a, b in (link.ends, link.ends[::-1]) if topology.sends(a, b)
                ],
            }
            for link in topology.links
        ],
    }


def _headline(zone: Zone) -> str:
    title = f' "{zone.title}"' if zone.title else ""
    marks = ", exclusive" if zone.exclusive else ""
    marks += ", direct-only" if zone.direct_only else ""
    counts = f"{counted(len(zone.nodes), 'node')}, {counted(len(zone.links), 'link')}"
    return f"zone {zone.name}{title}  {zone.kind}{marks}: {counts}"


def _members(zone: Zone, width: int) -> list[str]:
    """Return who is linked in a zone: the nodes of a full one, the links of any other."""
    if zone.join is not None:
        return [f"  {zone.join.source} -> {zone.join.target}"]
    if len(zone.nodes) > 2 and [link.ends for link in zone.links] == list(
        combinations(zone.nodes, 2)
    ):
        return _folded("  each with each  ", list(zone.nodes), width)
    return _folded("  ", [" - ".join(link.ends) for link in zone.links] or ["no link"], width)


def _folded(title: str, names: list[str], width: int) -> list[str]:
    """Return names separated by commas, in lines that begin below each other."""
    lines = [title]
    for index, name in enumerate(names):
        word = name + ("," if index + 1 < len(names) else "")
        if len(lines[-1]) + len(word) > width and lines[-1].strip() != title.strip():
            lines.append(" " * len(title))
        lines[-1] += word + " "
    return [line.rstrip() for line in lines]


def _zones_of(topology: Topology) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {node: [] for node in topology.nodes}
    for zone in topology.zones.values():
        for node in zone.nodes:
            found[node].append(zone.name)
    return found


def _is_gateway(topology: Topology, node: str) -> bool:
    from mesh.core.forwarding import crosses_external

    return any(crosses_external(topology.kind_of(link)) for link in topology.links_of(node))
