"""One mesh, one node, one link: what a view shows beside its lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mesh.api.items import crossed_then, endpoint_items, interest_items, link_items, node_items
from mesh.api.live import Snapshot
from mesh.api.proof_items import finding_item
from mesh.core.walks import Graph, tree_from
from mesh.model.control import Stage
from mesh.model.queues import Attraction, is_of_queue, member_of
from mesh.model.reasons import Reason, sentence
from mesh.model.subject import overlap
from mesh.model.topology import Topology
from mesh.operate.audit.proof import proof_of
from mesh.operate.documents.status import parts_of
from mesh.operate.endpoints.listing import endpoints_of
from mesh.operate.minutes import MINUTE_MS

CARRIED_MAX = 1_000
"""Filters of a link that are shown with those behind it who want them."""

HISTORY_MINUTES = 60


def mesh_document(snapshot: Snapshot, at_ms: int | None) -> dict[str, Any]:
    """Return the mesh as a whole: what is in force, Kafka clusters, how far all is proven.

    Args:
        snapshot: The newest look at the mesh.
        at_ms: The moment that it is about, since 1970; None for now.
    """
    seen, traffic, trail = snapshot.seen, snapshot.watch.traffic, snapshot.watch.trail
    return {
        "mesh": seen.topology.name,
        "version": seen.in_force.number,
        "hash": seen.in_force.hash,
        "prefix": seen.topology.prefix,
        "at_ms": seen.at_ms if at_ms is None else at_ms,
        "is_now": at_ms is None,
        "kafka": [
            {
                "name": name,
                "answers": name not in seen.faults,
                "fault": seen.faults.get(name),
                "is_on_record": None if at_ms is None else trail.crossed.is_read(name, at_ms),
                "nodes": sorted(n for n, one in seen.topology.nodes.items() if one.kafka == name),
                "region": asdict(snapshot.places.regions[name])
                if name in snapshot.places.regions
                else None,
            }
            for name in seen.topology.kafka
        ],
        "nodes": len(seen.topology.nodes),
        "links": len(seen.topology.links),
        "zones": [
            {"zone": name, "title": zone.title, "kind": str(zone.kind)}
            for name, zone in seen.topology.zones.items()
        ],
        "parts": None if at_ms is not None else parts_of(seen.view, seen.nodes),
        "proof": asdict(proof_of(trail, seen.at_ms, at_ms)),
        "on_record": {
            "traffic_since_ms": traffic.since_ms,
            "crossed_since_ms": trail.crossed.since_ms(seen.at_ms),
            "states_since_ms": snapshot.watch.history.since_ms,
            "audit_since_ms": min(trail.heard) * MINUTE_MS if trail.heard else None,
            "topology_since_ms": in_force_since(snapshot),
        },
    }


def first_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the page shows first: mesh, nodes and links, without a question to brokers.

    How much waits on links is not among it; nobody sees that before a panel is open.
    """
    return {
        "mesh": mesh_document(snapshot, None),
        "nodes": [node for _, node in node_items(snapshot, None, {})],
        "links": [link for _, link in link_items(snapshot, None, {})],
    }


def in_force_since(snapshot: Snapshot) -> int | None:
    """Return when the last change of the topology came into force; None if none is on record."""
    change = snapshot.seen.view.change
    if change is None or change.stage is not Stage.RUN:
        return None
    return snapshot.seen.view.change_ms if change.number == snapshot.seen.in_force.number else None


def node_document(snapshot: Snapshot, node: str, at_ms: int | None) -> dict[str, Any]:
    """Return one node: what it says of itself, its endpoints and who asks it for what."""
    home = snapshot.seen.topology.nodes[node].kafka
    row = dict(node_items(snapshot, at_ms, {home: snapshot.seen.kafka[home]}))[node]
    links = [
        {"link": one["link"], "state": one["state"], "per_s": one["per_s"]}
        for _, one in link_items(snapshot, at_ms, {})
        if node in (one["source"], one["target"])
    ]
    lag = {} if at_ms is not None else _lag(snapshot, node)
    ends = endpoint_items(snapshot, node, at_ms)
    endpoints = [{**one, "lag": lag.get(one["name"])} for _, one in ends]
    is_known = at_ms is None or not snapshot.seen.view.is_unreachable(node)
    more = {"ends_known": is_known, "ends": endpoints, "commands": _node_commands(node)}
    return {**row, "directions": links, **more}


