"""`mesh role send` and `trace`: one message to a role, its replies, and the way they take.

Spec: tree_layer 6.8, 8.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.options import NodeOption, ReplyTimeoutOption, RoleArgument, TreeArgument
from mesh.cli.render import Output, OutputOption, grid, render_verdict, say
from mesh.cli.role import Row, role_address
from mesh.cli.session import Heard, open_session, topology_at
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import RoleRefusedError, TransportUnavailableError, wrong_input

if TYPE_CHECKING:
    from mesh.client.role_messages import RoleReply
    from mesh.model.topology import Topology
    from mesh.operate.roles.trace import Sighting

InstanceOption = Annotated[
    bool, typer.Option("--one-instance", help="Send to the nearest holder only.")
]
RealmOption = Annotated[
    bool, typer.Option("--local-realm", help="Send within the node's realm only.")
]


def send_to_role(
    tree: TreeArgument,
    role: RoleArgument,
    node: NodeOption,
    payload: Annotated[str, typer.Argument(help="The message.")] = "",
    one_way: Annotated[bool, typer.Option("--one-way", help="Ask for no replies.")] = False,
    one_instance: InstanceOption = False,
    one_response: Annotated[
        bool, typer.Option("--one-response", help="Ask for all answers in one reply.")
    ] = False,
    local_realm: RealmOption = False,
    timeout: ReplyTimeoutOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send to the holders of a role, and print the replies.

    Exit code 10: nobody has it, somebody may have got it and cannot answer, or the last reply did
    not come in time.
    """
    from mesh.client import connect
    from mesh.operate.roles.asking import APP

    role_address(tree, role)
    if one_way and (one_instance or one_response):
        text = "goes with neither --one-instance nor --one-response; drop one"
        raise wrong_input("--one-way", text)
    topology = topology_at(target, node)
    message = _message(payload, topology)
    with connect(topology, node) as client:
        roles = client.roles(APP, is_new=False).open()
        call = roles.send(
            tree,
            role,
            message,
            one_way=one_way,
            one_instance=one_instance,
            one_response=one_response,
            local_realm=local_realm,
            timeout_s=timeout,
        )
        try:
            with suppress(TimeoutError):
                call.wait()
        except RoleRefusedError as error:
            raise wrong_input("role send", error.text, code=error.code) from error
        is_lost = one_way and roles.flush() > 0
        roles.leave()
    if is_lost:
        raise TransportUnavailableError(
            f"node {node} has not got it: its Kafka cluster did not acknowledge it; send it again"
        )
    is_done = one_way or call.is_done
    if not is_done:
        say(f"the last reply did not come within {timeout:g} s")
    replies = [] if one_way else [_reply_row(one) for one in call.replies]
    is_ok = is_done and _are_answers(replies)
    data = {"ok": is_ok, "tree": tree, "role": role, "replies": replies}
    nothing = "sent" if one_way else ""
    render_verdict(data, lambda: nothing or _replies_table(replies), output)


def _message(payload: str, topology: Topology) -> bytes:
    """Return the bytes that somebody typed; exit 2 if no message has so many."""
    data = os.fsencode(payload)
    if len(data) > topology.max_message_bytes:
        text = f"{len(data)} bytes; at most {topology.max_message_bytes} are allowed"
        raise wrong_input("PAYLOAD", text)
    return data


def trace_role(
    tree: TreeArgument,
    role: RoleArgument,
    node: NodeOption,
    payload: Annotated[str, typer.Argument(help="The message.")] = "",
    one_instance: InstanceOption = False,
    local_realm: RealmOption = False,
    timeout: ReplyTimeoutOption = 10.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send to the holders of a role, and show node by node where the message and its replies go.

    It is a real message: those who have the role get it. Exit code 10: as `role send`, or a node
    could not be watched.
    """
    from rich.console import Group

    from mesh.model.tree_nodes import SILENT
    from mesh.operate.roles.asking import RoleAsking
    from mesh.operate.roles.trace import trace_send

    if role_address(tree, role).tree in SILENT:
        text = "every node is on it by itself, and what passes there is not shown"
        raise wrong_input("TREE", f"{text}: `mesh role send` says who answers")
    with open_session(target, heard=Heard.NOBODY) as seen, ExitStack() as stack:
        check_node(seen.topology, node, "--node")
        message = _message(payload, seen.topology)
        at = RoleAsking(seen).open_everywhere(stack, timeout)
        if node not in at:
            text = f"node {node} does not answer; start it, or see `mesh status`"
            raise wrong_input("--node", text)
        call, hops, silent = trace_send(
            at, node, tree, role, message,
            timeout_s=timeout, one_instance=one_instance, local_realm=local_realm,
        )  # fmt: skip
        unheard = [name for name in seen.topology.nodes if name not in at or name in silent]
    if call.refusal is not None:
        raise wrong_input("role trace", call.refusal.text, code=call.refusal.code)
    for name in unheard:
        say(f"node {name} does not answer: what passes it cannot be seen")
    replies = [_reply_row(one) for one in call.replies]
    is_ok = call.is_done and _are_answers(replies) and not unheard
    data = {
        "ok": is_ok, "tree": tree, "role": role, "hops": [_hop(one) for one in hops],
        "unheard": unheard, "replies": replies,
    }  # fmt: skip
    rows = [
        (
            one.what + (" (last)" if one.is_last else ""),
            one.came_from or "itself",
            one.node,
            one.hops,
            "yes" if one.has_role else "-",
        )
        for one in hops
    ]
    columns = ("WHAT", "FROM", "AT", "HOPS", "ROLE HERE")
    table = lambda: Group(grid(columns, rows), _replies_table(replies))  # noqa: E731
    render_verdict(data, table, output)


def _hop(one: Sighting) -> Row:
    return {
        "node": one.node,
        "from": one.came_from,
        "what": one.what,
        "hops": one.hops,
        "has_role": one.has_role,
        "last": one.is_last,
    }


def _reply_row(reply: RoleReply) -> Row:
    """Return a reply as JSON has it."""
    return {
        "kind": str(reply.kind),
        "last": reply.is_last,
        "cause": None if reply.cause is None else str(reply.cause),
        "items": [item.decode("utf-8", "backslashreplace") for item in reply.items],
    }


def _are_answers(replies: Sequence[Row]) -> bool:
    """Return whether somebody has the role, and each who may have got the message could answer."""
    return not any(one["kind"] in ("null", "not_found") for one in replies)


def _replies_table(replies: Sequence[Row]) -> Any:
    """Return what came back, for people."""
    rows = [(one["kind"], one["cause"] or "-", " ".join(one["items"])) for one in replies]
    return grid(("REPLY", "CAUSE", "SAID"), rows, "no reply")
