"""`mesh role ...`: roles on trees, the ways to them, and the way that one send takes.

Nodes are asked as an application of their own would ask them. Spec: tree_layer 6.8, 8.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli import clock
from mesh.cli.problems import EXIT_NOT_WELL
from mesh.cli.publish import NodeOption
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.session import Heard, Session, open_session, running_mesh
from mesh.cli.target import HERE, Target, say
from mesh.config.nearest import check_node
from mesh.errors import RoleRefusedError, TransportError, TransportUnavailableError, wrong_input

if TYPE_CHECKING:
    from mesh.client.role_messages import RoleReply
    from mesh.client.role_trace import Seen
    from mesh.client.roles import Roles
    from mesh.model.trees import Address

APP = "cli"
"""The application of whoever types commands; two at a time are one, and tell their calls apart."""

Row = Mapping[str, Any]
TreeArgument = Annotated[str, typer.Argument(metavar="TREE", help="Name or UUID of the tree.")]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the last reply.")]
InstanceOption = Annotated[bool, typer.Option("--one-instance", help="To the nearest one only.")]
RealmOption = Annotated[bool, typer.Option("--local-realm", help="Within the node's realm only.")]


def list_roles(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what applications want: tree, role, and who wants it where."""
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = _wanted(seen)
    render({"ok": True, "roles": wanted}, lambda: _table(wanted), output)


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

    address = _role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = [one for one in _wanted(seen) if (one["tree_id"], one["role"]) == tuple(address)]
        nodes = [_known_routes(seen, node, tree, role, timeout) for node in seen.topology.nodes]
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
    render(data, lambda: Group(_table(wanted), grid(columns, rows)), output)


