"""`mesh status` and `mesh links`: the mesh as its control topics show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    rows = [
        (
            node["node"],
            node["kafka"],
            node["state"],
            node["epoch"],
            node["lanes"],
            node["endpoints"],
            node["subscriptions"],
            {True: "yes", False: "no: " + ", ".join(node["open_links"]), None: "?"}[
                node["known_everywhere"]
            ],
            _link_states(node["links"]),
            "; ".join(
                f"{one['neighbour']} {one['state']}: {one['reason']}" for one in node["shut"]
            ),
            "; ".join(one["text"] for one in node["stopped"]),
            ", ".join(dict.fromkeys(one["from"] for one in node["paused"])),
            ", ".join(_with_why(one["neighbour"], one["why"]) for one in node["disabled"]),
            ", ".join(one["filter"] for one in node["paused_subjects"]),
            "; ".join(f"{one['endpoint']}: {one['reason']}" for one in node["endpoints_full"]),
        )
        for node in nodes
    ]
    columns = ("NODE", "KAFKA", "STATE", "EPOCH", "LANES", "ENDPOINTS", "SUBSCRIPTIONS")
    table = grid(
        (
            *columns,
            "KNOWN EVERYWHERE",
            "LINKS",
            "SHUT",
            "STOPPED",
            "PAUSED FROM",
            "DISABLED",
            "PAUSED SUBJECTS",
            "ENDPOINTS IN TROUBLE",
        ),
        rows,
    )
    return table if change is None else Group(_change_text(change), table)


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
