"""Topology files, and topologies inside other files, as `Topology` values.

Spec: DESIGN 3, lab.md 1, lab.md 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mesh.config.interest_controls import controls_of
from mesh.config.kafka_options import option_text
from mesh.config.located import Document, Locate, dotted, read_document
from mesh.config.queues import queue_of
from mesh.config.scalars import duration_s
from mesh.config.selectors import selectors_of
from mesh.config.shapes import check_shape, shown
from mesh.config.topology_models import LimitSpec, MeshFile, MeshSpec, NodeSpec, RolesSpec, ZoneSpec
from mesh.config.topology_rules import spec_problems
from mesh.errors import ConfigError, Problem
from mesh.model.joins import ANYTHING, Join
from mesh.model.topology import (
    ANY,
    KEEP_DEFAULT_S,
    PARTITIONS_DEFAULT,
    DeclaredKafka,
    EndpointLimit,
    LinkLimit,
    Node,
    RolePings,
    Topology,
    WhenFull,
    Zone,
    ZoneKind,
)


def load_topology(path: str | Path) -> Topology:
    """Read a topology file. Its form is checked; whether it is legal, `judge` says.

    Raises:
        ConfigError: Something is wrong with the file; lists all problems, located.
    """
    return topology_of(read_document(path))


def topology_of(document: Document, *, is_in_force: bool = False) -> Topology:
    """Return the topology that a document describes.

    Args:
        document: A topology file, or what was published of one.
        is_in_force: See `spec_problems`.

    Raises:
        ConfigError: As for `load_topology`.
    """
    refuse_other_kinds(document)
    model, problems = check_shape(MeshFile, document.value, document.where)
    spec = document.within("spec")
    problems += spec_problems(spec.value, spec.where, is_in_force=is_in_force)
    if problems or model is None:
        raise ConfigError(_in_order(problems))
    return _built(model.spec, model.metadata.name)


def topology_from_mapping(spec: object, locate: Locate = dotted, *, name: str = "mesh") -> Topology:
    """Return the topology of a Mesh spec that stands in another file or nowhere.

    Args:
        spec: What would stand under `spec` in a topology file.
        locate: Place of a path below it, for problems; `Document.within(...).where` is one.
        name: Of the mesh.

    Raises:
        ConfigError: As for `load_topology`.
    """
    model, problems = check_shape(MeshSpec, spec, locate)
    problems += spec_problems(spec, locate)
    if problems or model is None:
        raise ConfigError(_in_order(problems))
    return _built(model, name)


def topology_schema() -> dict[str, object]:
    """Return the JSON Schema of topology files, for editors."""
    schema: dict[str, object] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema.update(MeshFile.model_json_schema(by_alias=True))
    return schema


def refuse_other_kinds(document: Document, wanted: str = "Mesh") -> None:
    """Refuse a file of another kind for that alone: what else it says is no fault of it.

    Raises:
        ConfigError: It says that it is of another kind.
    """
    kind = document.within("kind").value
    if isinstance(kind, str) and kind != wanted:
        message = f"must be {wanted}; got {shown(kind)}{_USES.get(kind, '')}"
        raise ConfigError(
            [Problem(code="WRONG_VALUE", message=message, where=document.where(("kind",)))]
        )


_USES = {
    "Scenario": "; mesh lab run runs scenarios",
    "Mesh": "; mesh validate, plan and up take topologies",
    "Plan": "; mesh apply puts plans in force",
}


def _in_order(problems: list[Problem]) -> list[Problem]:
    """Return problems by place in the file, as people read it."""

    def place(problem: Problem) -> tuple[int, int]:
        parts = problem.where.split(": ")[0].rsplit(":", 2)
        if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
            return int(parts[1]), int(parts[2])
        return 0, 0

    return sorted(problems, key=place)


def _built(spec: MeshSpec, name: str) -> Topology:
    kafka = {key: _kafka_cluster(key, value or {}) for key, value in spec.kafka.items()}
    default = next(iter(kafka), "")
    keep_s = duration_s(spec.keep)
    return Topology(
        name=name,
        kafka=kafka,
        nodes={key: _node(key, node, default) for key, node in spec.nodes.items()},
        zones={key: _zone(key, zone) for key, zone in spec.zones.items()},
        prefix=spec.prefix,
        max_message_bytes=spec.max_message_bytes,
        audit_kafka=spec.audit.kafka or default,
        audit_canary=spec.audit.canary,
        audit_copies=spec.audit.copies,
        limits={frozenset(one.link): _limit(one) for one in spec.limits if one.link},
        endpoint_limits=[_endpoint_limit(one) for one in spec.limits if one.endpoint],
        quarantine_after=spec.quarantine_after,
        interest=controls_of(spec.interest),
        selectors=selectors_of(spec.selectors),
        covering=spec.covering,
        allows_drills=spec.drills == "allowed",
        role_pings=_role_pings(spec.roles),
        queues={key: queue_of(key, queue) for key, queue in spec.queues.items()},
        keep_s=KEEP_DEFAULT_S if keep_s is None else keep_s,
    )


def _role_pings(roles: RolesSpec) -> RolePings:
    every_s = duration_s(roles.ping_every)
    return RolePings(
        every_s=RolePings().every_s if every_s is None else every_s, missed_max=roles.pings_missed
    )


def _limit(limit: LimitSpec) -> LinkLimit:
    return LinkLimit(
        bytes_per_s=limit.bytes_per_second,
        outbox_bytes=limit.outbox_bytes,
        outbox_age_s=None if limit.outbox_age is None else duration_s(limit.outbox_age),
        when_full=WhenFull(limit.when_full or WhenFull.STOP),
    )


def _endpoint_limit(limit: LimitSpec) -> EndpointLimit:
    return EndpointLimit(
        endpoint=limit.endpoint or ANY,
        node=limit.node,
        size=limit.size,
        age_s=None if limit.age is None else duration_s(limit.age),
        when_full=WhenFull(limit.when_full or WhenFull.STOP),
    )


def _kafka_cluster(name: str, options: Mapping[str, object]) -> DeclaredKafka:
    brokers = options.get("brokers", 1)
    return DeclaredKafka(
        name=name,
        options={key: option_text(value) for key, value in options.items() if key != "brokers"},
        brokers=brokers if isinstance(brokers, int) else 1,
    )


def _node(name: str, node: NodeSpec, default_kafka: str) -> Node:
    lanes = node.lanes
    partitions = node.partitions or -(-PARTITIONS_DEFAULT // lanes) * lanes
    return Node(
        name=name,
        kafka=node.kafka or default_kafka,
        realm=node.realm,
        lanes=lanes,
        partitions=partitions,
    )


def _zone(name: str, zone: ZoneSpec) -> Zone:
    kind = ZoneKind(zone.kind)
    if zone.from_ is not None and zone.to is not None:
        filter_ = ANYTHING if zone.filter is None else zone.filter
        join = Join(zone=name, source=zone.from_, target=zone.to, filter=filter_, hops=zone.hops)
        return Zone.of_join(join, title=zone.title)
    if zone.links is None:
        nodes = zone.nodes or ()
        return Zone.full_mesh(
            name,
            kind,
            nodes,
            title=zone.title,
            exclusive=zone.exclusive,
            direct_only=zone.direct_only,
        )
    pairs = [(pair[0], pair[1]) for pair in zone.links]
    return Zone.of_links(name, kind, pairs, title=zone.title, exclusive=zone.exclusive)
