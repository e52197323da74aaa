"""`mesh status` and `mesh links`: the mesh as its control topics show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli import looking
from mesh.cli.link import pause_as_mapping
from mesh.cli.looking import Heard, look
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.stops import stop_as_mapping
from mesh.cli.subject import subject_pause_as_mapping
from mesh.cli.target import BootstrapOption, ContextOption, FileOption

if TYPE_CHECKING:
    from mesh.model.control import LinkStatus
    from mesh.view.mesh_view import MeshView

EXIT_UNHEALTHY = 10


def status(
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every node: up or down, its links, and whether its subscriptions are known.

    Exit code 10: some node or link is not up. A link that operators disabled is no fault.
    """
    from mesh.operate.endpoint_topics import missing_endpoints, with_missing
    from mesh.operate.gates import shut_links
    from mesh.operate.status import node_statuses

    with look(file, bootstrap, context, heard=Heard.ANYBODY) as seen:
        missing = missing_endpoints(seen.topology, seen.view, seen.kafka)
        nodes = with_missing(node_statuses(seen.topology, seen.view, seen.beats), missing)
        name = seen.topology.name
        change = _change_as_mapping(seen.view)
        shut = {
            node.node: [_shut_as_mapping(one) for one in shut_links(seen.view.nodes[node.node])]
            for node in nodes
            if node.state in ("up", "starting")
        }
    is_well = all(node.is_well for node in nodes)
    listed: list[dict[str, Any]] = [
        {
            "node": node.node,
            "kafka": node.kafka,
            "state": node.state,
            "epoch": node.epoch,
            "uuid": node.uuid,
            "lanes": node.lanes,
            "endpoints": node.endpoints,
            "subscriptions": node.subscriptions,
            "known_everywhere": node.is_known_everywhere,
            "open_links": [f"{a}->{b}" for a, b in node.open_links],
            "links": dict(node.links),
            "shut": shut.get(node.node, []),
            "stopped": [stop_as_mapping(stop) for stop in node.stops],
            "paused": [pause_as_mapping(key, pause.why) for key, pause in node.pauses.items()],
            "disabled": [
                {"neighbour": other, "why": one.why} for other, one in sorted(node.disabled.items())
            ],
            "paused_subjects": [
                subject_pause_as_mapping(node.node, filter_, pause.why)
                for filter_, pause in node.subject_pauses.items()
            ],
            "endpoints_full": [
                {"endpoint": one.endpoint, "state": one.state, "reason": one.reason}
                for one in node.endpoints_full
            ],
        }
        for node in nodes
    ]
    data = {"mesh": name, "ok": is_well, "change": change, "nodes": listed}
    render(View(data=data, table=lambda: _status_table(listed, change)), output)
    raise typer.Exit(0 if is_well else EXIT_UNHEALTHY)


def _shut_as_mapping(link: LinkStatus) -> Mapping[str, str]:
    """Return a link that carries no data; of a loop the reason shows both walks. Spec: K27."""
    return {
        "neighbour": link.neighbour,
        "zone": link.zone,
        "state": link.state,
        "reason": link.reason,
    }


def _change_as_mapping(view: MeshView) -> Mapping[str, Any] | None:
    """Return the change of the topology that is under way, or None."""
    change = view.change
    if change is None or change.stage not in ("hold", "switch"):
        return None
    return {
        "version": change.number,
        "stage": str(change.stage),
        "since_s": max(0.0, (looking.wall_ms() - view.change_ms) / 1000),
        "holding": list(change.holding),
    }


def _change_text(change: Mapping[str, Any]) -> str:
    holding = ", ".join(change["holding"]) or "nobody"
    return (
        f"a change to version {change['version']} is at stage {change['stage']} for "
        f"{change['since_s']:.0f} s; {holding} holds"
    )


def _status_table(
    nodes: Sequence[Mapping[str, Any]], change: Mapping[str, Any] | None
) -> RenderableType:
    """Return how the mesh is in a sentence, then what is unusual, then every node."""
    columns: Mapping[str, Sequence[object]] = {
        "NODE": [node["node"] for node in nodes],
        "KAFKA": [node["kafka"] for node in nodes],
        "STATE": [node["state"] for node in nodes],
        "EPOCH": [node["epoch"] for node in nodes],
        "LANES": _unless_all(1, [node["lanes"] for node in nodes]),
        "ENDPOINTS": _unless_all(0, [node["endpoints"] for node in nodes]),
        "FILTERS": _unless_all(0, [node["subscriptions"] for node in nodes]),
        "KNOWN": [_KNOWN[node["known_everywhere"]] for node in nodes],
        "LINKS": [_link_states(node["links"]) for node in nodes],
    }
    shown = {name: values for name, values in columns.items() if values}
    rows = [list(row) for row in zip(*shown.values(), strict=True)]
    lines = [headline(nodes), *([] if change is None else [_change_text(change)])]
    lines += [line for node in nodes for line in _unusual(node)]
    return Group(*lines, grid(tuple(shown), rows))


