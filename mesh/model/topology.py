"""The topology as plain values: Kafka clusters, nodes, zones and links.

Built from a file by `mesh.config`; whether it is legal is judged by `mesh.core.legality`.
Spec: DESIGN 2, DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from typing import TypeVar, assert_never

from mesh.model.interest_controls import InterestControl
from mesh.model.joins import Join
from mesh.model.names import fold
from mesh.model.queues import Queue, QueuePolicy
from mesh.model.selectors import Selector, by_direction
from mesh.model.topics import TopicNames

MESSAGE_BYTES_DEFAULT = 900_000
"""With key and headers, uncompressed. Spec: K6."""

KEEP_DEFAULT_S = 3600.0
"""How long records stay after their reader has passed them. Spec: K5."""

QUARANTINE_AFTER_DEFAULT = 5

PARTITIONS_DEFAULT = 4
"""Of each data topic. Spec: K2."""


_Cluster = TypeVar("_Cluster")


class ZoneForm(StrEnum):
    """How people specify a zone's links."""

    NODES = "nodes"
    """By its nodes alone: each is linked to every other."""
    LINKS = "links"
    """By a list of its links alone."""
    EITHER = "either"
    """By its nodes or by its links."""
    ENDS = "ends"
    """By the two ends of its one link, which never change."""


class ZoneKind(StrEnum):
    """What the links of a zone do; the rules are in `mesh.core.forwarding`."""

    CLUSTER = "cluster"
    ONE_HOP = "one-hop"
    MULTI_HOP = "multi-hop"
    EXTERNAL = "external"
    JOIN = "join"

    @property
    def form(self) -> ZoneForm:
        """How people specify the links of such a zone."""
        match self:
            case ZoneKind.CLUSTER:
                return ZoneForm.NODES
            case ZoneKind.ONE_HOP | ZoneKind.MULTI_HOP:
                return ZoneForm.EITHER
            case ZoneKind.EXTERNAL:
                return ZoneForm.LINKS
            case ZoneKind.JOIN:
                return ZoneForm.ENDS
            case _:
                assert_never(self)

    @property
    def takes_links(self) -> bool:
        """Whether single links can be added to such a zone, and removed."""
        return self.form in (ZoneForm.LINKS, ZoneForm.EITHER)


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A relation between exactly two nodes, in exactly one zone.

    Attributes:
        zone: Name of the zone.
        ends: The two nodes, sorted.
    """

    zone: str
    ends: tuple[str, str]

    def __post_init__(self) -> None:
        if self.ends[0] >= self.ends[1]:
            raise ValueError(f"the ends of a link are two nodes in order, not {self.ends}")

    @classmethod
    def between(cls, zone: str, a: str, b: str) -> Link:
        """Return the link of two nodes given in any order."""
        return cls(zone, (a, b) if a < b else (b, a))

    def other(self, node: str) -> str:
        """Return the end that is not this node.

        Raises:
            ValueError: The node is not an end of the link.
        """
        first, second = self.ends
        if node == first:
            return second
        if node == second:
            return first
        raise ValueError(f"{node} is not an end of {self}")

    def __str__(self) -> str:
        """Return `a-b (zone)`, for people."""
        return f"{self.ends[0]}-{self.ends[1]} ({self.zone})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredKafka:
    """How to reach one Kafka installation.

    Attributes:
        name: Its name in the file; its identity is the `cluster.id` its brokers report.
        options: librdkafka options, with references to secrets unresolved; never printed.
        brokers: How many brokers to start when it is embedded.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    brokers: int = 1

    @property
    def is_embedded(self) -> bool:
        """Whether the mesh itself starts it, because no address is given."""
        return "bootstrap.servers" not in self.options


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One mesh worker identity.

    Attributes:
        name: Unique in the mesh, ignoring case.
        kafka: Name of its own Kafka cluster, the only one it writes to.
        realm: Locality group of the tree layer, or None.
        lanes: Units of ownership among its workers, fixed when it is created. Spec: K14.
        partitions: Of each of its data topics; a multiple of `lanes`. Spec: K2.
        is_member: Whether the topology has it; else it has left, or a change will add it.
    """

    name: str
    kafka: str
    realm: str | None = None
    lanes: int = 1
    partitions: int = PARTITIONS_DEFAULT
    is_member: bool = True

    @property
    def lane_partitions(self) -> int:
        """Partitions for the lanes' own records: two per lane, one for what is written beside it.

        Spec: K2, K20.
        """
        return 2 * self.lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A named set of links with one kind.

    Attributes:
        name: Identity.
        kind: What its links do.
        nodes: Members, sorted; a zone may be empty.
        links: Its links, sorted.
        title: Title shown to people; two zones may share one.
        exclusive: Whether its members may be in no other zone, apart from joins. Spec: UM-8.
        join: The join, if the zone is one; else None.
        direct_only: Whether guaranteed messages cross none of its links. Spec: DMR-11.
    """

    name: str
    kind: ZoneKind
    nodes: Sequence[str]
    links: Sequence[Link]
    title: str = ""
    exclusive: bool = False
    join: Join | None = None
    direct_only: bool = False

    @classmethod
    def full_mesh(
        cls,
        name: str,
        kind: ZoneKind,
        nodes: Sequence[str],
        *,
        title: str = "",
        exclusive: bool = False,
        direct_only: bool = False,
    ) -> Zone:
        """Return a zone in which every two nodes are linked."""
        members = sorted(nodes)
        links = [Link(name, pair) for pair in combinations(members, 2)]
        return cls(
            name=name,
            kind=kind,
            nodes=tuple(members),
            links=tuple(links),
            title=title,
            exclusive=exclusive,
            direct_only=direct_only,
        )

    @classmethod
    def of_links(
        cls,
        name: str,
        kind: ZoneKind,
        pairs: Sequence[tuple[str, str]],
        *,
        title: str = "",
        exclusive: bool = False,
    ) -> Zone:
        """Return a zone of exactly these links."""
        links = sorted(Link.between(name, a, b) for a, b in pairs)
        members = sorted({node: None for link in links for node in link.ends})
        return cls(
            name=name,
            kind=kind,
            nodes=tuple(members),
            links=tuple(links),
            title=title,
            exclusive=exclusive,
        )

    @classmethod
    def of_join(cls, join: Join, *, title: str = "") -> Zone:
        """Return the zone that represents a join."""
        link = Link.between(join.zone, join.source, join.target)
        return cls(
            name=join.zone,
            kind=ZoneKind.JOIN,
            nodes=link.ends,
            links=(link,),
            title=title,
            join=join,
        )


