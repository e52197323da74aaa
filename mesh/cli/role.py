"""`mesh role list`, `show` and `route`: roles on trees, and what nodes know of the ways to them.

Nodes are asked as an application of their own would ask them. Spec: tree_layer 6.8, 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli import clock
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.session import Heard, Session, open_session
from mesh.cli.target import HERE, Target, say
from mesh.errors import TransportError, wrong_input

if TYPE_CHECKING:
    from mesh.client.roles import Roles
    from mesh.model.trees import Address

APP = "cli"
"""The application that commands run as; two at a time are one, and tell their calls apart."""

Row = Mapping[str, Any]
TreeArgument = Annotated[str, typer.Argument(metavar="TREE", help="Name or UUID of the tree.")]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the last reply.")]
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
    timeout: TimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who wants a role, and what every node knows of the way to it.

    APART: how many ways lead to it that have no link in common (`disjoint_ways`). A node that does
    not answer within the timeout knows nothing: `certain` is null.
    """
    from rich.console import Group

    address = role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        wanted = [one for one in _wanted(seen) if (one["tree_id"], one["role"]) == tuple(address)]
        nodes = _known_everywhere(seen, tree, role, timeout)
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


def _wanted(seen: Session) -> Sequence[Row]:
    from mesh.operate.documents.roles import roles_document

    data = roles_document(seen.topology, seen.view, seen.kafka)
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
    from mesh.operate.interest.valency import disjoint_ways

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
    timeout: TimeoutOption = 5.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every route to a role at every node: where it leads, how old it is, where it is from.

    A node that does not answer within the timeout knows nothing: `certain` is null. Nothing is
    sent to the role: where a node is not certain, a send asks for the way first.
    """
    address = role_address(tree, role)
    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = _known_everywhere(seen, tree, role, timeout)
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


def application(seen: Session, node: str) -> Roles | None:
    """Return the application that commands run as at a node, if its Kafka cluster is known."""
    from mesh.client.roles import Roles

    kafka = seen.kafka.get(seen.topology.nodes[node].kafka)
    if kafka is None:
        return None
    return Roles(
        kafka, seen.topology, node, APP, now_ms=clock.now_ms, pause=clock.pause, is_new=False
    )


def _known_everywhere(seen: Session, tree: str, role: str, timeout_s: float) -> Sequence[Row]:
    """Return what every node knows of a role."""
    return [_known_routes(seen, node, tree, role, timeout_s) for node in seen.topology.nodes]


def _known_routes(seen: Session, node: str, tree: str, role: str, timeout_s: float) -> Row:
    """Return what a node knows of a role; `certain` is None of one that does not answer."""
    nothing: Row = {"node": node, "certain": None, "routes": [], "links": [], "colour": ""}
    asking = application(seen, node)
    if asking is None:
        return nothing
    try:
        known = asking.open(timeout_s).routes(tree, role, timeout_s=timeout_s)
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
        for one in known.routes
    ]
    return {
        "node": node,
        "certain": known.is_certain,
        "routes": routes,
        "links": list(known.links),
        "colour": known.colour,
    }


def role_address(tree: str, role: str) -> Address:
    """Return the address that somebody typed; exit 2 if a name is not valid."""
    from mesh.model.trees import Address, name_fault, tree_id

    if fault := name_fault(role):
        raise wrong_input("ROLE", fault)
    try:
        return Address(tree_id(tree), role)
    except ValueError as exc:
        raise wrong_input("TREE", str(exc)) from exc
