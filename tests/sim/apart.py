"""A simulated mesh whose nodes have files of their own, and what must become of its links."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.joins import Join
from mesh.model.links import Gate
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Link, Topology, Zone, ZoneKind
from mesh.transport.port import BEGINNING, Record, TopicPartition
from mesh.wire.keys import subscription_key
from tests.sim.meshes import is_legal, naive_ways, random_legal_topology

SETTLE_MS = 60_000

Files = Mapping[str, Topology]


def held_by_both(files: Files) -> Topology:
    """Return the links that both ends have in their files, and agree on."""
    first = next(iter(files.values()))
    nodes = {name: files[name].nodes[name] for name in files}
    zones: dict[str, Zone] = {}
    for name, file in files.items():
        for link in file.links_of(name):
            other = link.other(name)
            if other not in files:
                continue
            if _facts(file, link) != _facts_between(files[other], name, other):
                continue
            for zone in _zones_of(file, link):
                known = zones.get(zone.name, replace(zone, links=(), nodes=()))
                links = sorted({*known.links, Link.between(zone.name, *link.ends)})
                ends = sorted({end for one in links for end in one.ends})
                zones[zone.name] = replace(known, links=tuple(links), nodes=tuple(ends))
    return replace(first, nodes=nodes, zones=zones, limits={})


def _zones_of(file: Topology, link: Link) -> Sequence[Zone]:
    joins = [j for j in file.joins.values() if {j.source, j.target} == set(link.ends)]
    return [file.zones[j.zone] for j in joins] or [file.zones[link.zone]]


def _facts(file: Topology, link: Link) -> object:
    return sorted((z.name, z.kind, repr(z.join)) for z in _zones_of(file, link))


def _facts_between(file: Topology, a: str, b: str) -> object:
    found = [link for link in file.links_of(b) if link.other(b) == a]
    return _facts(file, found[0]) if found else None


def only(union: Topology, links: Sequence[Link]) -> Topology:
    """Return a topology with exactly these of its links."""
    pairs = {link.ends for link in links}
    zones = {}
    for name, zone in union.zones.items():
        left = tuple(link for link in zone.links if link.ends in pairs)
        if left:
            zones[name] = replace(zone, links=left)
    return replace(union, zones=zones)


def losers(
    files: Files, versions: Mapping[frozenset[str], int] | None = None
) -> set[frozenset[str]]:
    """Return the links that must be refused: straight from the words of K27, by an oracle."""
    union = held_by_both(files)
    versions = versions or {}
    order = sorted(union.links, key=lambda one: (versions.get(frozenset(one.ends), 0), one))
    taken: list[Link] = []
    for link in order:
        if is_legal(only(union, [*taken, link])):
            taken.append(link)
    return {frozenset(link.ends) for link in union.links if link not in taken}


def links(kind: str, *pairs: str) -> dict[str, object]:
    """Pairs of one-letter names, or of names with a dash between."""
    ends = [pair.split("-") if "-" in pair else list(pair) for pair in pairs]
    return {"kind": kind, "links": ends}


def multi_hop(*pairs: str) -> dict[str, object]:
    return links("multi-hop", *pairs)


def one_hop(*pairs: str) -> dict[str, object]:
    return links("one-hop", *pairs)


def file(nodes: str, **zones: object) -> Topology:
    declared = {name: {"kafka": f"k{name}"} for name in nodes}
    kafka = {f"k{name}": {} for name in nodes}
    return topology_from_mapping({"kafka": kafka, "nodes": declared, "zones": zones})


def with_lanes(topology: Topology, lanes: int) -> Topology:
    nodes = {name: replace(node, lanes=lanes) for name, node in topology.nodes.items()}
    return replace(topology, nodes=nodes)


@dataclass
class ApartMesh:
    """Everybody wants everything; each message is its source and number."""

    files: dict[str, Topology]
    seed: int
    world: World = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    published: dict[bytes, str] = field(default_factory=dict)
    opened: set[tuple[str, str]] = field(default_factory=set)
    displaced: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        first = next(iter(self.files.values()))
        self.world = World(first, self.seed, apart=self.files)

    def start(self, *nodes: str, gap_ms: int = 0) -> None:
        for node in nodes:
            self.world.start(node)
            key = subscription_key("s", ">")
            self.write(node, self.names.clients(node), b"{}", key)
            self.run(gap_ms)

    def kafka_of(self, node: str) -> str:
        return self.files[node].nodes[node].kafka

    def write(self, node: str, topic: str, value: bytes, key: bytes | None, **more: object) -> None:
        writer = self.world.kafka[self.kafka_of(node)].writer("client")
        writer.produce(topic, value, key, **{"partition": 0, **more})
        assert writer.flush() == 0

    def run(self, ms: int, *, load: bool = False) -> None:
        """Let time pass; under load every node publishes every 100 ms."""
        end = self.world.clock.ms + ms
        while self.world.clock.ms < end:
            step = min(end, self.world.clock.ms + 100) if load else end
            self.world.run_until(lambda step=step: self.world.clock.ms >= step, ms + 1_000)
            for node in sorted({name.partition("#")[0] for name in self.world.workers}):
                if load:
                    self.publish(node)
            self._look()

    def _look(self) -> None:
        """Take note of links that carried data and were then refused: their walks have moved."""
        for name, worker in self.world.workers.items():
            machine, node = worker.machine, name.partition("#")[0]
            own = machine.probing.records.get(machine.uuid) if machine is not None else None
            for gate in own.gates if own is not None else ():
                pair = (node, gate.neighbour)
                if gate.state is Gate.OPEN:
                    self.opened.add(pair)
                elif pair in self.opened:
                    self.displaced.add(pair)

    def restart(self, node: str, file: Topology | None = None, *, after_ms: int = 0) -> None:
        """Kill a node and start it again, perhaps with another file."""
        self.world.kill(node)
        self.run(after_ms, load=True)
        if file is not None:
            self.files[node] = file
        self.world.start(node)

    def publish(self, node: str) -> None:
        value = f"{node} {len(self.published):05d}".encode()
        self.published[value] = node
        topic = self.names.ingress(node, MessageClass.GUARANTEED)
        self.write(node, topic, value, node.encode(), headers=[(SUBJECT_HEADER, b"a/b")])

    def gate(self, node: str, neighbour: str) -> Gate:
        machine = self.world.workers[node].machine
        assert machine is not None
        known = machine.learner.neighbours.get(neighbour)
        if known is None:
            return Gate.PROBING  # it is about to follow a change
        return Gate.OPEN if known.gate is None else known.gate.state

    def reason(self, node: str, neighbour: str) -> str:
        machine = self.world.workers[node].machine
        assert machine is not None
        status = machine.learner.neighbours[neighbour].status(())
        return f"{status.state}: {status.reason}"

    def gates(self) -> Mapping[tuple[str, str], Gate]:
        return {
            (node, other): self.gate(node, other)
            for node in self.files
            if node in self.world.workers
            for other in self.files[node].neighbours(node)
        }

    def refused(self) -> set[frozenset[str]]:
        """Return what is refused, which must be so at both ends, with the same reason."""
        found = {pair for pair, gate in self.gates().items() if gate is Gate.REFUSED}
        for a, b in found:
            assert (b, a) in found, (a, b)
            assert self.reason(a, b) == self.reason(b, a)
        return {frozenset(pair) for pair in found}

    def is_decided(self) -> bool:
        """Whether no link is probed any more."""
        machines = [worker.machine for worker in self.world.workers.values()]
        return (
            all(machine is not None and machine.is_ready for machine in machines)
            and Gate.PROBING not in self.gates().values()
        )

    def settle(self) -> None:
        """Wait until nothing is probed, and has not been for a while."""
        for _ in range(20):
            is_decided = self.world.run_until(self.is_decided, SETTLE_MS)
            assert is_decided, {
                pair: self.reason(*pair) for pair, gate in self.gates().items() if gate != Gate.OPEN
            }
            before = self.gates()
            self.run(3_000)
            if before == self.gates():
                return
        raise AssertionError("the gates turn for ever")

    def assert_settled(self, versions: Mapping[frozenset[str], int] | None = None) -> None:
        """Exactly the losers are refused, and what is published now comes once wherever it may."""
        wanted = losers(self.files, versions)
        assert self.refused() == wanted, (self.refused(), wanted)
        union = held_by_both(self.files)
        left = [link for link in union.links if frozenset(link.ends) not in wanted]
        before = dict(self.published)
        for node in self.files:
            for _ in range(3):
                self.publish(node)
        self.run(5_000)
        reached = {
            node: {node, *(way.nodes[-1] for way in naive_ways(only(union, left), node))}
            for node in self.files
        }
        joined = bool(union.joins)
        if not (joined and self.displaced):
            # What waited on a join for a node that was never up came another way meanwhile.
            self.assert_nothing_twice()
        for node in self.files:
            came = self.delivered(node)
            for value, source in self.published.items():
                if value in before:
                    continue
                assert came[value] <= 1, (node, value)
                # What is behind a join hears of nobody's wishes but its own.
                assert (node in reached[source]) or value not in came, (node, value)
                assert joined or (node in reached[source]) == (value in came), (node, value)

    def assert_nothing_twice(self) -> None:
        """Whatever went on: nobody has any message twice."""
        for node in self.files:
            twice = [value for value, count in self.delivered(node).items() if count > 1]
            assert not twice, (node, twice)

    def assert_in_order(self) -> None:
        """What one node published under one key comes in that order, as far as it comes."""
        for node in self.files:
            for source in self.files:
                begin = source.encode() + b" "
                came = [one for one in self._received(node) if one.startswith(begin)]
                assert came == sorted(came), (node, source)

    def delivered(self, node: str) -> Counter[bytes]:
        return Counter(self._received(node))

    def _received(self, node: str) -> Sequence[bytes]:
        records = self.read(self.kafka_of(node), self.names.endpoint(node, "s"))
        return [record.value() or b"" for record in records]

    def reached(self, node: str) -> set[str]:
        """Return the nodes that a walk over links that are open at both ends leads to."""
        union, gates = held_by_both(self.files), self.gates()
        is_open = [
            link
            for link in union.links
            if gates.get(link.ends) is gates.get(link.ends[::-1]) is Gate.OPEN
        ]
        return {node, *(way.nodes[-1] for way in naive_ways(only(union, is_open), node))}

    def read(self, kafka: str, topic: str) -> Sequence[Record]:
        cluster = self.world.kafka[kafka]
        reader = cluster.reader("test")
        count = len(cluster.topics[topic].logs)
        reader.assign({TopicPartition(topic, p): BEGINNING for p in range(count)})
        return reader.read(0, 1_000_000)


def random_apart(
    rng: random.Random, *, nodes_max: int = 12, extras_max: int = 4, joins: bool = True
) -> dict[str, Topology]:
    """Return files of which each is legal: one for all, and links known to two nodes only.

    Who knows of such a link does not know some of the others: else its file would show the loop.
    """
    kinds = ["multi-hop", "one-hop", "external", *(["join"] if joins else [])]
    while True:
        base = random_legal_topology(rng, nodes_max=nodes_max)
        if len(base.nodes) < 3:
            continue
        files = dict.fromkeys(base.nodes, base)
        linked = {link.ends for link in base.links}
        free = [p for p in itertools.combinations(sorted(base.nodes), 2) if p not in linked]
        rng.shuffle(free)
        for index, (a, b) in enumerate(free[: rng.randint(1, extras_max)]):
            zone = _extra_zone(rng, kinds, f"X{index}", (a, b), base)
            if all(_with_extra(files[node], node, zone) is not None for node in (a, b)):
                for node in (a, b):
                    file = _with_extra(files[node], node, zone)
                    assert file is not None
                    files[node] = file
        if any(file is not base for file in files.values()):
            return files


def _extra_zone(
    rng: random.Random, kinds: Sequence[str], name: str, ends: tuple[str, str], base: Topology
) -> Zone:
    """Return a zone of one more link, or an old one to which it belongs."""
    kind = rng.choice(kinds)
    if kind == "join":
        source, target = rng.sample(ends, 2)
        return Zone.of_join(Join(zone=name, source=source, target=target))
    listed = [z for z in base.zones.values() if z.kind in ("multi-hop", "one-hop")]
    if listed and rng.random() < 0.5:
        zone = rng.choice(listed)
        return Zone.of_links(zone.name, zone.kind, [ends])
    return Zone.of_links(name, ZoneKind(kind), [ends])


def _with_extra(file: Topology, node: str, extra: Zone) -> Topology | None:
    """Return a node's own links and one more, if that is legal; what is farther it does not know."""
    own = {link.ends for link in file.links_of(node)}
    zones = {}
    for name, zone in file.zones.items():
        left = tuple(link for link in zone.links if link.ends in own)
        if left:
            zones[name] = replace(zone, links=left)
    known = zones.get(extra.name, replace(extra, links=()))
    zones[extra.name] = replace(known, links=tuple(sorted({*known.links, *extra.links})))
    for name, zone in zones.items():
        ends = sorted({end for link in zone.links for end in link.ends})
        zones[name] = replace(zone, nodes=tuple(ends))
    found = replace(file, zones=zones)
    return found if is_legal(found) else None
