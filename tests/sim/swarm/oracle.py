"""Small legal topologies, and what must happen on them, straight from the words of the spec."""

from __future__ import annotations

import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import node_topics
from mesh.transport.port import TopicSpec
from tests.sim.meshes import KINDS, Way, add_joins, chain_of, is_legal, naive_matches, naive_ways
from tests.sim.swarm.published import Message

POOL = 400
"""So many topologies there are of each kind."""
BRIEF_S = 1.0
"""How long what was read stays, where that is to end within a schedule."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """How a message that came by one path must be described by the last frame's header."""

    zone: str
    hops: int
    join_hops: int
    crossed_external: bool


@dataclass(slots=True)
class Oracle:
    """What may and must happen on one topology.

    Attributes:
        ways: Every legal path, origin first, with what the header on its last link says.
        way_to: (origin, node) -> the one way.
        behind: (origin, sender, reader) -> the nodes reached over that link without a join beyond.
        joins: (source, target) -> filter.
        readers: Topic -> nodes whose workers read it.
        outboxes, ingresses, endpoints_of: Topic -> who writes it (and for whom), and its class.
        specs: Kafka cluster -> the topics to make there.
    """

    topology: Topology
    ways: dict[tuple[str, ...], Arrived] = field(default_factory=dict)
    way_to: dict[tuple[str, str], Way] = field(default_factory=dict)
    behind: dict[tuple[str, str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    joins: dict[tuple[str, str], str] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    outboxes: dict[str, tuple[str, str, MessageClass]] = field(default_factory=dict)
    ingresses: dict[str, tuple[str, MessageClass]] = field(default_factory=dict)
    specs: dict[str, list[TopicSpec]] = field(default_factory=lambda: defaultdict(list))
    names: TopicNames = field(default_factory=TopicNames)

    def __post_init__(self) -> None:
        for zone in self.topology.zones.values():
            if zone.join is not None:
                self.joins[zone.join.source, zone.join.target] = zone.join.filter
        for origin in self.topology.nodes:
            for way in naive_ways(self.topology, origin):
                self._add_way(way)
        for node in self.topology.nodes:
            self._add_topics(node)

    def _add_way(self, way: Way) -> None:
        path, zone, hops, joins, crossed = way.nodes, "", 0, 0, False
        for number, (a, b) in enumerate(itertools.pairwise(path)):
            name = self.zone_from(a, b)
            hops = hops + 1 if name == zone else 1
            joins = joins + 1 if (a, b) in self.joins else 0
            zone = name
            crossed = crossed or self.topology.zones[zone].kind == "external"
            if not any(way.filters[number + 1 :]):
                self.behind[path[0], a, b].append(path[-1])
        self.ways[path] = Arrived(zone, hops, joins, crossed)
        self.way_to[path[0], path[-1]] = way

    def zone_from(self, a: str, b: str) -> str:
        """Return the one zone that leads from a node to another."""
        return next(
            name
            for name, zone in self.topology.zones.items()
            for link in zone.links
            if link.ends == (min(a, b), max(a, b)) and (zone.join is None or zone.join.source == a)
        )

    def lines(self) -> list[str]:
        """Return the topology as people read it."""
        topology = self.topology
        return [
            *(
                f"node {name}: kafka {node.kafka}, lanes {node.lanes}, partitions {node.partitions}"
                for name, node in topology.nodes.items()
            ),
            *(
                f"zone {name}: {zone.join or zone.kind} "
                f"{', '.join('-'.join(link.ends) for link in zone.links)}"
                for name, zone in topology.zones.items()
            ),
        ]

    def arrivals(self, path: tuple[str, ...]) -> Sequence[Arrived]:
        """Return what may be said of a message that came by a path; nothing if none may."""
        return [self.ways[path]] if path in self.ways else []

    def leads(self, message: Message, node: str) -> bool:
        """Return whether a message gets to another node if that wants it."""
        return self.reaches(message.node, message.subject, node)

    def reaches(self, origin: str, subject: str, node: str) -> bool:
        """Return whether what is published at one node gets to another one that wants it."""
        way = self.way_to.get((origin, node))
        return way is not None and all(
            not one or naive_matches(one, subject) for one in way.filters
        )

    def may_carry(self, message: Message, sender: str, reader: str, wanting: Iterable[str]) -> bool:
        """Return whether a message may be on a link, given who subscribed to it."""
        return self.may_cross(message.node, sender, reader, message.subject, wanting)

    def may_cross(
        self, origin: str, sender: str, reader: str, subject: str, wanting: Iterable[str]
    ) -> bool:
        """Return whether a message may be on a link, given who subscribed. Spec: UM-1, UM-5."""
        if (sender, reader) in self.joins:
            return naive_matches(self.joins[sender, reader], subject)
        wanting = {*wanting, *self.joined(subject)}
        return not wanting.isdisjoint(self.behind[origin, sender, reader])

    def joined(self, subject: str) -> list[str]:
        """Return the sources of joins that a subject passes."""
        return [node for (node, _), one in self.joins.items() if naive_matches(one, subject)]

    def _add_topics(self, node: str) -> None:
        names = self.names
        self.specs[self.topology.nodes[node].kafka] += node_topics(self.topology, node)
        self.readers[names.clients(node)].append(node)
        if self.topology.nodes[node].lanes > 1:
            self.readers[names.progress(node)].append(node)
        for message_class in MessageClass:
            ingress = names.ingress(node, message_class)
            self.ingresses[ingress] = (node, message_class)
            self.readers[ingress].append(node)
        for neighbour in self.topology.neighbours(node):
            self.readers[names.control(node)].append(neighbour)
            self.readers[names.to_control(node, neighbour)].append(neighbour)
            is_joined = (node, neighbour) in self.joins or (neighbour, node) in self.joins
            if is_joined and (node, neighbour) not in self.joins:
                continue
            for message_class in MessageClass:
                outbox = names.outbox(node, neighbour, message_class)
                self.outboxes[outbox] = (node, neighbour, message_class)
                self.readers[outbox].append(neighbour)

    def interest(self, wishes: Mapping[str, Sequence[str]], node: str) -> set[tuple[str, str]]:
        """Return the (filter, neighbour) pairs that a node must hold; "" for its own.

        Interest travels back exactly where messages may go, over joins addresses alone; a join is
        wanted at its source. Spec: DESIGN 3, UM-1.
        """
        all_ = {name: list(wishes.get(name, ())) for name in self.topology.nodes}
        for (source, _), filter_ in self.joins.items():
            all_[source].append(filter_)
        found = {(filter_, "") for filter_ in all_[node]}
        for other, filters in all_.items():
            way = self.way_to.get((node, other))
            if way is not None:
                found |= {
                    (filter_, way.nodes[1])
                    for filter_ in filters
                    if filter_.startswith("$node/") or not any(way.filters)
                }
        return found


@functools.lru_cache(maxsize=4 * POOL)
def oracle(
    number: int, *, joined: bool = False, limited: bool = False, brief: bool = False
) -> Oracle:
    """Return one of `POOL` legal topologies with at least one link, or of as many with joins.

    Args:
        number: Which.
        joined: Whether it has joins.
        limited: Whether links and endpoints have limits, and stuck records are put aside soon.
        brief: Whether what was read is deleted soon.
    """
    rng = random.Random(f"{'joined ' if joined else ''}topology {number}")
    while True:
        spec = _spec(rng)
        if joined:
            add_joins(rng, spec, count_max=3)
        try:
            topology = topology_from_mapping(spec)
        except ConfigError:
            continue
        if topology.links and is_legal(topology):
            topology = _limited(spec, topology) if limited else topology
            return Oracle(replace(topology, keep_s=BRIEF_S) if brief else topology)


def _limited(spec: Mapping[str, object], topology: Topology) -> Topology:
    """Return a topology with limits, drawn from what it is."""
    rng = random.Random(f"limits {sorted(topology.nodes.items())}")
    limits: list[dict[str, object]] = []
    for link in topology.links:
        if rng.random() < 0.3:
            when_full = rng.choice(["stop", "reject"])
            size = rng.choice([200, 1_000, 3_000])
            ends = list(link.ends)
            limits.append({"link": ends, "outboxBytes": size, "whenFull": when_full})
    for node, endpoint in itertools.product(sorted(topology.nodes), ("e0", "e1")):
        if rng.random() < 0.5:
            when_full = rng.choice(["stop", "reject", "dead-letter", "dead-letter"])
            bounds = rng.choice([{"bytes": 10}, {"bytes": 60}, {"age": "2s"}])
            limits.append({"endpoint": endpoint, "node": node, "whenFull": when_full, **bounds})
    return topology_from_mapping({**spec, "limits": limits, "quarantineAfter": rng.choice([2, 3])})


def _spec(rng: random.Random) -> dict[str, object]:
    kafka = [f"k{i}" for i in range(rng.choice([1, 1, 2, 3]))]
    names = [f"n{i}" for i in range(rng.choice([2, 2, 3, 3, 3, 4, 5]))]
    nodes = {}
    for name in names:
        lanes = rng.choice([1, 1, 2, 2, 3])
        partitions = lanes * rng.choice([1, 1, 2])
        nodes[name] = {"kafka": rng.choice(kafka), "lanes": lanes, "partitions": partitions}
    zones: dict[str, object] = {}
    pairs: set[tuple[str, str]] = set()
    for index in range(rng.randint(1, max(1, len(names) - 1))):
        kind = rng.choice(KINDS)
        chosen = rng.sample(names, rng.randint(2, min(4, len(names))))
        if kind == "cluster" or (kind == "one-hop" and rng.random() < 0.5):
            zones[f"Z{index}"] = {"kind": kind, "nodes": sorted(chosen)}
            continue
        if links := chain_of(chosen, pairs):
            zones[f"Z{index}"] = {"kind": kind, "links": links}
    return {"kafka": {name: {} for name in kafka}, "nodes": nodes, "zones": zones}
