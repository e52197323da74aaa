"""`mesh role clean`: delete what applications that are gone have left. Spec: tree_layer 13."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from mesh.cli.options import YesOption
from mesh.cli.questions import confirm_deletion
from mesh.cli.render import Output, OutputOption, grid, render, say
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import TransportError

if TYPE_CHECKING:
    from mesh.operate.roles.gone_applications import GoneApplication


def clean_roles(
    yes: YesOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete the topics of applications with roles that are gone: nodes never delete one.

    An application is gone if it has no lease, asks for no role and was told nothing for ten
    minutes.
    One that comes back gets its topic again.
    """
    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        gone = list(_gone(seen))
        if gone and not yes:
            confirm_deletion(f"{len(gone)} topics, such as {gone[0].topic}")
            still = dict.fromkeys(_gone(seen))  # somebody may have come back meanwhile
            gone = [one for one in gone if one in still]
        for node in dict.fromkeys(one.node for one in gone):
            topics = [one.topic for one in gone if one.node == node]
            seen.home_of(node).admin().delete(topics)
    data = {"ok": True, "deleted": [asdict(one) for one in gone]}
    rows = [(one.node, one.app, one.topic) for one in gone]
    columns = ("NODE", "APPLICATION", "DELETED")
    render(
        data, lambda: grid(columns, rows, "no application that is gone has left a topic"), output
    )


def _gone(seen: CommandSession) -> Iterator[GoneApplication]:
    from mesh.operate.roles.gone_applications import gone_applications

    for node, declared in seen.topology.nodes.items():
        kafka = seen.kafka.get(declared.kafka)
        try:
            if kafka is not None:
                yield from gone_applications(seen.topology.names, node, kafka)
        except TransportError as error:
            say(f"not known of {node}: {error}")
