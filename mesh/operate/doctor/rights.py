"""May this principal do what it must? Asked of the brokers, never tried on data. Spec: R15."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.core.rights import topics_read_of
from mesh.errors import TransportError
from mesh.operate.doctor.checks import SEE_KAFKA, Category, Check, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.transport.port import Rights

_LOOK = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "READ"})
_OWN = frozenset({"DESCRIBE", "READ", "WRITE"})
_NEIGHBOURS = frozenset({"DESCRIBE", "READ"})
_GROUP = frozenset({"DESCRIBE", "READ"})


def check_rights(at: Examination) -> Iterator[Check]:
    """Yield one check per node: the rights to look, or before a start those that a node needs.

    Brokers do not say what may be done with a transactional id.
    """
    for node in at.topology.nodes:
        wanted = _node_needs(at, node) if at.is_before_start else _look_needs(at, node)
        description = (
            f"node {node} may read and write what it must"
            if at.is_before_start
            else f"the topics of {node} may be looked at"
        )
        faults: list[str] = []
        topics: dict[str, None] = {}
        groups: dict[str, None] = {}
        try:
            for kafka, needs in wanted.items():
                faults += _lacking(at.rights(kafka), needs, kafka, "", topics)
            home = at.topology.nodes[node].kafka
            group = at.topology.names.lanes_group(node)
            if at.is_before_start:
                rights = at.group_rights(home)
                faults += _lacking(rights, {group: _GROUP}, home, "group ", groups)
        except TransportError:
            fault = first_of([*faults, "its Kafka cluster does not answer"])
            yield judged(Category.RIGHTS, description, fault, SEE_KAFKA)
            continue
        hint = _advice(at, node, topics, groups) if faults else ""
        yield judged(Category.RIGHTS, description, first_of(faults), hint)


def _lacking(
    found: Mapping[str, Rights],
    needs: Mapping[str, frozenset[str]],
    kafka: str,
    kind: str,
    missing: dict[str, None],
) -> Iterator[str]:
    """Yield what is refused or not allowed, in words; note the missing operations."""
    for name, operations in needs.items():
        rights = found.get(name)
        if rights is None:
            continue  # it does not exist: reported by the checks of topics
        lacking = sorted(operations - rights.operations) if rights.operations else []
        if rights.refusal:
            yield f"{kind}{name} on {kafka}: {rights.refusal}"
            missing |= dict.fromkeys(sorted(operations))
        elif lacking:
            yield f"{kind}{name} on {kafka}: no right to {', '.join(lacking)}"
            missing |= dict.fromkeys(lacking)


def _look_needs(at: Examination, node: str) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the operations of the doctor itself, by Kafka cluster and topic."""
    needs = {spec.name: _LOOK for spec in at.topics_of(node)}
    return {at.topology.nodes[node].kafka: needs}


def _node_needs(at: Examination, node: str) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the operations of a node: all on its own topics, reading its neighbours'. Spec: K1."""
    needs: dict[str, dict[str, frozenset[str]]] = {
        at.topology.nodes[node].kafka: {spec.name: _OWN for spec in at.topics_of(node)}
    }
    for link in at.topology.links_of(node):
        other = link.other(node)
        there = needs.setdefault(at.topology.nodes[other].kafka, {})
        there |= dict.fromkeys(topics_read_of(at.topology, node, other), _NEIGHBOURS)
    return needs


def _advice(
    at: Examination, node: str, topics: Mapping[str, None], groups: Mapping[str, None]
) -> str:
    """Return the commands that grant what is missing."""
    servers = at.servers(at.topology.nodes[node].kafka)
    prefix = at.topology.prefix
    command = f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:NAME"
    kinds = {"--topic": topics, "--group": groups}
    return "; ".join(
        f"{command} {_options(missing)} {kind} {prefix} --resource-pattern-type prefixed"
        for kind, missing in kinds.items()
        if missing
    )


def _options(operations: Mapping[str, None]) -> str:
    return " ".join(
        f"--operation {''.join(part.capitalize() for part in one.split('_'))}" for one in operations
    )
