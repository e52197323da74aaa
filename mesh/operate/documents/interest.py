"""`mesh interest` as a document."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mesh.model.control import Interest, is_address
from mesh.model.topology import Topology
from mesh.operate.interest.history import InterestAt


def interest_document(
    topology: Topology,
    pasts: Mapping[str, InterestAt],
    nodes: Sequence[str],
    at_ms: int | None,
    *,
    addresses: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return who wants what, since when: nodes' endpoints, and neighbours over their links.

    `unknown` lists those that cannot be queried; entries that depend on them have no count.

    Args:
        topology: The topology in force.
        pasts: What these nodes and their neighbours want or wanted; unknown ones left out.
        nodes: The nodes to report on.
        at_ms: The moment, ms since 1970; None for now.
        addresses: Node by address, if addresses of nodes are to be included.
    """
    listed = [
        one for name in nodes for one in _wanted_at(topology, pasts, name, addresses=addresses)
    ]
    around = {name: [name, *topology.neighbours(name)] for name in nodes}
    unseen = [one for names in around.values() for one in names if one not in pasts]
    return {
        "at": _iso(at_ms),
        "interest": listed,
        "counts": {name: _counts(listed, name, around[name], pasts) for name in nodes},
        "unknown": sorted(dict.fromkeys(unseen)),
    }


def _wanted_at(
    topology: Topology,
    pasts: Mapping[str, InterestAt],
    node: str,
    *,
    addresses: Mapping[str, str] | None,
) -> Iterator[dict[str, Any]]:
    if node in pasts:
        for one in pasts[node].subscriptions:
            message_class = str(one.subscription.message_class)
            yield {
                "node": node,
                "by": "endpoint",
                "who": one.endpoint,
                "zone": None,
                "scope": None,
                "filter": one.filter,
                "class": message_class,
                "interest": message_class + (", noexport" if one.subscription.noexport else ""),
                "since": _iso(one.since_ms),
            }
    yield from _controls(topology, node)
    for link in topology.links_of(node):
        other = link.other(node)
        for offer in pasts[other].offers if other in pasts else ():
            scope = offer.scope
            is_read_here = scope.zone == link.zone and scope.neighbour in ("", node)
            if not is_read_here or (is_address(offer.filter) and addresses is None):
                continue
            yield {
                "node": node,
                "by": "link",
                "who": other,
                "zone": link.zone,
                "scope": str(scope),
                "filter": offer.filter,
                **_address(offer.filter, addresses),
                "class": offer.interest and ("guaranteed" if offer.interest.durable else "direct"),
                "interest": offer.interest and _words(offer.interest),
                "since": _iso(offer.since_ms),
            }


def _address(filter_: str, addresses: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the owner if an entry is an address; null for a node that is not known."""
    if addresses is None or not is_address(filter_):
        return {}
    return {"address_of": addresses.get(filter_)}


def _controls(topology: Topology, node: str) -> Iterator[dict[str, Any]]:
    """Yield what the topology has a node want, or keep to itself; no clients are behind it."""
    for control in topology.interest:
        if control.node == node:
            yield {
                "node": node,
                "by": str(control.kind),
                "who": None,
                "zone": None,
                "scope": None,
                "filter": control.filter,
                "class": None,
                "interest": str(control.kind),
                "since": None,
            }


def _counts(
    entries: Sequence[Mapping[str, Any]], node: str, around: Sequence[str], known: Container[str]
) -> dict[str, int | None]:
    """Return how much a node's clients and neighbours want; None if one cannot be queried."""
    by = [entry["by"] for entry in entries if entry["node"] == node]
    return {
        "own": by.count("endpoint") if node in known else None,
        "links": by.count("link") if all(one in known for one in around[1:]) else None,
    }


def _words(interest: Interest) -> str:
    """Return what it requests: durable (guaranteed waits for it), live, static."""
    words = [word for word in ("durable", "live", "static") if getattr(interest, word)]
    if interest.clients_offset is not None and interest.clients_offset >= 0:
        words.append(f"version {interest.clients_offset}")
    return ", ".join(words)


def _iso(ms: int | None) -> str | None:
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat(timespec="seconds")
