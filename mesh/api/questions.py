"""What the commands explain, route, trace and plan answer, asked over HTTP: the same documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesh.api.live import Still
from mesh.config.legal import legal_topology_of
from mesh.config.located import parse_document
from mesh.config.nearest import check_node
from mesh.core.live_change_limits import refuse_unchangeable
from mesh.errors import wrong_input
from mesh.model.frames import MessageClass
from mesh.model.subject import subject_fault
from mesh.node.explanation import explain
from mesh.operate.documents.explanations import explanation_document, route_document
from mesh.operate.documents.messages import trace_document
from mesh.operate.knowledge import known_nodes
from mesh.operate.plan import refuse_loss
from mesh.operate.plan_file import plan_document
from mesh.operate.proposal import plan_on_mesh
from mesh.operate.trace import Tracer
from mesh.worker.topics.provision import node_topics

PROPOSED = "proposed.yaml"
"""What problems call the file that was sent."""


def check_link(still: Still, source: str, target: str) -> None:
    """Check that messages go from a node to a neighbour.

    Raises:
        ConfigError: They do not.
    """
    topology = still.seen.topology
    check_node(topology, source, "source")
    check_node(topology, target, "target")
    if target not in topology.neighbours(source) or not topology.sends(source, target):
        text = f"no link leads from {source} to {target}"
        raise wrong_input("link", text, code="UNKNOWN_LINK")


def explained(
    still: Still, subject: str, source: str, message_class: MessageClass, headers: Sequence[str]
) -> dict[str, Any]:
    """Return who would get a message now, and why nobody else."""
    if (fault := subject_fault(subject)) is not None:
        raise wrong_input("subject", fault)
    seen = still.seen
    check_node(still.seen.topology, source, "from")
    given: dict[str, str] = {}
    for header in headers:
        name, equals, value = header.partition("=")
        if not (name and equals):
            raise wrong_input("header", f"{header[:80]!r} is no header; write NAME=VALUE")
        given.setdefault(name, value)
    known = {
        node: one
        for node, one in known_nodes(seen.view, _beats(still)).items()
        if node in seen.topology.nodes
    }
    told = explain(seen.topology, known, subject, source, message_class, given)
    unknown = [node for node in seen.topology.nodes if seen.view.is_unreachable(node)]
    return explanation_document(told, unknown)


def _beats(still: Still) -> Mapping[str, bool]:
    """Return who is up, nodes of former topologies being down."""
    seen = still.seen
    return {node: seen.beats.get(node, False) for node in seen.view.nodes}


def routed(still: Still, source: str, target: str) -> dict[str, Any]:
    """Return the way from one node to another, or why there is none."""
    check_node(still.seen.topology, source, "from")
    check_node(still.seen.topology, target, "to")
    if source == target:
        raise wrong_input("to", f"{target} is where it starts: what is published there stays there")
    return route_document(still.seen.topology, source, target)


def traced(still: Still, message: str, last: int | None) -> dict[str, Any]:
    """Return what is found of one message."""
    seen = still.seen
    tracer = Tracer(seen.topology, seen.kafka, last)
    return trace_document(tracer.trace(tracer.find(message)))


def planned(still: Still, body: bytes, *, allow_delete: bool) -> Mapping[str, Any]:
    """Return what a topology file would change on the mesh; nothing is changed.

    Raises:
        ConfigError: The file is wrong or illegal, or a running mesh cannot follow it.
        TransportError: Kafka does not answer.
    """
    document = parse_document(body, PROPOSED)
    after = legal_topology_of(document)
    seen = still.seen
    locate = document.within("spec").where
    refuse_unchangeable(seen.in_force.topology, after, locate)
    made = plan_on_mesh(seen.in_force, after, seen.view, _beats(still), seen.kafka, node_topics)
    if not allow_delete:
        refuse_loss(made.unread, locate)
    return plan_document(made, allow_delete=allow_delete)
