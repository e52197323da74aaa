"""A topology as the file that describes it: what `load_topology` reads back as the same value.

Spec: DESIGN 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from mesh.config.interest_controls import controls_written
from mesh.config.selectors import written_selectors
from mesh.model.queues import Queue
from mesh.model.topology import (
    DeclaredKafka,
    EndpointLimit,
    LinkLimit,
    Node,
    RolePings,
    Topology,
    Zone,
    ZoneForm,
)


def topology_document(topology: Topology) -> Mapping[str, object]:
    """Return the document of a topology file; references to secrets stay references."""
    return {
        "apiVersion": "mesh/v1",
        "kind": "Mesh",
        "metadata": {"name": topology.name or "mesh"},
        "spec": topology_spec(topology),
    }


def topology_spec(topology: Topology) -> Mapping[str, object]:
    """Return what stands under `spec` in a topology file."""
    spec: dict[str, object] = {
        "prefix": topology.prefix,
        "maxMessageBytes": topology.max_message_bytes,
        "keep": _duration(topology.keep_s),
        "quarantineAfter": topology.quarantine_after,
        "kafka": {name: _kafka(kafka) for name, kafka in topology.kafka.items()},
        "nodes": {name: _node(node) for name, node in topology.nodes.items()},
        "zones": {name: _zone(zone) for name, zone in topology.zones.items()},
    }
    by_ends = sorted(topology.limits.items(), key=lambda pair: sorted(pair[0]))
    limits = [
        *(_limit(ends, limit) for ends, limit in by_ends),
        *map(_endpoint_limit, topology.endpoint_limits),
    ]
    if limits:
        spec["limits"] = limits
    spec.update(controls_written(topology.interest))
    if topology.selectors:
        spec["selectors"] = written_selectors(topology.selectors)
    if topology.covering:
        spec["covering"] = True
    if topology.allows_drills:
        spec["drills"] = "allowed"
    if topology.queues:
        spec["queues"] = {name: _queue(queue) for name, queue in topology.queues.items()}
    if topology.role_pings != RolePings():
        pings = topology.role_pings
        spec["roles"] = {"pingEvery": _duration(pings.every_s), "pingsMissed": pings.missed_max}
    if topology.audit_kafka:
        wanted = {"canary": topology.audit_canary, "copies": topology.audit_copies}
        more = {name: True for name, is_wanted in wanted.items() if is_wanted}
        spec["audit"] = {"kafka": topology.audit_kafka, **more}
    return spec


def write_topology(topology: Topology, path: Path) -> None:
    """Write a topology file, as JSON, which is YAML too. Only its owner may read it."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(topology_document(topology), indent=2) + "\n", encoding="utf-8")


def _kafka(kafka: DeclaredKafka) -> Mapping[str, object]:
    return {"brokers": kafka.brokers, **kafka.options} if kafka.is_embedded else kafka.options


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it is a whole number, else in seconds."""
    milliseconds = round(seconds * 1000)
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    if 0 < milliseconds < 1_000:
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds, 1_000)
    return f"{whole}.{rest:03}s" if rest else f"{whole}s"


def _limit(ends: frozenset[str], limit: LinkLimit) -> Mapping[str, object]:
    written: dict[str, object] = {"link": sorted(ends)}
    if limit.bytes_per_s is not None:
        written["bytesPerSecond"] = limit.bytes_per_s
    if limit.outbox_bytes is not None:
        written["outboxBytes"] = limit.outbox_bytes
    if limit.outbox_age_s is not None:
        written["outboxAge"] = _duration(limit.outbox_age_s)
    if limit.is_of_outbox:
        written["whenFull"] = limit.when_full.value
    return written


def _endpoint_limit(limit: EndpointLimit) -> Mapping[str, object]:
    written: dict[str, object] = {"endpoint": limit.endpoint, "node": limit.node}
    if limit.size is not None:
        written["bytes"] = limit.size
    if limit.age_s is not None:
        written["age"] = _duration(limit.age_s)
    return {**written, "whenFull": limit.when_full.value}


def _queue(queue: Queue) -> Mapping[str, object]:
    written: dict[str, object] = {"policy": queue.policy.value}
    if queue.home is not None:
        written["home"] = queue.home
    if queue.max_deliveries is not None:
        written["maxDeliveries"] = queue.max_deliveries
    if queue.max_age_s is not None:
        written["maxAge"] = _duration(queue.max_age_s)
    return written


def _node(node: Node) -> Mapping[str, object]:
    written: dict[str, object] = {
        "kafka": node.kafka,
        "lanes": node.lanes,
        "partitions": node.partitions,
    }
    if node.realm is not None:
        written["realm"] = node.realm
    return written


def _zone(zone: Zone) -> Mapping[str, object]:
    written: dict[str, object] = {"kind": str(zone.kind)}
    if zone.title:
        written["title"] = zone.title
    if zone.exclusive:
        written["exclusive"] = True
    if zone.direct_only:
        written["directOnly"] = True
    if zone.join is not None:
        join = zone.join
        return {
            **written,
            "from": join.source,
            "to": join.target,
            "filter": join.filter,
            "hops": join.hops,
        }
    pairs = [link.ends for link in zone.links]
    is_full = pairs == list(combinations(zone.nodes, 2))
    if is_full and zone.kind.form is not ZoneForm.LINKS:
        written["nodes"] = list(zone.nodes)
    else:
        written["links"] = [list(pair) for pair in pairs]
    return written
