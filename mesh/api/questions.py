"""What the commands explain, route, trace and plan answer, asked over HTTP: the same documents."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mesh.api.live import Still
from mesh.api.problems import wrong
from mesh.config.legal import legal_topology_of
from mesh.config.located import read_document
from mesh.config.shapes import nearest
from mesh.core.live_change_limits import unchangeable
from mesh.errors import ConfigError, Problem
from mesh.model.frames import MessageClass
from mesh.model.subject import subject_fault
from mesh.node.explanation import explain
from mesh.operate.documents.explanations import explanation_document, route_document
from mesh.operate.documents.messages import trace_document
from mesh.operate.knowledge import known_nodes
from mesh.operate.plan import lost_by
from mesh.operate.plan_file import plan_document
from mesh.operate.proposal import plan_on_mesh
from mesh.operate.trace import Tracer
from mesh.runtime.topics.provision import node_topics

PROPOSED = "proposed.yaml"
"""What problems call the file that was sent."""


def known_node(still: Still, node: str, where: str) -> str:
    """Return the name of a node that exists.

    Raises:
        ConfigError: No node is called that.
    """
    nodes = still.seen.topology.nodes
    if node not in nodes:
        hint = nearest(node, list(nodes))
        raise wrong(where, f"no node is called {node[:80]!r}{hint}", "UNKNOWN_NODE")
    return node


def known_link(still: Still, source: str, target: str) -> None:
    """Check that messages go from a node to a neighbour.

    Raises:
        ConfigError: They do not.
    """
    topology = still.seen.topology
    known_node(still, source, "source")
    known_node(still, target, "target")
    if target not in topology.neighbours(source) or not topology.sends(source, target):
        raise wrong("link", f"no link leads from {source} to {target}", "UNKNOWN_LINK")


def explained(
    still: Still, subject: str, source: str, message_class: MessageClass, headers: Sequence[str]
) -> dict[str, Any]:
    """Return who would get a message now, and why nobody else."""
    if (fault := subject_fault(subject)) is not None:
        raise wrong("subject", fault)
    seen = still.seen
    known_node(still, source, "from")
    given: dict[str, str] = {}
    for header in headers:
        name, equals, value = header.partition("=")
        if not (name and equals):
            raise wrong("header", f"{header[:80]!r} is no header; write NAME=VALUE")
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
    known_node(still, source, "from")
    known_node(still, target, "to")
    if source == target:
        raise wrong("to", f"{target} is where it starts: what is published there stays there")
    return route_document(still.seen.topology, source, target)


def traced(still: Still, message: str, last: int | None) -> dict[str, Any]:
    """Return what is found of one message."""
    seen = still.seen
    tracer = Tracer(seen.topology, seen.kafka, last)
    return trace_document(tracer.trace(tracer.find(message)))


def planned(still: Still, body: bytes, *, allow_delete: bool) -> Mapping[str, Any]:
    """Return what a topology file would change on the mesh; nothing is changed.

    Raises:
        ConfigError: The file is wrong or illegal, or a living mesh cannot follow it.
        TransportError: Kafka does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="mesh-plan-") as folder:
        file = Path(folder) / PROPOSED
        file.write_bytes(body)
        try:
            document = read_document(file)
            after = legal_topology_of(document)
        except ConfigError as error:
            raise ConfigError(_named(error, f"{folder}/")) from error
    seen = still.seen
    locate = document.within("spec").where
    if problems := list(unchangeable(seen.in_force.topology, after, locate)):
        raise ConfigError(_named(ConfigError(problems), f"{folder}/"))
    made = plan_on_mesh(seen.in_force, after, seen.view, _beats(still), seen.kafka, node_topics)
    if not allow_delete and (problems := list(lost_by(made.unread, locate))):
        raise ConfigError(_named(ConfigError(problems), f"{folder}/"))
    return plan_document(made, allow_delete=allow_delete)


def _named(error: ConfigError, folder: str) -> Sequence[Problem]:
    """Return problems that name the file as it was sent, and not where it lay for a moment."""
    return [
        replace(one, where=one.where.replace(folder, ""), message=one.message.replace(folder, ""))
        for one in error.problems
    ]
