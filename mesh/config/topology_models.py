"""The shape of a Mesh file; what its values mean to each other is in `topology_rules`.

Spec: DESIGN 3.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from mesh.config.interest_controls import InterestSpec
from mesh.config.queues import QueueSpec
from mesh.config.selectors import SelectorSpec
from mesh.config.shapes import OneLine, StrictModel
from mesh.model.joins import JOIN_HOPS_DEFAULT, JOIN_HOPS_MAX
from mesh.model.names import NAME_PATTERN
from mesh.model.topology import (
    ANY,
    KEEP_DEFAULT_S,
    MESSAGE_BYTES_DEFAULT,
    QUARANTINE_AFTER_DEFAULT,
    RolePings,
)

MESSAGE_BYTES_MAX = 48_000_000
"""What the client library's queue to the brokers has room for, in the form of the largest record:
roles carry a message as text, which is a third longer."""
LANES_MAX = 64
PARTITIONS_MAX = 1024

_NAMED: dict[str, JsonValue] = {"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}}

KindName = Literal["cluster", "one-hop", "multi-hop", "external", "join"]
WhenFullName = Literal["reject", "stop", "dead-letter"]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class NodeSpec(StrictModel):
    """One mesh worker identity."""

    kafka: str | None = Field(None, description="Its Kafka cluster; the only one if left out.")
    realm: str | None = Field(None, description="Locality group of the tree layer.")
    lanes: int = Field(1, ge=1, le=LANES_MAX, description="Fixed when the node is created.")
    partitions: int | None = Field(
        None, ge=1, le=PARTITIONS_MAX, description="Of each data topic; a multiple of lanes."
    )


class ZoneSpec(StrictModel):
    """A named set of links with one kind."""

    kind: KindName
    nodes: list[str] | None = Field(None, description="Full mesh, links implied.")
    links: list[Pair] | None = Field(None, description="Links as listed.")
    title: OneLine = Field("", max_length=200, description="What people read.")
    exclusive: bool = Field(False, description="Its members are in no other zone, joins apart.")
    direct_only: bool = Field(
        False,
        alias="directOnly",
        description="Clusters only: guaranteed messages cross no link of it.",
    )
    from_: str | None = Field(None, alias="from", description="Joins: where messages come from.")
    to: str | None = Field(None, description="Joins: where they go.")
    filter: str | None = Field(None, description="Joins: which messages.")
    hops: int = Field(
        JOIN_HOPS_DEFAULT,
        ge=1,
        le=JOIN_HOPS_MAX,
        description="Joins only: how many further joins a message may cross in a row.",
    )


class LimitSpec(StrictModel):
    """What a link carries and holds at most, in each direction, or what an endpoint holds."""

    link: Pair | None = Field(None, description="The two nodes, in any order.")
    endpoint: str | None = Field(None, description="Name of an endpoint, or * for all.")
    node: str = Field(ANY, description="Of an endpoint: where it is, or * for everywhere.")
    size: int | None = Field(
        None, alias="bytes", ge=1, description="Bytes that the endpoint's slowest group lacks."
    )
    age: str | None = Field(None, description="How long the oldest of them may wait, as in 2h.")
    bytes_per_second: int | None = Field(
        None, alias="bytesPerSecond", ge=1, description="Bytes of frames that are read."
    )
    outbox_bytes: int | None = Field(
        None, alias="outboxBytes", ge=1, description="Guaranteed bytes that wait for the neighbour."
    )
    outbox_age: str | None = Field(
        None, alias="outboxAge", description="How long the oldest of them may wait, as in 2h."
    )
    when_full: WhenFullName | None = Field(
        None,
        alias="whenFull",
        description="reject: nothing more is taken from clients; stop: this link or endpoint alone "
        "waits; dead-letter: the oldest of the endpoint are given up.",
    )


class AuditSpec(StrictModel):
    """Where the auditor writes, and what it does beyond what it does for every mesh."""

    kafka: str | None = None
    canary: bool = Field(
        default=False,
        description="Send a small message each way of every link, and between zones, every 10 s.",
    )
    copies: bool = Field(
        default=False,
        description="Look for copies that nobody behind a link asks for; a fifth more work.",
    )


class RolesSpec(StrictModel):
    """When a link counts as down for roles on trees: after pingEvery times pingsMissed."""

    ping_every: str = Field(
        default=f"{RolePings().every_s:g}s",
        alias="pingEvery",
        description="How often each end tries the link, as in 500ms.",
    )
    pings_missed: int = Field(
        default=RolePings().missed_max,
        alias="pingsMissed",
        ge=1,
        le=1_000,
        description="For how many of these times it may be silent.",
    )


class MeshSpec(StrictModel):
    """One mesh."""

    prefix: str = Field("mesh.", description="Start of every topic name.")
    kafka: dict[str, dict[str, object] | None] = Field(
        description="librdkafka options; embedded Kafka without bootstrap.servers.",
        json_schema_extra=_NAMED,
    )
    nodes: dict[str, NodeSpec] = Field(json_schema_extra=_NAMED)
    zones: dict[str, ZoneSpec] = Field(default_factory=dict, json_schema_extra=_NAMED)
    max_message_bytes: int = Field(
        MESSAGE_BYTES_DEFAULT,
        alias="maxMessageBytes",
        ge=1,
        le=MESSAGE_BYTES_MAX,
        description="Largest message with key and headers, uncompressed.",
    )
    limits: list[LimitSpec] = Field(
        default_factory=list,
        description="Of links and endpoints; those that are not listed have none.",
    )
    interest: list[InterestSpec] = Field(
        default_factory=list, description="What nodes want of themselves, or keep to themselves."
    )
    quarantine_after: int = Field(
        QUARANTINE_AFTER_DEFAULT,
        alias="quarantineAfter",
        ge=1,
        le=1_000_000,
        description="How often a target refuses a record before that becomes a dead letter.",
    )
    selectors: list[SelectorSpec] = Field(
        default_factory=list, description="What messages must meet to leave on a link."
    )
    covering: bool = Field(
        False, description="Offer no filter that another one offered with it covers."
    )
    queues: dict[str, QueueSpec] = Field(
        default_factory=dict,
        description="Others are what their subscriptions say.",
        json_schema_extra=_NAMED,
    )
    audit: AuditSpec = Field(default_factory=AuditSpec)
    roles: RolesSpec = Field(default_factory=RolesSpec)
    drills: Literal["allowed", "refused"] = Field(
        "refused", description="Whether `mesh drill` may plant faults for the auditor to find."
    )
    keep: str = Field(
        f"{KEEP_DEFAULT_S / 3600:g}h",
        description="How long records stay after their reader has passed them, as in 1h.",
    )


class Metadata(StrictModel):
    """What the file is called."""

    name: OneLine = Field(min_length=1, max_length=200)


class MeshFile(StrictModel):
    """A topology file."""

    api_version: Literal["mesh/v1"] = Field(alias="apiVersion")
    kind: Literal["Mesh"]
    metadata: Metadata
    spec: MeshSpec