def send_to_role(
    tree: TreeArgument,
    role: RoleArgument,
    node: NodeOption,
    payload: Annotated[str, typer.Argument(help="The message.")] = "",
    one_way: Annotated[bool, typer.Option("--one-way", help="No replies.")] = False,
    one_instance: InstanceOption = False,
    one_response: Annotated[
        bool, typer.Option("--one-response", help="All answers in one reply.")
    ] = False,
    local_realm: RealmOption = False,
    timeout: TimeoutOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send to whoever has a role, and print the replies.

    Exit code 10: nobody has it, somebody may have got it and cannot answer, or the last reply did
    not come in time.
    """
    from mesh.client import connect

    _role_address(tree, role)
    if one_way and (one_instance or one_response):
        text = "goes with neither --one-instance nor --one-response; drop one"
        raise wrong_input("--one-way", text)
    topology = running_mesh(target, near=node, is_look=False).topology
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
    replies = [] if one_way else [_reply_row(one) for one in call.replies]
    is_ok = is_done and not any(one["kind"] in ("null", "not_found") for one in replies)
    data = {"ok": is_ok, "tree": tree, "role": role, "replies": replies}
    nothing = "sent" if one_way else ""
    render(data, lambda: nothing or _replies_table(replies), output)
    raise typer.Exit(0 if is_ok else EXIT_NOT_WELL)


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


def route_role(
    tree: TreeArgument,
    role: RoleArgument,
    timeout: TimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every route to a role at every node: where it leads, how old it is, where it is from.

    A node that does not answer within the timeout knows nothing: `certain` is null. Nothing is
    sent to the role: where a node is not certain, a send asks for the way first.
    """
    address = _role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = [_known_routes(seen, node, tree, role, timeout) for node in seen.topology.nodes]
    data = {"ok": True, "tree": address.tree, "role": role, "nodes": nodes}
    rows = [
        (
            one["node"],
            {True: "yes", False: "no", None: "?"}[one["certain"]],
            way["instance"][-8:],
            (way["link"] or "here") + (" in the realm" if way["scope"] == "realm" else ""),
            way["hops"],
            way["reason"],
            "-" if way is NOTHING else f"{way['age_s']:.0f} s",
        )
        for one in nodes
        for way in one["routes"] or [NOTHING]
    ]
    columns = ("NODE", "CERTAIN", "INSTANCE", "NEXT", "HOPS", "BY", "SINCE")
    render(data, lambda: grid(columns, rows), output)


NOTHING: Row = {
    "instance": "-", "link": "-", "scope": "", "hops": "-", "reason": "-", "age_s": 0.0,
}  # fmt: skip


def trace_role(
    tree: TreeArgument,
    role: RoleArgument,
    node: NodeOption,
    payload: Annotated[str, typer.Argument(help="The message.")] = "",
    one_instance: InstanceOption = False,
    local_realm: RealmOption = False,
    timeout: TimeoutOption = 10.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send to whoever has a role, and show node by node where the message and its replies go.

    It is a real message: those who have the role get it. Exit code 10: as `role send`, or a node
    could not be watched.
    """
    from rich.console import Group

    from mesh.client.role_trace import trace_send
    from mesh.model.tree_nodes import SILENT

    if _role_address(tree, role).tree in SILENT:
        text = "every node is on it by itself, and nobody is shown what passes there"
        raise wrong_input("TREE", f"{text}: `mesh role send` says who answers")
    with open_session(target, heard=Heard.NOBODY) as seen, ExitStack() as stack:
        check_node(seen.topology, node, "--node")
        at, unheard = _watched(seen, stack, timeout)
        if node not in at:
            raise wrong_input("--node", f"node {node} does not answer: does it run?")
        call, hops = trace_send(
            at, node, tree, role, os.fsencode(payload),
            timeout_s=timeout, one_instance=one_instance, local_realm=local_realm,
        )  # fmt: skip
    if call.refusal is not None:
        raise wrong_input("role trace", call.refusal.text)
    for name in unheard:
        say(f"node {name} does not answer: what passes it cannot be seen")
    replies = [_reply_row(one) for one in call.replies]
    is_found = call.is_done and not any(one["kind"] in ("null", "not_found") for one in replies)
    is_ok = is_found and not unheard
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
    render(data, table, output)
    raise typer.Exit(0 if is_ok else EXIT_NOT_WELL)


def _watched(
    seen: Session, stack: ExitStack, timeout_s: float
) -> tuple[dict[str, Roles], Sequence[str]]:
    """Return an application at each node that answers, and the nodes that do not."""
    at: dict[str, Roles] = {}
    for name in seen.topology.nodes:
        asking = _application(seen, name)
        if asking is None:
            continue
        stack.callback(asking.leave)
        try:
            at[name] = asking.open(timeout_s)
        except (TransportError, TimeoutError):
            continue
    return at, [name for name in seen.topology.nodes if name not in at]


def _application(seen: Session, node: str) -> Roles | None:
    from mesh.client.roles import Roles

    kafka = seen.kafka.get(seen.topology.nodes[node].kafka)
    if kafka is None:
        return None
    return Roles(
        kafka, seen.topology, node, APP, now_ms=clock.now_ms, pause=clock.pause, is_new=False
    )


def _known_routes(seen: Session, node: str, tree: str, role: str, timeout_s: float) -> Row:
    """Return what a node knows of a role; `certain` is None of one that does not answer."""
    nothing: Row = {"node": node, "certain": None, "routes": [], "links": [], "colour": ""}
    asking = _application(seen, node)
    if asking is None:
        return nothing
    try:
        told = asking.open(timeout_s).routes(tree, role, timeout_s=timeout_s)
    except (TransportError, TimeoutError):
        return nothing
    finally:
        asking.leave()
    routes = [
        {
            "scope": str(one.scope),
            "instance": f"{one.iid:x}",
            "link": one.link,
            "hops": one.hops,
            "reason": str(one.reason),
            "age_s": one.age_ms / 1000,
        }
        for one in told.routes
    ]
    return {
        "node": node,
        "certain": told.is_certain,
        "routes": routes,
        "links": list(told.links),
        "colour": told.colour,
    }


def _hop(one: Seen) -> Row:
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


def _replies_table(replies: Sequence[Row]) -> Any:
    """Return what came back, for people."""
    rows = [(one["kind"], one["cause"] or "-", " ".join(one["items"])) for one in replies]
    return grid(("REPLY", "CAUSE", "SAID"), rows, "no reply")


def _role_address(tree: str, role: str) -> Address:
    """Return the address that somebody typed; exit 2 if a name is none."""
    from mesh.model.trees import Address, name_fault, tree_id

    if fault := name_fault(role):
        raise wrong_input("ROLE", fault)
    try:
        return Address(tree_id(tree), role)
    except ValueError as exc:
        raise wrong_input("TREE", str(exc)) from exc
