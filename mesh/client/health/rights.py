"""May this principal do what it must? Asked of the brokers, never tried on data. Spec: R15."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.client.health.examination import Examination
from mesh.client.health.findings import SEE_KAFKA, Category, Check, first_of, judged
from mesh.core.rights import topics_read_of
from mesh.errors import TransportError
from mesh.model.topics import TopicNames

_LOOK = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "READ"})
_OWN = frozenset({"DESCRIBE", "READ", "WRITE"})
_NEIGHBOURS = frozenset({"DESCRIBE", "READ"})


def check_rights(at: Examination) -> Iterator[Check]:
    """Yield one check per node: the rights to look, or before a start those that a node needs."""
    for node in at.topology.nodes:
        wanted = _node_needs(at, node) if at.is_before_start else _look_needs(at, node)
        description = (
            f"node {node} may read and write what it must"
            if at.is_before_start
            else f"the topics of {node} may be looked at"
        )
        faults: list[str] = []
        missing: dict[str, None] = {}
        hint = ""
        for kafka, needs in wanted.items():
            try:
                found = at.rights(kafka)
            except TransportError:
                faults.append("its Kafka cluster does not answer")
                hint = SEE_KAFKA
                continue
            for topic, operations in needs.items():
                rights = found.get(topic)
                if rights is None:
                    continue  # it does not exist: told by the checks of topics
                lacking = sorted(operations - rights.operations) if rights.operations else []
                if rights.refusal:
                    faults.append(f"{topic} on {kafka}: {rights.refusal}")
                    missing |= dict.fromkeys(sorted(operations))
                elif lacking:
                    faults.append(f"{topic} on {kafka}: no right to {', '.join(lacking)}")
                    missing |= dict.fromkeys(lacking)
        yield judged(
            Category.RIGHTS, description, first_of(faults), hint or _advice(at, node, missing)
        )


def _look_needs(at: Examination, node: str) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return what the doctor itself does, by Kafka cluster and topic."""
    needs = {spec.name: _LOOK for spec in at.topics_of(node)}
    return {at.topology.nodes[node].kafka: needs}


def _node_needs(at: Examination, node: str) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return what a node does: all on its own topics, reading of its neighbours'. Spec: K1."""
    names = TopicNames(at.topology.prefix)
    needs: dict[str, dict[str, frozenset[str]]] = {
        at.topology.nodes[node].kafka: {spec.name: _OWN for spec in at.topics_of(node)}
    }
    for link in at.topology.links_of(node):
        other = link.other(node)
        there = needs.setdefault(at.topology.nodes[other].kafka, {})
        there |= dict.fromkeys(topics_read_of(names, node, other), _NEIGHBOURS)
    return needs


def _advice(at: Examination, node: str, missing: Mapping[str, None]) -> str:
    words = " ".join(
        f"--operation {''.join(part.capitalize() for part in one.split('_'))}" for one in missing
    )
    servers = at.servers(at.topology.nodes[node].kafka)
    return (
        f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:NAME {words} "
        f"--topic {at.topology.prefix} --resource-pattern-type prefixed"
    )
