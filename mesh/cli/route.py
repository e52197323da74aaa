"""`mesh route`: the one way from a node to another, or why there is none. Spec: DESIGN 4.4."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.faults import wrong_input
from mesh.cli.in_force import topology_in_question
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.target import BootstrapOption, ContextOption, FileOption, check_node
from mesh.core.ways import NOT_LINKED, ONE_WAY
from mesh.model.reasons import Reason

if TYPE_CHECKING:
    from mesh.core.walks import Walk
    from mesh.core.ways import DeadEnd
    from mesh.model.topology import Topology

EXIT_NO_WAY = 10

_WHY: Mapping[str, str] = {
    Reason.ARRIVAL_ZONE: "the message came over zone {zone}, and what came over a {kind} zone "
    "does not go on in it",
    Reason.NO_TRANSIT: "the message has crossed an external link, and it crosses only one",
    Reason.JOIN_HOPS: "the message has crossed as many joins in a row as it may",
    ONE_WAY: "link {link} leads the other way only",
    NOT_LINKED: "no row of links leads there",
}


def route(
    source: Annotated[str, typer.Argument(metavar="A", help="Node where it is published.")],
    target: Annotated[str, typer.Argument(metavar="B", help="Node that it is for.")],
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A topology file; else what is in force.")
    ] = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell the way from one node to another, link by link, if everybody wants everything.

    Exit code 10: there is none; the node nearest to B says why.
    """
    from mesh.core.walks import Walk
    from mesh.core.ways import way_between

    topology = topology_in_question(path, output, file=file, bootstrap=bootstrap, context=context)
    check_node(topology, source, "A")
    check_node(topology, target, "B")
    if source == target:
        raise wrong_input("B", f"{target} is A itself: what is published there stays there")
    found = way_between(topology, source, target)
    if isinstance(found, Walk):
        data = _way(topology, source, target, found)
        render(View(data=data, table=lambda: _way_table(data)), output)
        return
    end = _end(topology, source, target, found)
    render(View(data=end, table=lambda: end["text"]), output)
    raise typer.Exit(EXIT_NO_WAY)


def _way(topology: Topology, source: str, target: str, walk: Walk) -> dict[str, Any]:
    from mesh.core.ways import crossings

    return {
        "source": source,
        "target": target,
        "reached": True,
        "path": list(walk.nodes),
        "links": [
            {
                "from": one.source,
                "to": one.target,
                "zone": one.zone,
                "kind": str(one.kind),
                "hops": one.hops,
                "kafka": topology.nodes[one.source].kafka,
            }
            for one in crossings(topology, walk)
        ],
    }


def _way_table(data: Mapping[str, Any]) -> RenderableType:
    rows = [
        (f"{one['from']}->{one['to']}", one["zone"], one["kind"], one["hops"], one["kafka"])
        for one in data["links"]
    ]
    columns = ("LINK", "ZONE", "KIND", "HOPS IN ZONE", "READ FROM KAFKA")
    return Group(" > ".join(data["path"]), grid(columns, rows))


def _end(topology: Topology, source: str, target: str, end: DeadEnd) -> dict[str, Any]:
    link = end.link
    stop = end.walk.nodes[-1]
    why = end.reason
    if end.reason in _WHY:
        why = _WHY[end.reason].format(
            link="" if link is None else f"{stop}-{link.other(stop)}",
            zone="" if link is None else link.zone,
            kind="" if link is None else topology.kind_of(link),
        )
    where = f"{source} does not reach {target}: messages stop at {stop}"
    if link is not None:
        where += f", before link {stop}->{link.other(stop)} (zone {link.zone})"
    return {
        "source": source,
        "target": target,
        "reached": False,
        "path": list(end.walk.nodes),
        "stops_at": stop,
        "link": None if link is None else {"to": link.other(stop), "zone": link.zone},
        "reason": end.reason,
        "text": f"{where}: {why}",
    }
