"""A simulated mesh under load whose topology is changed by writing the records by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.config.published import published_text
from mesh.core.lineage import first_lineage, lineage_after
from mesh.lab.world import World
from mesh.model.control import Change, Lineage, Stage
from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Node, Topology
from mesh.transport.port import BEGINNING, Reader, Record, TopicPartition
from mesh.wire.control import decode_heartbeat, encode_change, encode_config
from mesh.wire.keys import change_key, config_key, heartbeat_key, subscription_key
from mesh.wire.state import decode_fact
from tests.sim.meshes import naive_copies

LIMIT_MS = 60_000
READ_MS = 300
"""So long after it was published a message is routed at the latest, if nothing is held."""

SUBJECTS = ("a/b", "b/a")


def on_nodes(topology: Topology, nodes: Mapping[str, Node], kafka: Topology) -> Topology:
    """The links of a topology between these nodes, whatever it says of Kafka clusters."""
    return replace(topology, nodes=nodes, kafka=kafka.kafka, limits={})


@dataclass
class ChangedMesh:
    """Everybody wants everything; each message is its source and number."""

    topology: Topology
    seed: int
    workers: int = 1
    kills: float = 0.0
    world: World = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    number: int = 0
    lineage: Lineage = field(init=False)
    in_force: int = 0
    published: dict[str, list[tuple[bytes, str, int, int]]] = field(default_factory=dict)
    seen_ms: dict[tuple[str, bytes], int] = field(default_factory=dict)
    watched: Sequence[str] = ()
    killed_at_switch: Sequence[str] = ()
    readers: dict[str, Reader] = field(default_factory=dict)
    changes: list[tuple[int, int, Topology]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.lineage = first_lineage(self.topology)
        self.world = World(self.topology, self.seed)
        for node in self.topology.nodes:
            self.start(node)
        self.run(8_000)

    def start(self, node: str) -> None:
        """Start a node's workers, with everything wanted there."""
        for index in range(self.workers):
            self.world.start(node, index)
        self.write(node, self.names.clients(node), b"{}", subscription_key("s", ">"))

    def kafka_of(self, node: str) -> str:
        return self.world.topology.nodes[node].kafka

    def write(self, node: str, topic: str, value: bytes, key: bytes | None, **more: object) -> None:
        writer = self.world.kafka[self.kafka_of(node)].writer("client")
        writer.produce(topic, value, key, **{"partition": 0, **more})
        assert writer.flush() == 0

    def read(self, kafka: str, topic: str) -> Sequence[Record]:
        cluster = self.world.kafka[kafka]
        if topic not in cluster.topics:
            return []
        reader = cluster.reader("test")
        partitions = range(len(cluster.topics[topic].logs))
        reader.assign({TopicPartition(topic, p): BEGINNING for p in partitions})
        return reader.read(0, 1_000_000)

    def run(self, ms: int, *, load: bool = False) -> None:
        end = self.world.clock.ms + ms
        while self.world.clock.ms < end:
            if load:
                for node in self.topology.nodes:
                    self.publish(node)
                if self.rng.random() < self.kills:
                    self.kill_one()
            step = min(end, self.world.clock.ms + 50)
            self.world.run_until(lambda step=step: self.world.clock.ms >= step, 10_000)
            self._look()

    def _look(self) -> None:
        for node in self.watched:
            if node not in self.readers:
                topic = self.names.endpoint(node, "s")
                self.readers[node] = self.world.kafka[self.kafka_of(node)].reader("watch")
                places = {TopicPartition(topic, partition): BEGINNING for partition in range(4)}
                self.readers[node].assign(places)
            for record in self.readers[node].read(0, 1_000):
                self.seen_ms.setdefault((node, record.value() or b""), self.world.clock.ms)

    def kill_one(self) -> None:
        """Kill a worker of any node, and start it anew at once, with the file it ever had."""
        name = self.rng.choice(sorted(self.world.workers))
        node, _, index = name.partition("#")
        self.world.kill(node, int(index or 0))
        self.world.start(node, int(index or 0))

    def publish(self, node: str) -> None:
        sent = self.published.setdefault(node, [])
        value = f"{node} {len(sent):05d}".encode()
        subject, partition = self.rng.choice(SUBJECTS), self.rng.randrange(4)
        sent.append((value, subject, self.world.clock.ms, partition))
        headers = [(SUBJECT_HEADER, subject.encode())]
        topic = self.names.ingress(node, MessageClass.GUARANTEED)
        self.write(node, topic, value, None, partition=partition, headers=headers)

    # -- what a coordinator does ----------------------------------------------------------

    def say(self, stage: Stage, target: Topology, holding: Sequence[str] = ()) -> None:
        """Write a stage to every Kafka cluster."""
        lineage = lineage_after(self.lineage, self.topology, self.in_force, target, self.number)
        change = Change(self.number, stage, published_text(target), tuple(holding), lineage)
        for cluster in self.world.kafka.values():
            if self.names.config() not in cluster.topics:
                continue  # no node is there
            writer = cluster.writer("operator")
            if stage is Stage.RUN:
                config = encode_config(self.number, change.topology, lineage)
                writer.produce(self.names.config(), config, config_key(), 0)
            writer.produce(self.names.config(), encode_change(change), change_key(), 0)
            assert writer.flush() == 0

    def status(self, node: str) -> tuple[int, Stage, bool] | None:
        """What a node's newest heartbeat says of the change."""
        records = self.read(self.kafka_of(node), self.names.control(node))
        beats = [record.value() for record in records if record.key() == heartbeat_key()]
        change = decode_heartbeat(beats[-1]).change if beats else None
        return None if change is None else (change.number, change.stage, change.is_done)

    def stops(self, node: str) -> Sequence[bytes]:
        """The sources that a node calls stopped."""
        told: dict[bytes, bytes | None] = {}
        for record in self.read(self.kafka_of(node), self.names.control(node)):
            if (key := record.key() or b"").startswith(b"stop "):
                told[key] = record.value()
        return [key for key, value in told.items() if value is not None]

    def is_done(self, stage: Stage) -> bool:
        wanted = (self.number, stage, True)
        return all(self.status(node) == wanted for node in self.topology.nodes)

    def await_done(self, stage: Stage, *, load: bool = True) -> None:
        deadline = self.world.clock.ms + LIMIT_MS
        while not self.is_done(stage):
            told = {node: self.status(node) for node in self.topology.nodes}
            assert self.world.clock.ms < deadline, (stage, told)
            self.run(200, load=load)

    def is_drained(self) -> bool:
        """Whether every outbox has been read to its end."""
        read: dict[str, dict[tuple[str, int], int]] = {}
        for node in self.topology.nodes:
            known = read.setdefault(node, {})
            for record in self.read(self.kafka_of(node), self.names.progress(node)):
                if record.value() is None:
                    continue  # of a target that is no more
                fact = decode_fact(record.value() or b"")
                if isinstance(fact, SourceAt):
                    known[fact.at.topic, fact.at.partition] = fact.next
        for link in self.topology.links:
            for sender, receiver in (link.ends, link.ends[::-1]):
                topic = self.names.outbox(sender, receiver, MessageClass.GUARANTEED)
                for record in self.read(self.kafka_of(sender), topic):
                    if read[receiver].get((topic, record.partition()), 0) <= record.offset():
                        return False
        return True

    def await_drained(self, *, load: bool = True) -> None:
        deadline = self.world.clock.ms + LIMIT_MS
        while not self.is_drained():
            assert self.world.clock.ms < deadline
            self.run(200, load=load)

    def change_to(
        self,
        target: Topology,
        holding: Sequence[str],
        before_run: Callable[[], None] = lambda: None,
    ) -> None:
        """Hold, drain, switch, run, under load."""
        began, before = self.world.clock.ms, self.topology
        self.number += 1
        self.say(Stage.HOLD, target, holding)
        self.await_done(Stage.HOLD)
        self.await_drained()
        self.say(Stage.SWITCH, target, holding)
        for node in self.killed_at_switch:
            self.world.kill(node)  # it has not read it yet
            self.world.start(node)
        self.await_done(Stage.SWITCH)
        before_run()
        self.say(Stage.RUN, target)
        self.lineage = lineage_after(self.lineage, before, self.in_force, target, self.number)
        self.topology, self.in_force = target, self.number
        self.await_done(Stage.RUN)
        self.changes.append((began, self.world.clock.ms, before))

    # -- what must have happened ----------------------------------------------------------

    def delivered(self, node: str) -> Sequence[Record]:
        return self.read(self.kafka_of(node), self.names.endpoint(node, "s"))

    def settle(self) -> None:
        """Wait until nothing is on its way."""
        for _ in range(5):
            self.run(1_500)
            self.await_drained(load=False)

    def assert_exact(self) -> None:
        """Each message came once to all that it reached when it was routed, in order."""
        assert all(self.published.values())
        found = {node: Counter(r.value() for r in self.delivered(node)) for node in self.published}
        wishes = {node: [">"] for node in self.published}
        reaches: dict[tuple[int, str, str], set[str]] = {}
        for source, sent in self.published.items():
            for value, subject, at_ms, _ in sent:
                got = {node for node, counts in found.items() if counts[value]}
                doubled = [node for node, counts in found.items() if counts[value] > 1]
                assert not doubled, (value, doubled)
                allowed = []
                for index, (first_ms, last_ms, topology) in enumerate(self._eras()):
                    if not first_ms <= at_ms <= last_ms:
                        continue
                    key = (index, source, subject)
                    if key not in reaches:
                        copies = naive_copies(topology, source, subject, wishes)
                        reaches[key] = {source, *copies}
                    allowed.append(reaches[key])
                assert got in allowed, (value, at_ms, got, allowed)
        for node in self.published:
            self.assert_in_order(node)

    def _eras(self) -> Sequence[tuple[int, int, Topology]]:
        """Return when messages may have been published that were routed by each topology."""
        starts = [0, *(began - READ_MS for began, _, _ in self.changes)]
        ends = [*(ended for _, ended, _ in self.changes), 1 << 60]
        topologies = [*(before for _, _, before in self.changes), self.topology]
        return list(zip(starts, ends, topologies, strict=True))

    def assert_in_order(self, node: str) -> None:
        partition_of = {
            value: partition for sent in self.published.values() for value, _, _, partition in sent
        }
        newest: dict[tuple[str, int, int], bytes] = {}
        for record in self.delivered(node):
            value = record.value() or b""
            key = (value.decode().split()[0], partition_of[value], record.partition())
            assert newest.get(key, b"") < value, (node, newest.get(key), value)
            newest[key] = value
