"""`mesh endpoint list` and `delete`: endpoints, what waits in them, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.options import OnlyNodeOption, YesOption
from mesh.cli.render import Output, OutputOption, grid, render, with_unknown
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import ConfigError, wrong_input


def list_endpoints(
    node: OnlyNodeOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List every endpoint: class, filters, and how much waits for the slowest of its readers.

    A reader is a consumer group with a position in the endpoint's topic; consumers that keep
    their positions elsewhere are not seen. Endpoints that nobody subscribes any more come last:
    their topics stay until `mesh endpoint delete`.
    """
    from mesh.operate.documents.endpoints import endpoints_document

    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = seen.nodes_named(node, "--node")
        data = endpoints_document(seen, nodes)
    render(data, lambda: _table(data), output)


def delete_endpoint(
    node: Annotated[str, typer.Argument(help="Node where the endpoint is.")],
    endpoint: Annotated[str, typer.Argument(help="An endpoint that nobody subscribes.")],
    unread: Annotated[
        bool, typer.Option("--unread", help="Delete it even if it holds unread messages.")
    ] = False,
    yes: YesOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete the topics of an endpoint that nobody subscribes any more, and all that is in them.

    It is refused while somebody subscribes it, while a consumer reads it, and where not every
    consumer group can be seen: who else reads it would be a guess.
    """
    from mesh.cli.questions import confirm_deletion
    from mesh.operate.documents.endpoints import unsubscribed_document
    from mesh.operate.endpoints.unsubscribed import NOT_KNOWN, refusals

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "NODE")
        if seen.view.is_unreachable(node):
            text = "its Kafka cluster does not answer; repeat the command when it does"
            raise wrong_input(node, text, code=NOT_KNOWN)
        one, problems = refusals(seen, node, endpoint, allow_unread=unread)
        if one is not None and not problems and not yes:
            confirm_deletion(" and ".join(one.topics), of=" with all that is in it")
        if one is not None and not problems:
            seen.view.refresh()  # somebody may have subscribed it meanwhile
            one, problems = refusals(seen, node, endpoint, allow_unread=unread)
        if one is None or problems:
            raise ConfigError(problems)
        seen.home_of(node).admin().delete(one.topics)
    data = {"ok": True, "deleted": unsubscribed_document(one)}
    text = f"{' and '.join(one.topics)}: deleted"
    render(data, lambda: text, output)


def _table(data: Mapping[str, Any]) -> RenderableType:
    rows = [
        (
            one["node"],
            one["endpoint"],
            one["class"] if one["kind"] == "channel" else f"{one['class']} {one['kind']}",
            ", ".join(one["filters"]),
            _waiting(one),
            one["slowest"] or "",
        )
        for one in data["endpoints"]
    ]
    columns = ("NODE", "ENDPOINT", "CLASS", "FILTERS", "WAITING", "SLOWEST READER")
    parts: list[RenderableType] = [grid(columns, rows) if rows else "no endpoints"]
    if data["unsubscribed"]:
        left = [
            (one["node"], one["endpoint"], _unread(one), ", ".join(one["readers"]))
            for one in data["unsubscribed"]
        ]
        parts += ["", grid(("NODE", "NOBODY SUBSCRIBES", "UNREAD", "READERS"), left)]
    return with_unknown(Group(*parts), data["unknown"])


def _waiting(one: Mapping[str, Any]) -> str:
    if one["readers"] == 0:
        return "no reader"
    if one["waiting"] is None:
        return "?"
    return f"{one['waiting']}{'' if one['is_counted'] else ' offsets'}"


def _unread(one: Mapping[str, Any]) -> str:
    if one["unread"] is None:
        return "?"
    return f"{one['unread']}{'' if one['is_counted'] else ' offsets'}"
