"""A simulated mesh whose nodes have files of their own, and what must become of its links."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.codec.keys import subscription_key
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.headers import SUBJECT_HEADER
from mesh.model.links import Gate
from mesh.model.topics import TopicNames
from mesh.model.topology import Link, Topology, Zone
from mesh.transport.port import BEGINNING, TopicPartition
from tests.sim.meshes import is_legal, naive_ways

SETTLE_MS = 20_000

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


def losers(files: Files, versions: Mapping[frozenset[str], int] | None = None) -> set[frozenset[str]]:
    """Return the links that must be refused: straight from the words of K27, by an oracle."""
    union = held_by_both(files)
    versions = versions or {}
    order = sorted(union.links, key=lambda one: (versions.get(frozenset(one.ends), 0), one))
    taken: list[Link] = []
    for link in order:
        if is_legal(only(union, [*taken, link])):
            taken.append(link)
    return {frozenset(link.ends) for link in union.links if link not in taken}


@dataclass
class ApartMesh:
    """Everybody wants everything; each message is its source and number."""

    files: dict[str, Topology]
    seed: int
    world: World = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    published: dict[bytes, str] = field(default_factory=dict)

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

    def run(self, ms: int) -> None:
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, ms + 1_000)

    def publish(self, node: str) -> None:
        value = f"{node} {len(self.published):05d}".encode()
        self.published[value] = node
        topic = self.names.ingress(node, MessageClass.GUARANTEED)
        self.write(node, topic, value, None, headers=[(SUBJECT_HEADER, b"a/b")])

    def gate(self, node: str, neighbour: str) -> Gate:
        machine = self.world.workers[node].machine
        assert machine is not None
        gate = machine.learner.neighbours[neighbour].gate
        return Gate.OPEN if gate is None else gate.state

    def reason(self, node: str, neighbour: str) -> str:
        machine = self.world.workers[node].machine
        assert machine is not None
        status = machine.learner.neighbours[neighbour].status(())
        return f"{status.state}: {status.reason}"

    def gates(self) -> Mapping[tuple[str, str], Gate]:
        return {
            (node, other): self.gate(node, other)
            for node in self.world.workers
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
        self.published.clear()
        for node in self.files:
            for _ in range(3):
                self.publish(node)
        self.run(5_000)
        reached = {
            node: {node, *(way.nodes[-1] for way in naive_ways(only(union, left), node))}
            for node in self.files
        }
        joined = bool(union.joins)
        for node in self.files:
            came = self.delivered(node)
            assert max(came.values(), default=0) == 1, (node, came)
            for value, source in self.published.items():
                # What is behind a join hears of nobody's wishes but its own.
                assert (node in reached[source]) or value not in came, (node, value)
                assert joined or (node in reached[source]) == (value in came), (node, value)

    def delivered(self, node: str) -> Counter[bytes]:
        cluster = self.world.kafka[self.kafka_of(node)]
        topic = self.names.endpoint(node, "s")
        reader = cluster.reader("test")
        count = len(cluster.topics[topic].logs)
        reader.assign({TopicPartition(topic, p): BEGINNING for p in range(count)})
        return Counter(record.value() or b"" for record in reader.read(0, 1_000_000))
