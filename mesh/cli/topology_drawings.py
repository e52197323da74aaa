"""A topology as drawings: Mermaid for Markdown pages, DOT for Graphviz.

Nodes are grouped by Kafka cluster, because one may be in many zones; links carry their zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.model.topology import Topology, ZoneKind


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
        line = _mermaid_line(topology.zones[zone].kind)[is_one_way]
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
        style = _dot_style(topology.zones[zone].kind)
        arrow = ", dir=forward" if is_one_way else ""
        label = _quoted(zone)
        lines.append(f"  {ids[first]} -- {ids[second]} [label={label}, style={style}{arrow}];")
    lines.append("}")
    return "\n".join(lines)


def _ids(topology: Topology) -> Mapping[str, str]:
    """Return plain words for nodes: a name may be a keyword of the drawing's language."""
    return {node: f"n{number}" for number, node in enumerate(topology.nodes)}


def _lines(topology: Topology) -> Iterator[tuple[str, str, str, bool]]:
    """Yield (from, to, zone, whether it leads one way only) for each link; joins do."""
    for zone in topology.zones.values():
        if zone.join is not None:
            yield zone.join.source, zone.join.target, zone.name, True
        else:
            yield from ((*link.ends, zone.name, False) for link in zone.links)


def _entities(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _mermaid_line(kind: ZoneKind) -> tuple[str, str]:
    """Return the lines of links that lead both ways, and one way."""
    match kind:
        case ZoneKind.CLUSTER | ZoneKind.ONE_HOP:
            return "---", "-->"
        case ZoneKind.MULTI_HOP:
            return "===", "==>"
        case ZoneKind.EXTERNAL | ZoneKind.JOIN:
            return "-.-", "-.->"


def _dot_style(kind: ZoneKind) -> str:
    match kind:
        case ZoneKind.CLUSTER | ZoneKind.ONE_HOP:
            return "solid"
        case ZoneKind.MULTI_HOP:
            return "bold"
        case ZoneKind.EXTERNAL:
            return "dashed"
        case ZoneKind.JOIN:
            return "dotted"