def _lag(snapshot: Snapshot, node: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what waits in each endpoint of a node for the slowest of its readers."""
    seen = snapshot.seen
    if seen.view.is_unreachable(node):
        return {}
    found = endpoints_of(seen, node)
    return {
        one.endpoint: {
            "readers": one.readers,
            "slowest": one.slowest,
            "waiting": None if one.waiting is None else one.waiting.count,
        }
        for one in found
    }


def _node_commands(node: str) -> list[str]:
    lists = [f"mesh endpoint list --node {node}", f"mesh interest {node}", f"mesh dlq {node}"]
    return ["mesh status", *lists]


def link_document(
    snapshot: Snapshot, source: str, target: str, at_ms: int | None
) -> dict[str, Any]:
    """Return one direction of a link: what it carries and for whom, and what it does not.

    Args:
        snapshot: The newest look at the mesh.
        source: Who sends.
        target: Who reads; a link in that direction is known.
        at_ms: The moment that it is about, since 1970; None for now.
    """
    home = snapshot.seen.topology.nodes[source].kafka
    asked = {home: snapshot.seen.kafka[home]} if at_ms is None else {}
    row = dict(link_items(snapshot, at_ms, asked))[f"{source}->{target}"]
    traffic = snapshot.watch.traffic
    flow = traffic.links.get((source, target))
    # What was kept off is counted from when it was first looked at: of then nobody knows it.
    refused = {} if at_ms is not None else dict(traffic.not_forwarded.get((source, target), ()))
    interest, unknown = interest_items(snapshot, "", source, at_ms)
    wanted = [one for _, one in interest if one["by"] == "link" and one["who"] == target]
    behind = _endpoints_behind(snapshot, source, target, at_ms)
    findings = [
        finding_item(said)
        for said in list(snapshot.watch.trail.findings.values())
        if said.holds_at(at_ms) and said.entry.get("link") == f"{source}->{target}"
    ]
    now = (snapshot.seen.at_ms if at_ms is None else at_ms) // MINUTE_MS
    return {
        **row,
        "is_carried_known": target not in unknown,
        "carries": [_carried(one, behind) for one in wanted[:CARRIED_MAX]],
        "carries_more": max(0, len(wanted) - CARRIED_MAX),
        "refused": [
            {
                "reason": reason,
                "messages": count,
                "text": _sentence(snapshot, reason, source, target),
            }
            for reason, count in sorted(refused.items(), key=lambda pair: -pair[1])
        ],
        "counted_since_ms": None if at_ms is not None else traffic.since_ms,
        "last_minute": []
        if flow is None or at_ms is not None
        else [sum(x) for x in list(flow.per_s)],
        "minutes": _minutes(snapshot, source, target, now),
        "findings": findings,
        "audited": None
        if at_ms is not None
        else snapshot.watch.trail.links.get(f"{source}->{target}"),
        "canaries": snapshot.seen.topology.audit_canary,
        "canary": None
        if at_ms is not None
        else snapshot.watch.trail.canaries.get(f"{source}->{target}"),
        "commands": [
            "mesh links",
            f"mesh link pause {source} {target}",
            f"mesh link resume {source} {target}",
            f"mesh link disable {source} {target}",
        ],
    }


def _minutes(snapshot: Snapshot, source: str, target: str, now: int) -> list[Mapping[str, Any]]:
    """Return the rates of the last hour, as far as they are on record."""
    found: list[Mapping[str, Any]] = []
    for at_ms in range((now - HISTORY_MINUTES) * MINUTE_MS, now * MINUTE_MS, MINUTE_MS):
        rates = crossed_then(snapshot, source, target, at_ms)["per_s"]
        if rates is not None:
            found.append({"at_ms": at_ms, "per_s": round(sum(rates.values()), 1)})
    return found


def _carried(row: Mapping[str, Any], behind: Mapping[str, list[str]]) -> dict[str, Any]:
    attraction = Attraction.parse(row["filter"])
    filter_ = row["filter"] if attraction is None else attraction.filter
    queue = None if attraction is None else attraction.queue
    wanting = [endpoint for endpoint, filters in behind.items() if filter_ in filters]
    if attraction is None and is_of_queue(filter_):  # what is sent to one member
        queue, node = member_of(filter_)
        wanting = [f"{node}/{queue}"]
    if not wanting:  # a wider filter that stands for theirs
        wanting = [
            endpoint
            for endpoint, filters in behind.items()
            if any(overlap(filter_, one) for one in filters)
        ]
    return {
        "filter": row["filter"],
        "readable": filter_,
        "queue": queue,
        "interest": row["interest"],
        "since": row["since"],
        "for": wanting,
    }


def _endpoints_behind(
    snapshot: Snapshot, source: str, target: str, at_ms: int | None
) -> Mapping[str, list[str]]:
    """Return the endpoints of nodes that messages of a node come to over this link first."""
    behind = dict.fromkeys(nodes_behind(snapshot.seen.topology, source, target))
    return {
        name: [subscription["filter"] for subscription in one["subscriptions"]]
        for name, one in endpoint_items(snapshot, "", at_ms)
        if one["node"] in behind
    }


def nodes_behind(topology: Topology, source: str, target: str) -> list[str]:
    """Return the nodes that messages of a node come to over its link to a neighbour."""
    tree = tree_from(Graph.of(topology), source)
    return [node for node, visit in tree.items() if visit.walk().nodes[1] == target]


def _sentence(snapshot: Snapshot, reason: str, source: str, target: str) -> str:
    """Return why a link does not carry messages, as commands say it."""
    if reason not in Reason.__members__.values():
        return reason.replace("_", " ")
    topology = snapshot.seen.topology
    link = next(one for one in topology.links if set(one.ends) == {source, target})
    kind = str(topology.kind_of(link))
    return sentence(
        Reason(reason), source=source, target=target, zone=link.zone, kind=kind, node=source
    )
