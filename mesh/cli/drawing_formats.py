"""A topology as drawings: Mermaid for Markdown pages, DOT for Graphviz.

Nodes are grouped by Kafka cluster, because one may be in many zones; links carry their zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.core.ways import directions
from mesh.model.topology import Topology, ZoneKind

_MERMAID: Mapping[ZoneKind, tuple[str, str]] = {
    ZoneKind.CLUSTER: ("---", "-->"),
    ZoneKind.ONE_HOP: ("---", "-->"),
    ZoneKind.MULTI_HOP: ("===", "==>"),
    ZoneKind.EXTERNAL: ("-.-", "-.->"),
    ZoneKind.JOIN: ("-.-", "-.->"),
}
"""Lines that lead both ways, and one way."""

_DOT: Mapping[ZoneKind, str] = {
    ZoneKind.CLUSTER: "solid",
    ZoneKind.ONE_HOP: "solid",
    ZoneKind.MULTI_HOP: "bold",
    ZoneKind.EXTERNAL: "dashed",
    ZoneKind.JOIN: "dotted",
}


def as_mermaid(topology: Topology) -> str:
    """Return a Mermaid flowchart."""
    ids = _ids(topology)
    lines = ["flowchart LR"]
    for number, name in enumerate(topology.kafka):
        lines.append(f'  subgraph k{number} ["{_entities(name)}"]')
        for node, one in topology.nodes.items():
            if one.kafka == name:
                lines.append(f'    {ids[node]}(("{_entities(node)}"))')
        lines.append("  end")
    for first, second, zone, is_one_way in _lines(topology):
        line = _MERMAID[topology.zones[zone].kind][is_one_way]
        lines.append(f'  {ids[first]} {line}|"{_entities(zone)}"| {ids[second]}')
    return "\n".join(lines)


def as_dot(topology: Topology) -> str:
    """Return a graph in the language of Graphviz."""
    ids = _ids(topology)
    lines = [f"graph {_quoted(topology.name)} {{", "  node [shape=circle];"]
    for number, name in enumerate(topology.kafka):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quoted(name)};")
        for node, one in topology.nodes.items():
            if one.kafka == name:
                lines.append(f"    {ids[node]} [label={_quoted(node)}];")
        lines.append("  }")
    for first, second, zone, is_one_way in _lines(topology):
        style = _DOT[topology.zones[zone].kind]
        arrow = ", dir=forward" if is_one_way else ""
        label = _quoted(zone)
        lines.append(f"  {ids[first]} -- {ids[second]} [label={label}, style={style}{arrow}];")
    lines.append("}")
    return "\n".join(lines)


def _ids(topology: Topology) -> Mapping[str, str]:
    """Return plain words for nodes: a name may be a keyword of the drawing's language."""
    return {node: f"n{number}" for number, node in enumerate(topology.nodes)}


def _lines(topology: Topology) -> Iterator[tuple[str, str, str, bool]]:
    """Yield (from, to, zone, whether it leads one way only) for each link."""
    for link, leads in directions(topology).items():
        first, second = leads[0] if len(leads) == 1 else link.ends
        yield first, second, link.zone, len(leads) == 1


def _entities(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
