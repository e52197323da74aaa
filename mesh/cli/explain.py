"""`mesh explain`: who gets a message, which way, and why nobody else. Spec: DESIGN 4.2, 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.given_topology import NO_MESH, legal_or_refused
from mesh.cli.options import ClassOption, HeaderOption, class_of, headers_of
from mesh.cli.render import Output, OutputOption, grid, render, with_unknown
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target, topology_of
from mesh.config.nearest import check_node
from mesh.errors import wrong_input
from mesh.model.counted import counted
from mesh.model.reasons import Reason

if TYPE_CHECKING:
    from rich.tree import Tree

    from mesh.model.control import Subscription
    from mesh.model.topology import Topology
    from mesh.node.explanation import Explanation


def explain(
    subject: Annotated[str, typer.Argument(help="Mesh address, as in acme/orders/eu.")],
    source: Annotated[str, typer.Option("--from", help="Node where it is published.")],
    class_: ClassOption = "guaranteed",
    proposed: Annotated[
        Path | None,
        typer.Option("--proposed", help="Suppose that this topology file were in force."),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(
            help="NODE/ENDPOINT=FILTER: suppose these subscriptions and no others, and look at no "
            "mesh. Repeatable."
        ),
    ] = None,
    header: HeaderOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who would get a message now, over which links, and why no other node would.

    With --proposed or --subscribe: who would get it if that were so, and all nodes were up.
    """
    from mesh.model.subject import subject_fault
    from mesh.node.converged_interest import converged_interest
    from mesh.node.explanation import explain as explain_message
    from mesh.operate.documents.explanations import explanation_document
    from mesh.operate.interest.knowledge import known_nodes

    if (fault := subject_fault(subject)) is not None:
        raise wrong_input("SUBJECT", fault)
    message_class, given = class_of(class_), headers_of(header or [])
    file = None if proposed is None else legal_or_refused(proposed, output)[0]
    if subscribe:
        if proposed is not None and target != HERE:
            raise wrong_input(f"--proposed {proposed}", NO_MESH)
        supposed = file or topology_of(target)
        wanted = subscriptions_of(supposed, subscribe)
        topology, known, unknown = supposed, converged_interest(supposed, wanted), list[str]()
    else:
        with open_session(target, heard=Heard.ANYBODY) as seen:
            topology, known = seen.topology, known_nodes(seen)
            unknown = [node for node in topology.nodes if seen.view.is_unreachable(node)]
        if file is not None:
            topology = file
            known = converged_interest(
                topology, {node: one.subscriptions for node, one in known.items()}
            )
    check_node(topology, source, "--from")
    headers = {name: raw.decode(errors="ignore") for name, raw in reversed(given)}
    explanation = explain_message(topology, known, subject, source, message_class, headers)
    data = explanation_document(explanation, unknown)
    render(data, lambda: _table(explanation, data), output)


def subscriptions_of(
    topology: Topology, options: Sequence[str]
) -> Mapping[str, Mapping[tuple[str, str], Subscription]]:
    """Return `NODE/ENDPOINT=FILTER` options as subscriptions by node.

    Raises:
        ConfigError: One has another form, or names no node.
    """
    from mesh.model.control import Subscription
    from mesh.model.names import fold, name_fault
    from mesh.model.subject import filter_fault

    found: dict[str, dict[tuple[str, str], Subscription]] = {}
    for option in options:
        where = f"--subscribe {option}"
        place, equals, filter_ = option.partition("=")
        node, slash, endpoint = place.partition("/")
        if not (equals and slash):
            raise wrong_input(where, "write NODE/ENDPOINT=FILTER, as in pa2/billing=orders/>")
        check_node(topology, node, where)
        fault = name_fault(endpoint) or filter_fault(filter_)
        if fault is not None:
            raise wrong_input(where, fault)
        at_node = found.setdefault(node, {})
        other = next((one for one, _ in at_node if fold(one) == fold(endpoint)), endpoint)
        if other != endpoint:
            message = (
                f"is one endpoint with {other}: case does not tell names apart; keep one of the two"
            )
            raise wrong_input(where, message, code="NAME_CLASH")
        at_node[endpoint, filter_] = Subscription()
    return found


def _table(explanation: Explanation, data: Mapping[str, Any]) -> RenderableType:
    # That it does not go back over the link by which it came goes without saying.
    refused = [
        (one["node"], one["neighbour"], one["text"])
        for one in data["refused"]
        if one["reason"] != Reason.ARRIVAL_LINK
    ]
    missed = [
        (one["node"], _WANTS[one["wants"]], one["link"] or "", one["text"])
        for one in data["not_reached"]
    ]
    sentence = f"{_sentence(explanation)}{', as far as can be seen' if data['unknown'] else ''}"
    parts: list[RenderableType] = [sentence, "", _tree(explanation)]
    parts += explanation.queues
    if refused:
        parts += ["", "links that it does not cross", grid(("AT", "TO", "WHY"), refused)]
    if missed:
        columns = ("NODE", "WANTS IT", "ENDS BEFORE", "WHY")
        parts += ["", "nodes that it does not reach", grid(columns, missed)]
    return with_unknown(Group(*parts), data["unknown"])


_WANTS: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}
"""Whether an endpoint of a node subscribes to it; None where it cannot be asked."""


def _sentence(explanation: Explanation) -> str:
    """Return who gets the message, counted."""
    by_node = [one.endpoints for one in explanation.reached if one.endpoints]
    endpoints, links = sum(map(len, by_node)), len(explanation.crossed)
    if not endpoints:
        return "no endpoint gets it"
    crossed = f"over {counted(links, 'link')}, one copy each" if links else "over no link"
    waits = "; it waits on the way" if any(one.waits for one in explanation.reached) else ""
    where = f"{counted(endpoints, 'endpoint')} on {counted(len(by_node), 'node')}"
    return f"{where} {'gets' if endpoints == 1 else 'get'} it, {crossed}{waits}"


def _tree(explanation: Explanation) -> Tree:
    from rich.tree import Tree

    zones = {(one.source, one.target): one.zone for one in explanation.crossed}
    root = Tree(f"{explanation.subject} ({explanation.message_class})")
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for one in explanation.reached:
        label = one.node
        if len(one.path) > 1:
            label += f"  over {zones[one.path[-2], one.node]}"
        if one.endpoints:
            label += f"  => {', '.join(one.endpoints)}"
        if one.waits:
            why = "behind a disabled link" if one.disabled else "down"
            label += f"  ({why}: the message waits before it)"
        branches[one.path] = branches[one.path[:-1]].add(label)
    return root
