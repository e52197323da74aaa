"""What the commands explain, route, trace and plan answer, asked over HTTP: the same documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mesh.api.details import in_force_since
from mesh.api.items import attracting, ended_then
from mesh.api.live import Snapshot
from mesh.config.legal import legal_topology_of
from mesh.config.located import parse_document
from mesh.config.nearest import check_node
from mesh.errors import wrong_input
from mesh.model.frames import MessageClass
from mesh.model.subject import overlap, subject_fault
from mesh.node.explanation import KnownNode, explain
from mesh.operate.changes.plan import refuse_loss
from mesh.operate.changes.plan_file import plan_document
from mesh.operate.changes.proposal import plan_on_mesh
from mesh.operate.documents.explanations import explanation_document, route_document
from mesh.operate.documents.messages import trace_document
from mesh.operate.interest.history import interest_around
from mesh.operate.interest.knowledge import known_nodes, known_then
from mesh.operate.messages.trace import Tracer
from mesh.operate.messages.trace_as_of import trace_as_of

PROPOSED = "proposed.yaml"
"""What problems call the file that was sent."""


def check_link(snapshot: Snapshot, source: str, target: str) -> None:
    """Check that messages go from a node to a neighbour.

    Raises:
        ConfigError: They do not.
    """
    topology = snapshot.seen.topology
    check_node(topology, source, "source")
    check_node(topology, target, "target")
    if target not in topology.neighbours(source) or not topology.sends(source, target):
        text = f"no link leads from {source} to {target}"
        raise wrong_input("link", text, code="UNKNOWN_LINK")


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of which somebody asks where it goes.

    Attributes:
        subject, source, message_class: What is published where.
        headers: The client's own, each as NAME=VALUE.
    """

    subject: str
    source: str
    message_class: MessageClass
    headers: Sequence[str] = ()


def explained(snapshot: Snapshot, asked: Asked, at_ms: int | None) -> dict[str, Any]:
    """Return who would get a message now, or would have then, and why nobody else.

    Of a moment gone by it is told beside that whether states of nodes and links are on record
    (without them all are taken for up), and of which nodes endpoints that have ended since are not
    (`ends_unknown`): that nothing there wanted it is no more than not known then.

    Raises:
        ConfigError: The message is none, or what it takes is not on record of that moment.
    """
    if (fault := subject_fault(asked.subject)) is not None:
        raise wrong_input("subject", fault)
    seen = snapshot.seen
    check_node(seen.topology, asked.source, "from")
    given: dict[str, str] = {}
    for header in asked.headers:
        name, equals, value = header.partition("=")
        if not (name and equals):
            raise wrong_input("header", f"{header[:80]!r} is not a header; write NAME=VALUE")
        given.setdefault(name, value)
    _check_in_force(snapshot, at_ms)
    known = known_nodes(seen) if at_ms is None else _known_then(snapshot, asked.subject, at_ms)
    about = (asked.subject, asked.source, asked.message_class, given)
    told = explain(seen.topology, known, *about)
    unknown = [node for node in seen.topology.nodes if seen.view.is_unreachable(node)]
    document = explanation_document(told, unknown)
    if at_ms is None:
        return document
    since_ms = snapshot.watch.history.since_ms
    has_states = since_ms is not None and at_ms >= since_ms
    crossed, nodes = snapshot.watch.trail.crossed, seen.topology.nodes
    is_deaf = seen.topology.audit_kafka in seen.faults  # what has ended stands there alone
    unseen = [
        node for node, one in nodes.items() if is_deaf or not crossed.is_read(one.kafka, at_ms)
    ]
    for one in document["not_reached"]:
        if one["node"] in unseen and not one["wants"]:
            one["wants"] = None
    return {**document, "at_ms": at_ms, "has_states": has_states, "ends_unknown": unseen}


def _known_then(snapshot: Snapshot, subject: str, at_ms: int) -> Mapping[str, KnownNode]:
    seen = snapshot.seen
    pasts = interest_around(seen, list(seen.topology.nodes), at_ms)
    for node, past in pasts.items():
        if any(
            one.interest is None and overlap(attracting(one.filter), subject) for one in past.offers
        ):
            text = f"what {node} wanted of it then is no longer on record"
            raise wrong_input("at", text, code="NOT_ON_RECORD")
    states = partial(snapshot.watch.history.at, at_ms=at_ms)
    return known_then(seen, pasts, ended_then(snapshot, at_ms), states)


def _check_in_force(snapshot: Snapshot, at_ms: int | None) -> None:
    """Refuse a moment before the topology in force: ways of a former one are not on record."""
    since_ms = in_force_since(snapshot)
    if at_ms is not None and since_ms is not None and at_ms < since_ms:
        since = datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"the topology in force is of {since}: ways of before that are not on record"
        raise wrong_input("at", text, code="NOT_ON_RECORD")


def routed(snapshot: Snapshot, source: str, target: str, at_ms: int | None) -> dict[str, Any]:
    """Return the way from one node to another, or why there is none; now or then."""
    check_node(snapshot.seen.topology, source, "from")
    check_node(snapshot.seen.topology, target, "to")
    if source == target:
        raise wrong_input("to", f"{target} is where it starts: what is published there stays there")
    _check_in_force(snapshot, at_ms)
    return route_document(snapshot.seen.topology, source, target)


def traced(snapshot: Snapshot, message: str, last: int | None, at_ms: int | None) -> dict[str, Any]:
    """Return what is found of one message; of a moment gone by what was written by then."""
    seen = snapshot.seen
    tracer = Tracer(seen.topology, seen.kafka, last)
    found = tracer.trace(tracer.find(message))
    if at_ms is None:
        return trace_document(found)
    return {**trace_document(trace_as_of(found, at_ms)), "at_ms": at_ms}


def planned(snapshot: Snapshot, body: bytes, *, allow_delete: bool) -> Mapping[str, Any]:
    """Return what a topology file would change on the mesh; nothing is changed.

    Raises:
        ConfigError: The file is wrong or illegal, or a running mesh cannot follow it.
        TransportError: Kafka does not answer.
    """
    seen = snapshot.seen
    document = parse_document(body, PROPOSED)
    after = legal_topology_of(document, lambda: seen.in_force.topology)
    locate = document.within("spec").where
    made = plan_on_mesh(seen, seen.in_force, after, locate)
    if not allow_delete:
        refuse_loss(made.unread, locate)
    return plan_document(made, allow_delete=allow_delete)