class WhenFull(StrEnum):
    """What a node does when a limit is reached: see docs/operations.md.

    Dead letters are only for endpoints: what waits for a neighbour is never given up.
    """

    REJECT = "reject"
    STOP = "stop"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimit:
    """What a link may carry and hold, in each direction; None means no limit.

    Attributes:
        bytes_per_s: Bytes of frames per second.
        outbox_bytes: Bytes of guaranteed frames that wait for the neighbour.
        outbox_age_s: How long the oldest of them may wait, in seconds.
        when_full: What happens beyond that.
    """

    bytes_per_s: int | None = None
    outbox_bytes: int | None = None
    outbox_age_s: float | None = None
    when_full: WhenFull = WhenFull.STOP

    @property
    def is_of_outbox(self) -> bool:
        """Whether it limits what waits."""
        return self.outbox_bytes is not None or self.outbox_age_s is not None

    @property
    def sizes(self) -> str:
        """Return what may wait, for people."""
        return _sizes(self.outbox_bytes, self.outbox_age_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePings:
    """When a link counts as down for roles on trees. Spec: tree_layer 12, K32.

    Attributes:
        every_s: How often each end pings, in seconds.
        missed_max: A link that was silent for this many pings is down.
    """

    every_s: float = 1.0
    missed_max: int = 10


ANY = "*"
"""Stands for every node, or every endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimit:
    """What a guaranteed endpoint may hold unread by its slowest group; None means no limit.

    Attributes:
        endpoint: Its name, in any case, or `*`.
        node: Its node, or `*`.
        size: Bytes of keys and values.
        age_s: How long the oldest may wait, in seconds.
        when_full: What happens beyond that.
        is_exact: Whether only what is older goes; else as much as makes room for a while.
    """

    endpoint: str
    node: str = ANY
    size: int | None = None
    age_s: float | None = None
    when_full: WhenFull = WhenFull.STOP
    is_exact: bool = False

    @property
    def sizes(self) -> str:
        """Return what may wait, for people."""
        return _sizes(self.size, self.age_s)


def _sizes(size: int | None, age_s: float | None) -> str:
    sizes = [] if size is None else [f"{size} bytes"]
    sizes += [] if age_s is None else [f"{age_s:g} s"]
    return " or ".join(sizes) + " may wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """One mesh: what its file says, checked for form but not yet judged.

    Attributes:
        name: Name of the mesh.
        kafka: Kafka clusters by name.
        nodes: Nodes by name.
        zones: Zones by name.
        prefix: Start of every topic name. Spec: kafka.md 1.
        max_message_bytes: Largest message with key and headers, uncompressed. Spec: K6.
        audit_kafka: Kafka cluster that the auditor writes to; empty only without any.
        audit_canary: Whether the auditor sends small messages that measure how long ways take.
        audit_copies: Whether it looks for copies that nobody behind a link wants.
        keep_s: How long records stay after their reader passed them, in seconds. Spec: K5.
        limits: Limits of links, by their two ends.
        endpoint_limits: Limits of endpoints; for each the most specific one applies.
        quarantine_after: How often a target refuses a record alone, for its content, before that
            is quarantined. Spec: R12.
        interest: Controls at nodes, sorted. Spec: EMS-11, UM-1.
        selectors: Conditions on directions of links, in the order of the file. Spec: EMS-14.
        covering: Whether a node offers no filter that another one it offers covers.
        queues: Declarations of queues, by name; others are as their subscriptions say.
        allows_drills: Whether faults may be planted for the auditor to find.
        role_pings: When a link counts as down for roles on trees.
        links: Every link, sorted by zone and ends. Two joins between the same nodes in opposite
            directions are one link, known by the first of their names.
        joins: By source and target.
        conditions: The selectors by source and target.
        waiting_limits: Limits of endpoints, with the ages of queues (see `maxAge`), by name as
            folded by `fold`, and node; of several the first one listed.
    """

    name: str
    kafka: Mapping[str, DeclaredKafka]
    nodes: Mapping[str, Node]
    zones: Mapping[str, Zone]
    prefix: str = "mesh."
    max_message_bytes: int = MESSAGE_BYTES_DEFAULT
    audit_kafka: str = ""
    audit_canary: bool = False
    audit_copies: bool = False
    keep_s: float = KEEP_DEFAULT_S
    limits: Mapping[frozenset[str], LinkLimit] = field(default_factory=dict)
    endpoint_limits: Sequence[EndpointLimit] = ()
    quarantine_after: int = QUARANTINE_AFTER_DEFAULT
    interest: tuple[InterestControl, ...] = ()
    selectors: Sequence[Selector] = ()
    covering: bool = False
    queues: Mapping[str, Queue] = field(default_factory=dict)
    allows_drills: bool = False
    role_pings: RolePings = field(default_factory=RolePings)
    links: Sequence[Link] = field(init=False, repr=False, compare=False)
    joins: Mapping[tuple[str, str], Join] = field(init=False, repr=False, compare=False)
    conditions: Mapping[tuple[str, str], Sequence[str]] = field(
        init=False, repr=False, compare=False
    )
    waiting_limits: Mapping[tuple[str, str], EndpointLimit] = field(
        init=False, repr=False, compare=False
    )
    _links_of: Mapping[str, Sequence[Link]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = [zone.join for zone in self.zones.values() if zone.join is not None]
        joins = {(join.source, join.target): join for join in found}
        links = sorted(
            link
            for zone in self.zones.values()
            for link in zone.links
            if zone.join is None or not _is_second(zone.join, joins)
        )
        by_node: dict[str, list[Link]] = {node: [] for node in self.nodes}
        for link in links:
            for node in link.ends:
                by_node[node].append(link)
        object.__setattr__(self, "links", tuple(links))
        object.__setattr__(self, "joins", joins)
        object.__setattr__(self, "conditions", by_direction(self.selectors))
        limits: dict[tuple[str, str], EndpointLimit] = {}
        for limit in (*self.endpoint_limits, *_ages(self.queues)):
            limits.setdefault((fold(limit.endpoint), limit.node), limit)
        object.__setattr__(self, "waiting_limits", limits)
        object.__setattr__(self, "_links_of", by_node)

    def links_of(self, node: str) -> Sequence[Link]:
        """Return the links that end at a node, sorted by zone and ends."""
        return self._links_of[node]

    @property
    def names(self) -> TopicNames:
        """Names of its topics, groups and transactions."""
        return TopicNames(self.prefix)

    def home_of(self, node: str, kafka: Mapping[str, _Cluster]) -> _Cluster:
        """Return the Kafka cluster of a node, of those given by name."""
        return kafka[self.nodes[node].kafka]

    def unsaid_policy(self, node: str) -> QueuePolicy:
        """Return the policy of a node's queue for which none is given. Spec: DESIGN 6, UM-7.

        In an exclusive zone queues are not forwarded unless that is requested.
        """
        is_exclusive = any(z.exclusive and node in z.nodes for z in self.zones.values())
        return QueuePolicy.LOCAL if is_exclusive else QueuePolicy.EVERY

    def neighbours(self, node: str) -> Sequence[str]:
        """Return the nodes linked to a node, sorted, each once."""
        return sorted({link.other(node): None for link in self.links_of(node)})

    def endpoint_limit(self, node: str, endpoint: str) -> EndpointLimit | None:
        """Return the limit of an endpoint: one for its own name precedes the node's."""
        if not self.waiting_limits:
            return None  # called for every delivery
        name = fold(endpoint)
        for key in ((name, node), (name, ANY), (ANY, node), (ANY, ANY)):
            if (limit := self.waiting_limits.get(key)) is not None:
                return limit
        return None

    def kind_of(self, link: Link) -> ZoneKind:
        """Return the kind of the zone that a link is in."""
        return self.zones[link.zone].kind

    def sends(self, source: str, target: str) -> bool:
        """Return whether messages go from a node to a neighbour: all links but joins are two-way.

        Spec: UM-5.
        """
        return (source, target) in self.joins or (target, source) not in self.joins

    def zone_over(self, link: Link, source: str) -> str:
        """Return the zone that messages of an end of a link are in once they have crossed it."""
        join = self.joins.get((source, link.other(source)))
        return link.zone if join is None else join.zone


def _is_second(join: Join, joins: Mapping[tuple[str, str], Join]) -> bool:
    """Return whether a join is the other direction of a link that is already named."""
    back = joins.get((join.target, join.source))
    return back is not None and back.zone < join.zone


def _ages(queues: Mapping[str, Queue]) -> Sequence[EndpointLimit]:
    """Return how long messages may wait in queues; a limit that names the queue replaces it."""
    return [
        EndpointLimit(
            endpoint=queue.name,
            age_s=queue.max_age_s,
            when_full=WhenFull.DEAD_LETTER,
            is_exact=True,
        )
        for queue in queues.values()
        if queue.max_age_s is not None
    ]


def without_options(topology: Topology) -> Topology:
    """Return the topology without addresses, logins or any other option of Kafka clusters."""
    kafka = {name: replace(one, options={}) for name, one in topology.kafka.items()}
    return replace(topology, kafka=kafka)


def with_addresses(topology: Topology, addresses: Mapping[str, str]) -> Topology:
    """Return the topology with `bootstrap.servers` set for these Kafka clusters."""
    kafka = {
        name: replace(one, options={**one.options, "bootstrap.servers": addresses[name]})
        if name in addresses
        else one
        for name, one in topology.kafka.items()
    }
    return replace(topology, kafka=kafka)
