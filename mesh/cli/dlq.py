"""`mesh dlq`: the dead letters of a node, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.faults import wrong_input
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.session import LOOK_WITHIN_S, open_clusters, running_mesh
from mesh.cli.target import HERE, Target, check_node

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.transport.port import KafkaCluster

MOST_DEFAULT = 1_000


def dlq(
    node: Annotated[str, typer.Argument(help="Whose dead letters.")],
    most: Annotated[
        int, typer.Option(min=1, help="Newest offsets of each partition that are looked at.")
    ] = MOST_DEFAULT,
    queue: Annotated[
        str, typer.Option(help="Of this queue: what its consumers gave up.", show_default=False)
    ] = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a node's dead letters: what it refused, and what one of its targets lacks, and why.

    The records themselves are in the topic that `place` names, cut to 64 kB of value. Nothing is
    deleted here.
    """
    from mesh.operate.dead_letters import read_letters
    from mesh.operate.documents.messages import letter_document

    topology = running_mesh(target, near=node, is_look=True).topology
    check_node(topology, node, "NODE")
    home = topology.nodes[node].kafka
    with open_clusters(topology, home, LOOK_WITHIN_S) as kafka:
        if queue:
            _check_queue(topology, kafka[home], node, queue)
        found = [
            letter_document(letter)
            for letter in read_letters(topology, kafka[home], node, most, queue=queue)
        ]
    columns = ("identity", "subject", "reason", "size", "target", "place", "detail")
    rows = [tuple(letter[column] for column in columns) for letter in found]
    names = tuple(column.upper() for column in columns)
    data = {"ok": True, "node": node, "letters": found}
    render(View(data=data, table=lambda: grid(names, rows, "no dead letters")), output)


def _check_queue(topology: Topology, kafka: KafkaCluster, node: str, queue: str) -> None:
    from mesh.model.names import name_fault
    from mesh.model.topics import TopicNames

    names = TopicNames(topology.prefix)
    topics = (names.endpoint(node, queue), names.queue_letters(node, queue))
    if name_fault(queue) is not None or not kafka.admin().describe(topics):
        message = f"{node} has no queue {queue!r}; `mesh queue list` has all of them"
        raise wrong_input("--queue", message, code="UNKNOWN_QUEUE")