_KNOWN: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}
"""Whether what a node's clients want is known everywhere."""


def _unless_all(usual: object, values: Sequence[object]) -> Sequence[object]:
    """Return the values of a column, or none where it says nothing."""
    return [] if all(value == usual for value in values) else values


def headline(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return how a mesh is, in one sentence for people."""
    by_state = Counter(node["state"] for node in nodes)
    parts = [", ".join(_counted(count, "node", state) for state, count in by_state.items())]
    states: dict[frozenset[str], set[str]] = {}
    for node in nodes:
        for other, state in node["links"].items():
            states.setdefault(frozenset((node["node"], other)), set()).add(state)
    links = Counter(min(found - {"up"}, default="up") for found in states.values())
    if links:
        parts[0] += ", " + ", ".join(_counted(n, "link", state) for state, n in links.items())
    late = [node["node"] for node in nodes if node["known_everywhere"] is False]
    unknown = [node["node"] for node in nodes if node["known_everywhere"] is None]
    if late:
        parts.append(f"subscriptions of {', '.join(late)} are not known everywhere yet")
    if unknown:
        parts.append(f"whether those of {', '.join(unknown)} are known cannot be seen")
    if not late and not unknown:
        parts.append("every subscription is known everywhere")
    return "; ".join(parts)


def _counted(count: int, noun: str, state: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'} {state}"


def _unusual(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each thing of a node that somebody should know."""
    name = node["node"]
    if node["known_everywhere"] is False and node["open_links"]:
        links = ", ".join(node["open_links"])
        yield f"{name}: its subscriptions are not acknowledged over {links}"
    for one in node["shut"]:
        yield f"{name}: link to {one['neighbour']} is {one['state']}: {one['reason']}"
    for one in node["stopped"]:
        yield f"{name}: stopped: {one['text']}"
    for source in dict.fromkeys(one["from"] for one in node["paused"]):
        yield f"{name}: an operator has paused what comes from {source}"
    for one in node["disabled"]:
        yield f"{name}: link to {_with_why(one['neighbour'], one['why'])} is disabled"
    for one in node["paused_subjects"]:
        yield f"{name}: an operator has paused {one['filter']}"
    for one in node["endpoints_full"]:
        yield f"{name}: endpoint {one['endpoint']}: {one['reason']}"


def _with_why(what: str, why: str) -> str:
    return f"{what} ({why})" if why else what


def _link_states(states: Mapping[str, str]) -> str:
    """Return `3 up, tk1 down`."""
    up = sum(state == "up" for state in states.values())
    others = [f"{name} {state}" for name, state in states.items() if state != "up"]
    return ", ".join([*([f"{up} up"] if up else []), *others])


def links(
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show both directions of every link: state, what waits on it and how much is wanted.

    Exit code 10: some link is neither up nor disabled.
    """
    from mesh.operate.status import link_flows

    with look(file, bootstrap, context, heard=Heard.ANYBODY) as seen:
        flows = link_flows(seen.topology, seen.view, seen.beats, seen.kafka)
    listed: list[dict[str, Any]] = [
        {
            "link": f"{flow.source}->{flow.target}",
            "zone": flow.zone,
            "kind": flow.kind,
            "state": flow.state,
            "reason": flow.reason,
            "backlog_frames": flow.backlog_frames,
            "backlog_messages": flow.backlog_messages,
            "wanted": flow.wanted,
        }
        for flow in flows
    ]
    is_well = all(flow.state in ("up", "disabled") for flow in flows)
    rows = [tuple("?" if value is None else value for value in one.values()) for one in listed]
    names = ("LINK", "ZONE", "KIND", "STATE", "REASON", "FRAMES WAITING", "MESSAGES WAITING")
    render(
        View(
            data={"ok": is_well, "links": listed},
            table=lambda: grid((*names, "FILTERS WANTED"), rows),
        ),
        output,
    )
    raise typer.Exit(0 if is_well else EXIT_UNHEALTHY)
