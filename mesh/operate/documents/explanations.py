"""`mesh explain` and `mesh route` as documents: where messages would go, and why nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesh.core.walks import Walk
from mesh.core.ways import DeadEnd, crossings, way_between
from mesh.model.reasons import NoWay, Reason
from mesh.model.topology import Topology
from mesh.node.explanation import Explanation, NotReached


def explanation_document(explanation: Explanation, unknown: Sequence[str]) -> dict[str, Any]:
    """Return who gets a message and why nobody else; `reached` holds nodes passed through too.

    Args:
        explanation: The explanation.
        unknown: Nodes of which nothing is known, because their Kafka cluster does not answer.
    """
    return {
        "subject": explanation.subject,
        "source": explanation.source,
        "class": str(explanation.message_class),
        "reached": [
            {
                "node": one.node,
                "endpoints": list(one.endpoints),
                "path": list(one.path),
                "waits": one.waits,
                "link_disabled": one.disabled,
            }
            for one in explanation.reached
        ],
        "links": [
            {"link": f"{one.source}->{one.target}", "zone": one.zone} for one in explanation.crossed
        ],
        "refused": [
            {
                "node": one.node,
                "neighbour": one.neighbour,
                "reason": str(one.reason),
                "cause": one.cause and str(one.cause),
                "text": UNSEEN
                if one.reason is Reason.NO_INTEREST and one.neighbour in unknown
                else one.text,
            }
            | ({"selector": one.selector} if one.selector else {})
            for one in explanation.refused
        ],
        "not_reached": [_not_reached(one, unknown) for one in explanation.not_reached],
        "queues": list(explanation.queues),
        "unknown": list(unknown),
    }


UNSEEN = "what is wanted behind this link cannot be seen: the Kafka cluster does not answer"
"""Replaces a claim about nodes that cannot be queried."""


def _not_reached(one: NotReached, unknown: Sequence[str]) -> dict[str, Any]:
    """Return why a node is not reached; if no way leads there, by the forwarding rule."""
    is_unseen = one.reason is Reason.NO_INTEREST and one.link is not None and one.link[1] in unknown
    return {
        "node": one.node,
        "reason": str(one.reason),
        "cause": one.cause and str(one.cause),
        "rule": str(one.cause) if one.reason is NoWay.NO_WAY else None,
        "link": one.link and "->".join(one.link),
        "wants": None if one.node in unknown else one.wants,
        "text": UNSEEN if is_unseen else one.text,
    }


def route_document(topology: Topology, source: str, target: str) -> dict[str, Any]:
    """Return the one way from a node to another, or where it ends and why."""
    found = way_between(topology, source, target)
    if isinstance(found, Walk):
        return _way(topology, source, target, found)
    return _end(source, target, found)


def _way(topology: Topology, source: str, target: str, walk: Walk) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "reached": True,
        "path": list(walk.nodes),
        "links": [
            {
                "from": one.source,
                "to": one.target,
                "zone": one.zone,
                "kind": str(one.kind),
                "hops": one.hops,
                "kafka": topology.nodes[one.source].kafka,
            }
            for one in crossings(topology, walk)
        ],
    }


def _end(source: str, target: str, end: DeadEnd) -> dict[str, Any]:
    link = end.link
    stop = end.walk.nodes[-1]
    where = f"{source} does not reach {target}: messages stop at {stop}"
    if link is not None:
        where += f", before link {stop}->{link.other(stop)} (zone {link.zone})"
    return {
        "source": source,
        "target": target,
        "reached": False,
        "path": list(end.walk.nodes),
        "stops_at": stop,
        "link": None if link is None else {"to": link.other(stop), "zone": link.zone},
        "reason": str(end.reason),
        "text": f"{where}: {end.text}",
    }
