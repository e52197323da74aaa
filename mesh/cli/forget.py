"""`mesh node forget`: end what a node keeps of a former neighbour. Spec: K12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.options import NodeArgument, checked_name
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node, nearest
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.operate.links.former_neighbours import FormerNeighbour

FormerArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FORMER",
        help="The neighbour whose outboxes are deleted (default: show them all).",
        callback=checked_name,
    ),
]
DeletedOption = Annotated[
    bool,
    typer.Option("--deleted", help="Confirm that they are deleted where that cannot be seen."),
]
ForgetWaitOption = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait until it is forgotten.")
]


def forget_node(
    node: NodeArgument,
    former: FormerArgument = None,
    deleted: DeletedOption = False,
    wait: ForgetWaitOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a node keeps of former neighbours; of one whose outboxes are deleted, end it.

    A node keeps where it stood in the outboxes of a former neighbour, so that a link that comes
    back loses and doubles nothing. It is refused while these outboxes exist, or without --deleted
    where that cannot be seen: if they come back after all, what is still in them comes twice.

    Exit code 10: it was not forgotten in time, for example because no worker of the node runs.
    """
    from mesh.operate.links.former_neighbours import confirm_deleted, former_neighbours
    from mesh.view.lane_reports import read_report

    with open_session(target, heard=Heard.NOBODY, is_look=former is None) as seen:
        check_node(seen.topology, node, "NODE")
        seen.refuse_unseen([node])
        found = former_neighbours(seen.topology, read_report(seen.topology, seen.kafka, node), node)
        is_forgotten = True
        if former is not None:
            one = _named(seen, found, former, node)
            _refuse_undeleted(seen, one, deleted)
            is_forgotten = confirm_deleted(seen, one, wait)
            found = [one]
    word = "kept" if former is None else "forgotten" if is_forgotten else "not forgotten in time"
    listed = [
        {"node": node, "former": one.name, "kafka": one.kafka, "records": one.records}
        for one in found
    ]
    rows = [(one.name, one.kafka or "?", str(one.records), word) for one in found]
    names = ("FORMER NEIGHBOUR", "KAFKA", "RECORDS", "NOW")
    data = {"ok": is_forgotten, "state": word, "former": listed}
    render(data, lambda: grid(names, rows, f"{node} keeps nothing of former neighbours"), output)
    raise typer.Exit(0 if is_forgotten else EXIT_NOT_WELL)


def _named(
    seen: CommandSession, found: Sequence[FormerNeighbour], former: str, node: str
) -> FormerNeighbour:
    for one in found:
        if one.name == former:
            return one
    if former in seen.topology.neighbours(node):
        text = f"{node} has a link to {former}, of which nothing is forgotten; remove it first"
        raise wrong_input("FORMER", text)
    hint = nearest(former, [one.name for one in found])
    raise wrong_input("FORMER", f"{node} keeps nothing of a former neighbour {former!r}{hint}")


def _refuse_undeleted(seen: CommandSession, one: FormerNeighbour, is_confirmed: bool) -> None:
    from mesh.operate.links.former_neighbours import outboxes_left

    left = outboxes_left(seen, one)
    if left:
        where = " and ".join(dict.fromkeys(left.values()))
        there = f"{' and '.join(left)} exist on {where}"
        raise wrong_input("FORMER", f"{there}: delete them first, if {one.name} never comes back")
    if left is None and not is_confirmed:
        topics = " and ".join(one.outboxes(seen.topology))
        text = f"it cannot be seen whether {topics} are deleted; give --deleted if they are"
        raise wrong_input("--deleted", text)
