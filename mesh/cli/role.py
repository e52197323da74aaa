"""`mesh role list`, `show` and `route`: roles on trees, and what nodes know of the ways to them.

Nodes are asked as an application of their own would ask them. Spec: tree_layer 6.8, 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mesh.cli.options import ReplyTimeoutOption, RoleArgument, TreeArgument
from mesh.cli.render import Output, OutputOption, grid, render, say
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.trees import Address

Row = Mapping[str, Any]
_CERTAIN: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}
"""Whether a node is certain of what it knows of a role; None where it did not answer."""


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
    timeout: ReplyTimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who wants a role, and what every node knows of the way to it.

    APART: how many ways lead to it that have no link in common (`disjoint_ways`). A node that does
    not answer within the timeout knows nothing: `certain` is null.
    """
    from rich.console import Group

    from mesh.operate.roles.asking import RoleAsking

    address = role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = [one for one in _wanted(seen) if (one["tree_id"], one["role"]) == tuple(address)]
        nodes = RoleAsking(seen).routes(tree, role, timeout)
    nodes = [{**one, "disjoint_ways": _disjoint(nodes, one)} for one in nodes]
    data = {"ok": True, "tree": address.tree, "role": role, "wanted": wanted, "nodes": nodes}
    rows = [
        (
            one["node"],
            _CERTAIN[one["certain"]],
            ", ".join(_way(way) for way in one["routes"]) or "-",
            "-" if one["disjoint_ways"] is None else one["disjoint_ways"],
            ", ".join(one["links"]) or "-",
        )
        for one in nodes
    ]
    columns = ("NODE", "CERTAIN", "WAYS (HOPS)", "APART", "LINKS UP")
    render(data, lambda: Group(_table(wanted), grid(columns, rows)), output)


def _wanted(seen: CommandSession) -> Sequence[Row]:
    from mesh.operate.documents.roles import roles_document

    data = roles_document(seen)
    if data["unknown"]:
        say(f"not known of {', '.join(data['unknown'])}: their Kafka cluster does not answer")
    wanted: Sequence[Row] = data["roles"]
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
    return grid(columns, rows, "no application wants a role")


def _disjoint(nodes: Sequence[Row], of: Row) -> int | None:
    """Return how many ways that share no link a node has to others that have a role."""
    from mesh.operate.roles.valency import disjoint_ways

    hosts = {one["node"] for one in nodes for way in one["routes"] if not way["link"]}
    if of["certain"] is None or of["node"] in hosts:
        return None
    return disjoint_ways({one["node"]: one["links"] for one in nodes}, of["node"], hosts)


def _way(way: Row) -> str:
    if not way["link"]:
        return "here"
    within = " in the realm" if way["scope"] == "realm" else ""
    return f"{way['link']} ({way['hops']}){within}"


def route_role(
    tree: TreeArgument,
    role: RoleArgument,
    timeout: ReplyTimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every route to a role at every node: where it leads, how old it is, where it is from.

    A node that does not answer within the timeout knows nothing: `certain` is null. Nothing is
    sent to the role: where a node is not certain, a send asks for the way first.
    """
    from mesh.operate.roles.asking import RoleAsking

    address = role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = RoleAsking(seen).routes(tree, role, timeout)
    data = {"ok": True, "tree": address.tree, "role": role, "nodes": nodes}
    rows = [
        (
            one["node"],
            _CERTAIN[one["certain"]],
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


def role_address(tree: str, role: str) -> Address:
    """Return the address that somebody typed; exit 2 if a name is not valid."""
    from mesh.model.trees import Address, name_fault, tree_id

    if fault := name_fault(role):
        raise wrong_input("ROLE", fault)
    try:
        return Address(tree_id(tree), role)
    except ValueError as error:
        raise wrong_input("TREE", str(error)) from error
