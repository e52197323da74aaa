"""`mesh dlq`: the dead letters of a node, one by one."""

from __future__ import annotations

from typing import Annotated

import typer

from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.session import LOOK_WITHIN_S, open_clusters, topology_at
from mesh.cli.target import HERE, Target

MOST_DEFAULT = 1_000


def dlq(
    node: Annotated[str, typer.Argument(help="Node whose dead letters are listed.")],
    most: Annotated[
        int,
        typer.Option(min=1, help="How many of the newest offsets of each partition to look at."),
    ] = MOST_DEFAULT,
    queue: Annotated[
        str,
        typer.Option(
            help="Only those of this queue: what its consumers gave up.", show_default=False
        ),
    ] = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a node's dead letters: what it refused, and what one of its targets lacks, and why.

    The records themselves are in the topic that `place` names, cut to 64 kB of value. Nothing is
    deleted here.
    """
    from mesh.operate.documents.messages import letter_document
    from mesh.operate.messages.dead_letters import check_queue, read_letters

    topology = topology_at(target, node, "NODE", is_look=True)
    home = topology.nodes[node].kafka
    with open_clusters(topology, home, LOOK_WITHIN_S) as kafka:
        if queue:
            check_queue(topology, kafka[home], node, queue, "--queue")
        found = [
            letter_document(letter)
            for letter in read_letters(topology, kafka[home], node, most, queue=queue)
        ]
    columns = ("identity", "subject", "reason", "size", "target", "place", "detail")
    rows = [tuple(letter[column] for column in columns) for letter in found]
    names = tuple(column.upper() for column in columns)
    data = {"ok": True, "node": node, "letters": found}
    render(data, lambda: grid(names, rows, "no dead letters"), output)
