"""`mesh status` as a document, and what other documents share with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mesh.model.control import Stop
from mesh.model.words import NodeWord
from mesh.operate.endpoints.topics import missing_endpoints, with_missing
from mesh.operate.links.gates import shut_links
from mesh.operate.links.stops import StoppedSource
from mesh.operate.status import NodeStatus, node_statuses
from mesh.view.mesh_view import MeshView, RunningMesh
from mesh.wire.keys import PauseKey


def status_document(mesh: RunningMesh, wall_ms: int) -> dict[str, Any]:
    """Return every node: whether it is up, its links, and whether its subscriptions are known.

    Args:
        mesh: The mesh.
        wall_ms: Now, ms since 1970.
    """
    missing = missing_endpoints(mesh)  # first: heartbeats come while brokers answer
    nodes = with_missing(node_statuses(mesh), missing)
    return {
        "mesh": mesh.topology.name,
        "ok": all(node.is_well for node in nodes),
        "change": _change(mesh.view, wall_ms),
        "nodes": [_node(mesh, node) for node in nodes],
        "parts": parts_of(mesh.view, nodes),
        "realms": _realms(mesh, nodes),
    }


def parts_of(view: MeshView, nodes: Sequence[NodeStatus]) -> list[list[str]]:
    """Return the nodes that are up by the colour that their tree layer reports.

    Those without a colour are left out: they have nothing to lose yet. Two that exchange frames, as
    the heartbeats of both say, are in one part even if one has yet to report a new colour: colours
    spread at once, and are reported once a second.
    """
    return _parts(view, {node.node: colour for node in nodes if (colour := _colour(view, node))})


def _realms(mesh: RunningMesh, nodes: Sequence[NodeStatus]) -> Mapping[str, list[list[str]]]:
    """Return the parts of each realm over its own links: the reach of `local_realm` sends."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        realm = mesh.topology.nodes[node.node].realm
        if realm and (colour := _realm_colour(mesh.view, node)):
            found.setdefault(realm, {})[node.node] = colour
    return {realm: _parts(mesh.view, colours) for realm, colours in sorted(found.items())}


def _parts(view: MeshView, colours: Mapping[str, str]) -> list[list[str]]:
    part_of = {colour: colour for colour in colours.values()}
    for one, other in _tree_links(view, colours):
        old, new = part_of[colours[one]], part_of[colours[other]]
        if old != new:
            part_of = {colour: new if part == old else part for colour, part in part_of.items()}
    found: dict[str, list[str]] = {}
    for node, colour in colours.items():
        found.setdefault(part_of[colour], []).append(node)
    return sorted(sorted(part) for part in found.values())


def _tree_links(view: MeshView, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the links of the tree layer between nodes that are up at both ends."""
    links: dict[str, Sequence[str]] = {}
    for name in names:
        trees = view.nodes[name].trees
        links[name] = () if trees is None else trees.links
    for one, others in links.items():
        yield from ((one, other) for other in others if one in links.get(other, ()))


def _node(mesh: RunningMesh, node: NodeStatus) -> dict[str, Any]:
    view = mesh.view
    is_heard = node.state in (NodeWord.UP, NodeWord.STARTING)
    return {
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
        "colour": _colour(view, node),
        "realm": mesh.topology.nodes[node.node].realm,
        "realm_colour": _realm_colour(view, node),
        "shut": [asdict(one) for one in shut_links(view.nodes[node.node])] if is_heard else [],
        "lost_topology": node.lost_topology or None,
        "unrecorded_topology": node.unrecorded_topology or None,
        "stopped": [stop_document(stop) for stop in node.stops],
        "paused": [pause_document(key, pause.why) for key, pause in node.pauses.items()],
        "disabled": [
            {"neighbour": other, "why": one.why} for other, one in sorted(node.disabled.items())
        ],
        "paused_subjects": [
            subject_pause_document(node.node, filter_, pause.why)
            for filter_, pause in node.subject_pauses.items()
        ],
        "endpoints_full": [asdict(one) for one in node.endpoints_full],
    }


def _colour(view: MeshView, node: NodeStatus) -> str:
    """Return the label of the node's part of the mesh, "" while it has none or is not heard."""
    beat = view.nodes[node.node].heartbeat
    return "" if beat is None or node.state != NodeWord.UP else beat.colour


def _realm_colour(view: MeshView, node: NodeStatus) -> str:
    """Return the label of its part of its realm, "" while it has none or is not heard."""
    trees = view.nodes[node.node].trees
    return "" if trees is None or node.state != NodeWord.UP else trees.realm_colour


def _change(view: MeshView, wall_ms: int) -> Mapping[str, Any] | None:
    """Return the change of the topology that is under way, or None."""
    change = view.change
    if change is None or change.stage not in ("hold", "switch"):
        return None
    return {
        "version": change.number,
        "stage": str(change.stage),
        "since_s": max(0.0, (wall_ms - view.change_ms) / 1000),
        "holding": list(change.holding),
    }


def pause_document(key: PauseKey, why: str) -> dict[str, Any]:
    """Return a pause; `partition` is null for all."""
    return {"from": key.neighbour, "to": key.node, "partition": key.partition, "why": why}


def subject_pause_document(node: str, filter_: str, why: str) -> dict[str, Any]:
    """Return the pause of a subject."""
    return {"node": node, "filter": filter_, "why": why}


def stop_document(stop: Stop) -> dict[str, Any]:
    """Return a stop; `last` is null if it cannot be known."""
    return {
        "topic": stop.topic,
        "partition": stop.partition,
        "reason": stop.reason,
        "first": stop.first,
        "last": stop.next - 1 if stop.next >= 0 else None,
        "text": str(stop),
    }


def stopped_document(one: StoppedSource) -> dict[str, Any]:
    """Return a stop and the node that is stopped there."""
    return {"node": one.node, **stop_document(one.stop)}
