"""The lists of the API: what a command prints of each thing, and beside it what only a watch knows.

Each function returns (key, item) pairs, sorted by their keys, for `mesh.api.lists.page_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mesh.api.live import Snapshot, rounded
from mesh.core.endpoints import forms_in_force
from mesh.model.queues import Attraction
from mesh.model.subject import overlap
from mesh.model.topology import Link
from mesh.operate.audit.latest import is_unsure
from mesh.operate.audit.past_subscriptions import ended_since
from mesh.operate.audit.trail import Said, Summed
from mesh.operate.documents.interest import interest_document
from mesh.operate.documents.links import links_document
from mesh.operate.documents.messages import letter_document
from mesh.operate.documents.queues import queues_document, queues_document_then
from mesh.operate.documents.status import status_document
from mesh.operate.documents.zones import ends_document, zone_document
from mesh.operate.interest.history import (
    HeldSubscription,
    interest_around,
    interest_then,
    subscriptions_now,
)
from mesh.operate.links.traffic import Flow
from mesh.operate.messages.dead_letters import check_queue, read_letters
from mesh.operate.minutes import MINUTE_MS
from mesh.transport.port import KafkaCluster

Items = Sequence[tuple[str, Mapping[str, Any]]]


def node_items(
    snapshot: Snapshot, at_ms: int | None, kafka: Mapping[str, KafkaCluster] | None = None
) -> Items:
    """Return every node; at a moment gone by only what is on record of that.

    Args:
        snapshot: The mesh.
        at_ms: The moment; None is now.
        kafka: Kafka clusters that are asked which endpoints lack their topic; all if left out.
    """
    seen = snapshot.seen
    asked = seen.kafka if kafka is None and at_ms is None else kafka or {}
    told = status_document(seen.asking(asked), seen.at_ms)
    found: list[tuple[str, Mapping[str, Any]]] = []
    for row in told["nodes"]:
        name = row["node"]
        x, y = snapshot.places.nodes.get(name, (0.0, 0.0))
        taken = snapshot.watch.traffic.taken.get(name)
        more: dict[str, Any] = {
            "place": {"x": x, "y": y},
            "published": _rates(snapshot, name, taken, at_ms),
        }
        if at_ms is not None:
            row = {
                "node": name,
                "kafka": row["kafka"],
                "state": snapshot.watch.history.at(name, at_ms),
            }
        else:
            more["since_ms"] = snapshot.watch.history.began_ms(name)
        found.append((name, {**row, **more}))
    return sorted(found, key=lambda pair: pair[0])


def link_items(
    snapshot: Snapshot, at_ms: int | None, kafka: Mapping[str, KafkaCluster] | None = None
) -> Items:
    """Return every direction of a link with its rates.

    Args:
        snapshot: The mesh.
        at_ms: A moment gone by; None is now.
        kafka: Kafka clusters that are asked how much waits there; all if left out.
    """
    seen = snapshot.seen
    asked = seen.kafka if kafka is None and at_ms is None else kafka or {}
    told = links_document(seen.asking(asked))
    found: list[tuple[str, Mapping[str, Any]]] = []
    for row in told["links"]:
        source, target = row["link"].split("->")
        more: dict[str, Any] = {"source": source, "target": target}
        if at_ms is not None:
            state = snapshot.watch.history.at(row["link"], at_ms)
            row = {key: row[key] for key in ("link", "zone", "kind")} | {"state": state}
            more |= crossed_then(snapshot, source, target, at_ms)
        else:
            flow = snapshot.watch.traffic.links.get((source, target))
            more["per_s"] = _rates(snapshot, source, flow, None)
            more["since_ms"] = snapshot.watch.history.began_ms(row["link"])
        found.append((row["link"], {**row, **more}))
    return sorted(found, key=lambda pair: pair[0])


def crossed_then(snapshot: Snapshot, source: str, target: str, at_ms: int) -> dict[str, Any]:
    """Return what crossed a link in the minute of a moment, or in its hour, as far as is known.

    What the auditor wrote of it; or else, without more than rates, what the ledgers told since
    this process looks at them.
    """
    home = snapshot.seen.topology.nodes[source].kafka
    told = snapshot.watch.trail.crossed.at(f"{source}->{target}", home, at_ms)
    if told is None:
        flow = snapshot.watch.traffic.links.get((source, target))
        rates = _rates(snapshot, source, flow, at_ms)
        return {"per_s": rates, "over_s": None if rates is None else 60, "crossed": None}
    counts = asdict(told)
    over_s = counts.pop("over_s")
    return {
        "per_s": {
            "guaranteed": rounded(told.guaranteed / over_s),
            "direct": rounded(told.direct / over_s),
        },
        "over_s": over_s,
        "crossed": counts,
    }


def zone_items(snapshot: Snapshot, at_ms: int | None) -> Items:
    """Return every zone with the states of its links: now, or then as far as it is on record."""
    seen, history = snapshot.seen, snapshot.watch.history

    def ends(link: Link) -> dict[str, Any]:
        if at_ms is None:
            return ends_document(seen, link)
        # A node tells of a link what it reads there: the direction that leads to it.
        states = {one: history.at(f"{link.other(one)}->{one}", at_ms) for one in link.ends}
        return {"link": list(link.ends), "states": states}

    return [
        (
            name,
            {**zone_document(seen.topology, zone), "states": [ends(link) for link in zone.links]},
        )
        for name, zone in sorted(seen.topology.zones.items())
    ]


def endpoint_items(snapshot: Snapshot, node: str = "", at_ms: int | None = None) -> Items:
    """Return every endpoint: its filters, its rate and its certificates; now or then.

    Of a moment gone by those that have ended since are there where the auditor wrote of them.
    """
    nodes = [name for name in snapshot.seen.topology.nodes if not node or name == node]
    said = _certificates_by_endpoint(snapshot, at_ms)
    summed = snapshot.watch.trail.summed if at_ms is None else {}
    ended = {} if at_ms is None else ended_then(snapshot, at_ms)
    found: dict[str, dict[str, Any]] = {}
    for name in nodes:
        held = {(one.endpoint, one.filter): one for one in _subscriptions(snapshot, name, at_ms)}
        for one in ended.get(name, ()):
            held.setdefault((one.endpoint, one.filter), one)  # what was changed since is in both
        forms = forms_in_force({key: one.subscription for key, one in held.items()})
        for one in held.values():
            full = f"{name}/{one.endpoint}"
            item = found.setdefault(
                full,
                {
                    "endpoint": full,
                    "node": name,
                    "name": one.endpoint,
                    "kind": str(forms[one.endpoint].kind),
                    "class": str(forms[one.endpoint].message_class),
                    "subscriptions": [],
                    "delivered": _rates(
                        snapshot,
                        name,
                        snapshot.watch.traffic.delivered.get((name, one.endpoint)),
                        at_ms,
                    ),
                    "certified": _certified(said.get(full, ()), summed.get(full)),
                },
            )
            item["subscriptions"].append(
                {
                    "filter": one.filter,
                    "since_ms": one.since_ms,
                    "noexport": one.subscription.noexport,
                }
            )
    return sorted(found.items(), key=lambda pair: pair[0])


def _certificates_by_endpoint(
    snapshot: Snapshot, at_ms: int | None
) -> Mapping[str, Sequence[Said]]:
    found: dict[str, list[Said]] = {}
    for said in list(snapshot.watch.trail.certificates.values()):
        if said.holds_at(at_ms):
            found.setdefault(str(said.entry.get("endpoint")), []).append(said)
    return found


def _certified(said: Sequence[Said], summed: Summed | None) -> dict[str, Any]:
    """Return how many certificates there are, and how many of them prove that all came."""
    before = summed or Summed()
    equal = [one for one in said if one.entry.get("equal") and not is_unsure(one.entry)]
    last_ms = max((one.last_ms for one in said), default=before.last_ms)
    return {
        "certificates": before.certificates + len(said),
        "equal": before.certificates + len(equal),
        "last_ms": last_ms or None,
    }


def queue_items(snapshot: Snapshot, at_ms: int | None) -> Items:
    """Return every queue; of a moment gone by who was a member, and for what."""
    seen = snapshot.seen
    if at_ms is None:
        told = queues_document(seen)
    else:
        pasts = interest_around(seen, list(seen.topology.nodes), at_ms)
        told = queues_document_then(seen.topology, pasts, ended_then(snapshot, at_ms))
    return sorted(((one["queue"], one) for one in told["queues"]), key=lambda pair: pair[0])


def letter_items(snapshot: Snapshot, node: str, queue: str, most: int, at_ms: int | None) -> Items:
    """Return the newest dead letters of a node; now, or those that were written by then."""
    topology = snapshot.seen.topology
    cluster = snapshot.seen.home_of(node)
    if queue:
        check_queue(topology, cluster, node, queue, "queue")
    found = [
        # Keys are texts: digits to one length, or the tenth would come before the second.
        (f"{one.place.topic} {one.place.partition:05} {one.offset:019}", letter_document(one))
        for one in read_letters(topology, cluster, node, most, queue=queue, at_ms=at_ms)
    ]
    return sorted(found, key=lambda pair: pair[0])


def interest_items(
    snapshot: Snapshot, filter_: str, node: str, at_ms: int | None
) -> tuple[Items, Sequence[str]]:
    """Return who wants what, of what overlaps with a filter or a subject; now or then.

    And the nodes, of those asked for and their neighbours, of which it is not known.
    """
    seen = snapshot.seen
    nodes = [node] if node else list(seen.topology.nodes)
    pasts = interest_around(seen, nodes, at_ms)
    told = interest_document(seen.topology, pasts, nodes, at_ms)
    found = []
    for row in told["interest"]:
        if not filter_ or overlap(attracting(row["filter"]), filter_):
            key = f"{row['node']} {row['by']} {row['who']} {row['zone']} {row['filter']}"
            found.append((key, row))
    return sorted(found, key=lambda pair: pair[0]), told["unknown"]


def attracting(entry: str) -> str:
    """Return the filter in an entry of interest, which may be of a queue."""
    attraction = Attraction.parse(entry)
    return entry if attraction is None else attraction.filter


def _subscriptions(snapshot: Snapshot, node: str, at_ms: int | None) -> Sequence[HeldSubscription]:
    seen = snapshot.seen
    if at_ms is None:
        return subscriptions_now(seen.view.nodes[node])
    if seen.view.is_unreachable(node):
        return ()  # said beside the list
    return interest_then(seen, node, at_ms).subscriptions


def ended_then(snapshot: Snapshot, at_ms: int) -> Mapping[str, Sequence[HeldSubscription]]:
    """Return, by node, the subscriptions of then that have ended since, as far as is known."""
    topology, kafka = (
        snapshot.seen.topology,
        snapshot.seen.kafka.get(snapshot.seen.topology.audit_kafka),
    )
    if kafka is None or topology.audit_kafka in snapshot.seen.faults:
        return {}  # said beside the list
    return ended_since(topology, kafka, at_ms)


def _rates(
    snapshot: Snapshot, node: str, flow: Flow | None, at_ms: int | None
) -> dict[str, Any] | None:
    """Return messages per second by class, as a node counts them.

    None if they are not on record, or its Kafka cluster does not answer now.
    """
    if at_ms is not None and not snapshot.watch.traffic.is_on_record(at_ms):
        return None
    if at_ms is None and snapshot.seen.topology.nodes[node].kafka in snapshot.seen.faults:
        return None
    if flow is None:
        return {"guaranteed": 0.0, "direct": 0.0}
    pair = flow.rates if at_ms is None else flow.of_minute(at_ms // MINUTE_MS)
    return {"guaranteed": rounded(pair[0]), "direct": rounded(pair[1])}
