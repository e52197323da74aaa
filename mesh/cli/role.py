"""`mesh role list`, `show` and `send`: roles on trees. Spec: tree_layer 8."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from mesh.cli.faults import wrong_input
from mesh.cli.publish import NodeOption
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.role_ways import (
    APP,
    RoleArgument,
    TimeoutOption,
    TreeArgument,
    known_routes,
    replies_table,
    reply_row,
    role_address,
)
from mesh.cli.session import Heard, Session, open_session, running_mesh
from mesh.cli.subscribe import EXIT_LAGGING
from mesh.cli.target import HERE, Target, check_node, say

Row = Mapping[str, Any]


def list_roles(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what applications want: tree, role, and who wants it where."""
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = _wanted(seen)
    render(View(data={"ok": True, "roles": wanted}, table=lambda: _table(wanted)), output)


def show_role(
    tree: TreeArgument,
    role: RoleArgument,
    timeout: TimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who wants a role, and what every node knows of the way to it.

    A node that does not answer within the timeout knows nothing: `certain` is null.
    """
    from rich.console import Group

    address = role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = [one for one in _wanted(seen) if (one["tree_id"], one["role"]) == tuple(address)]
        nodes = [known_routes(seen, node, tree, role, timeout) for node in seen.topology.nodes]
    data = {"ok": True, "tree": address.tree, "role": role, "wanted": wanted, "nodes": nodes}
    rows = [
        (
            one["node"],
            {True: "yes", False: "no", None: "?"}[one["certain"]],
            ", ".join(_way(way) for way in one["routes"]) or "-",
            ", ".join(one["links"]) or "-",
        )
        for one in nodes
    ]
    columns = ("NODE", "CERTAIN", "WAYS (HOPS)", "LINKS UP")
    render(View(data=data, table=lambda: Group(_table(wanted), grid(columns, rows))), output)


def send_to_role(
    tree: TreeArgument,
    role: RoleArgument,
    node: NodeOption,
    payload: Annotated[str, typer.Argument(help="The message.")] = "",
    one_way: Annotated[bool, typer.Option("--one-way", help="No replies.")] = False,
    one_instance: Annotated[
        bool, typer.Option("--one-instance", help="To the nearest one only.")
    ] = False,
    one_response: Annotated[
        bool, typer.Option("--one-response", help="All answers in one reply.")
    ] = False,
    local_realm: Annotated[
        bool, typer.Option("--local-realm", help="Within the node's realm only.")
    ] = False,
    timeout: TimeoutOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send to whoever has a role, and print the replies.

    Exit code 10: nobody has it, somebody may have got it and cannot answer, or the last reply did
    not come in time.
    """
    from mesh.client import connect
    from mesh.errors import RoleRefusedError, TransportUnavailableError

    role_address(tree, role)
    if one_way and (one_instance or one_response):
        text = "goes with neither --one-instance nor --one-response; drop one"
        raise wrong_input("--one-way", text)
    topology = running_mesh(target, near=node).topology
    check_node(topology, node, "--node")
    with connect(topology, node) as client:
        roles = client.roles(APP, is_new=False).open()
        call = roles.send(
            tree,
            role,
            os.fsencode(payload),
            one_way=one_way,
            one_instance=one_instance,
            one_response=one_response,
            local_realm=local_realm,
            timeout_s=timeout,
        )
        try:
            with suppress(TimeoutError):
                call.wait()
        except RoleRefusedError as exc:
            raise wrong_input("role send", str(exc)) from exc
        is_lost = one_way and roles.flush() > 0
        roles.leave()
    if is_lost:
        raise TransportUnavailableError(
            f"node {node} has not got it: its Kafka cluster did not acknowledge it; send it again"
        )
    is_done = one_way or call.is_done
    if not is_done:
        say(f"the last reply did not come within {timeout:g} s")
    replies = [] if one_way else [reply_row(one) for one in call.replies]
    is_ok = is_done and not any(one["kind"] in ("null", "not_found") for one in replies)
    data = {"ok": is_ok, "tree": tree, "role": role, "replies": replies}
    nothing = "sent" if one_way else ""
    render(View(data=data, table=lambda: nothing or replies_table(replies)), output)
    raise typer.Exit(0 if is_ok else EXIT_LAGGING)


def _wanted(seen: Session) -> Sequence[Row]:
    from mesh.operate.documents.roles import roles_document

    told = roles_document(seen.topology, seen.view, seen.kafka)
    if told["unknown"]:
        say(f"not known of {', '.join(told['unknown'])}: their Kafka cluster does not answer")
    wanted: Sequence[Row] = told["roles"]
    return wanted


def _table(wanted: Sequence[Row]) -> Any:
    rows = [
        (
            one["tree"],
            one["role"],
            one["node"],
            one["app"],
            "alone" if one["exclusive"] else "shared",
            one["extent"],
            "holds" if one["lease_holds"] else "has run out",
        )
        for one in wanted
    ]
    columns = ("TREE", "ROLE", "NODE", "APPLICATION", "HELD", "EXTENT", "LEASE")
    return grid(columns, rows, "no application wants one")


def _way(way: Row) -> str:
    if not way["link"]:
        return "here"
    within = " in the realm" if way["scope"] == "realm" else ""
    return f"{way['link']} ({way['hops']}){within}"
