"""Meshes whose control topics strangers spoil while nodes die and start: `python -m tests.sim.spoilt_starts`.

Withdrawals, old marks and acknowledgements played again, garbage in the place of what a node says,
records of other nodes, logs that are compacted, cut off or recreated; workers and nodes that die
and start in any order; links that are disabled and enabled. Then nobody troubles the mesh any more,
and all must be well within ten minutes: every node ready, every link up, every subscription known
everywhere, and each guaranteed message, whenever it was published, once at everybody who wanted it
from the start. A mark that is newer than its writer's is a forgery: only rights keep that out.
Spec: K16, K21, K23, K24, R12.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ProtocolError
from mesh.lab.world import World, worker_name
from mesh.model.control import Pause
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, Headers, Record, TopicPartition
from mesh.wire.control import decode_acknowledgement, decode_heartbeat, encode_pause
from mesh.wire.keys import DisableKey, disable_key, heartbeat_key, subscribed_key, subscription_key
from tests.sim.meshes import naive_copies

SETTLES_MS = 10 * 60_000
TROUBLES = 12
MULTI_HOP = {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}
SHAPES: Sequence[tuple[str, Mapping[str, object]]] = [
    ("abc", {"Z": MULTI_HOP}),
    (
        "abcd",
        {
            "T": {"kind": "one-hop", "nodes": ["a", "b", "c"]},
            "W": {"kind": "multi-hop", "links": [["c", "d"]]},
        },
    ),
    (
        "abcdef",
        {
            "K": {"kind": "cluster", "nodes": ["a", "b"]},
            "L": {"kind": "cluster", "nodes": ["c", "d"]},
            "M": {"kind": "cluster", "nodes": ["e", "f"]},
            "X": {"kind": "external", "links": [["b", "c"], ["d", "e"], ["f", "a"]]},
        },
    ),
    (
        "abcd",
        {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["c", "d"]]}}
        | {"J": {"kind": "join", "from": "b", "to": "c"}},
    ),
]
"""A chain, a zone with a branch, a ring of clusters with two gateways each, and a join."""


class SpoiltError(AssertionError):
    """What must not be, and the seed that shows it."""


@dataclass(slots=True)
class SpoiltMesh:
    """One mesh, and what befalls it.

    Attributes:
        seed: Decides everything.
        happened: What was done, for people.
        published: Node, subject and payload of each message.
        wishes: Filters of each node's endpoint, known everywhere before anything befalls it.
    """

    seed: int
    happened: list[str] = field(default_factory=list)
    published: list[tuple[str, str, bytes]] = field(default_factory=list)
    wishes: dict[str, list[str]] = field(default_factory=dict)
    topology: Topology = field(init=False)
    world: World = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    rng: random.Random = field(init=False)
    _disabled: dict[tuple[str, str], None] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)
    _static: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start a mesh, in which one node may have two lanes and two workers."""
        rng = self.rng = random.Random(self.seed)
        nodes, zones = rng.choice(SHAPES)
        wide = rng.choice(["", *nodes])
        spec: dict[str, object] = {
            "kafka": {"k": {}, "far": {}},
            "nodes": {
                name: {
                    "kafka": rng.choice(["k", "far"]),
                    "partitions": 2,
                    "lanes": 1 + (name == wide),
                }
                for name in nodes
            },
            "zones": zones,
            "covering": rng.random() < 0.4,
        }
        if rng.random() < 0.3:
            self._static.append((rng.choice(nodes), "y/>"))
            spec["interest"] = [{"node": node, "static": one} for node, one in self._static]
        self.topology = topology_from_mapping(spec)
        self.world = World(self.topology, self.seed)
        self.start(nodes)
        for node in nodes:
            for filter_ in [f"x/{node}/>", *["x/>"] * (rng.random() < 0.5)]:
                self.write(node, self.names.clients(node), b"{}", subscription_key("s", filter_))
                self.wishes.setdefault(node, []).append(filter_)
            self._asked[node] = self.kafka(node).topics[self.names.clients(node)].logs[0].end - 1
        self.run(12_000)
        self._demand(self.faults())

    # -- the mesh ---------------------------------------------------------------------------------

    def kafka(self, node: str) -> MemoryKafka:
        """Return the Kafka cluster of a node."""
        return self.world.kafka[self.topology.nodes[node].kafka]

    def run(self, ms: int) -> None:
        """Let so much time pass."""
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 10 * ms + 1_000)

    def start(self, nodes: Sequence[str]) -> None:
        """Start those workers of some nodes that do not run."""
        for node in nodes:
            for index in range(self.topology.nodes[node].lanes):
                if worker_name(node, index) not in self.world.workers:
                    self.world.start(node, index)

    def write(
        self, node: str, topic: str, value: bytes | None, key: bytes, headers: Headers = ()
    ) -> None:
        """Write a record into the Kafka cluster of a node."""
        writer = self.kafka(node).writer("stranger")
        writer.produce(topic, value, key, 0, headers=headers)
        assert writer.flush() == 0

    def read(self, node: str, topic: str) -> Sequence[Record]:
        """Return all that stands in a topic of a node."""
        reader, logs = self.kafka(node).reader("test"), self.kafka(node).topics[topic].logs
        reader.assign({TopicPartition(topic, log.partition): BEGINNING for log in logs})
        return reader.read(0, 1_000_000)

    def newest(self, node: str) -> dict[bytes, bytes | None]:
        """Return what a node's control topic says, by key."""
        records = self.read(node, self.names.control(node))
        return {record.key() or b"": record.value() for record in records}

    def publish(self) -> None:
        """Publish a guaranteed message somewhere."""
        node, at = self.rng.choice([*self.wishes]), self.rng.choice([*self.wishes])
        subject, payload = f"x/{at}/1", b"%d" % len(self.published)
        self.published.append((node, subject, payload))
        topic = self.names.ingress(node, MessageClass.GUARANTEED)
        self.write(node, topic, payload, b"k", [(SUBJECT_HEADER, subject.encode())])

    # -- what befalls it --------------------------------------------------------------------------

    def trouble(self) -> None:
        """Have something befall a node, then let some time pass."""
        rng, node = self.rng, self.rng.choice([*self.wishes])
        weights = {
            self.withdraw: 2, self.play_again: 2, self.garble: 2, self.copy: 1, self.misquote: 1,
            self.compact: 2, self.cut_off: 1, self.recreate: 0.3, self.kill: 3, self.kill_one: 1,
            self.kill_many: 1, self.start_all: 2, self.disable: 1, self.enable: 1,
        }  # fmt: skip
        [what] = rng.choices([*weights], [*weights.values()])
        self.happened.append(f"{self.world.clock.ms} {what.__name__} {node}")
        what(node)
        self.run(rng.choice([10, 100, 300, 1_000, 3_000, 8_000, 20_000]))
        if rng.random() < 0.4:
            self.publish()

    def withdraw(self, node: str) -> None:
        """Take back some of what a node offers, and repeat its marks."""
        for key, value in self._said(node, b"advert ", b"mark "):
            if key.startswith(b"mark ") or self.rng.random() < 0.8:
                at = None if key.startswith(b"advert ") else value
                self.write(node, self.names.control(node), at, key)

    def play_again(self, node: str) -> None:
        """Repeat old records, the marks last."""
        topic = self.names.control(node)
        records = [one for one in self.read(node, topic) if one.value() is not None]
        again = self.rng.sample(records, min(30, len(records)))
        for one in sorted(again, key=lambda one: (one.key() or b"").startswith(b"mark ")):
            self.write(node, topic, one.value(), one.key() or b"")

    def garble(self, node: str) -> None:
        """Write over what a node says of one kind."""
        kind = self.rng.choice([b"advert ", b"mark ", b"identity", b"links ", b"subscribed"])
        for key, _ in self._said(node, kind):
            value = self.rng.choice([None, b"", b"\x00\xff"])
            self.write(node, self.names.control(node), value, key)

    def copy(self, node: str) -> None:
        """Have a node say what another one offers."""
        for key, value in self._said(self.rng.choice([*self.wishes]), b"advert ", b"mark "):
            self.write(node, self.names.control(node), value, key)

    def misquote(self, node: str) -> None:
        """Repeat old words of a node to a neighbour, or write over them."""
        topic = self.names.to_control(node, self.rng.choice(self.topology.neighbours(node)))
        records = self.read(node, topic)
        for one in self.rng.sample(records, min(6, len(records))):
            value = self.rng.choice([one.value(), one.value(), None, b"\x07"])
            self.write(node, topic, value, one.key() or b"")

    def compact(self, node: str) -> None:
        """Keep the newest records alone."""
        self.kafka(node).compact(self.names.control(node))

    def cut_off(self, node: str) -> None:
        """Lose the newest records, as an unclean election does."""
        place = TopicPartition(self.names.control(node), 0)
        self.kafka(node).truncate(place, self.rng.randrange(1, 60))

    def recreate(self, node: str) -> None:
        """Delete the topic, and make it anew."""
        self.kafka(node).recreate(self.names.control(node))

    def kill(self, node: str) -> None:
        """Kill a node."""
        self.world.kill(node)

    def kill_one(self, node: str) -> None:
        """Kill one worker."""
        self.world.kill(node, self.rng.randrange(self.topology.nodes[node].lanes))

    def kill_many(self, _: str) -> None:
        """Kill most nodes."""
        for node in self.wishes:
            if self.rng.random() < 0.7:
                self.world.kill(node)

    def start_all(self, _: str) -> None:
        """Start whoever does not run."""
        self.start([*self.wishes])

    def disable(self, node: str) -> None:
        """Disable a link at both ends."""
        other = self.rng.choice(self.topology.neighbours(node))
        for ends in ((node, other), (other, node)):
            self._disabled[ends] = None
            key = disable_key(DisableKey(*ends))
            self.write(ends[0], self.names.config(), encode_pause(Pause()), key)

    def enable(self, _: str) -> None:
        """Enable all links."""
        for ends in self._disabled:
            self.write(ends[0], self.names.config(), None, disable_key(DisableKey(*ends)))
        self._disabled.clear()

    def _said(self, node: str, *begin: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        found = [(key, value) for key, value in self.newest(node).items() if key.startswith(begin)]
        yield from sorted(found)

    # -- judging ----------------------------------------------------------------------------------

    def judge(self) -> None:
        """Let nothing more befall it, and demand that all is well.

        Raises:
            SpoiltError: It is not.
        """
        self.enable("")
        self.start([*self.wishes])
        end = self.world.clock.ms + SETTLES_MS
        while list(self.faults()) and self.world.clock.ms < end:
            self.run(20_000)
        self._demand(self.faults())
        for _ in range(6):
            self.publish()
        self.run(20_000)
        self._demand(self.losses())

    def _demand(self, faults: Iterator[str]) -> None:
        if found := list(faults):
            raise SpoiltError(f"seed {self.seed}: {'; '.join(found[:5])}: {self.happened}")

    def faults(self) -> Iterator[str]:
        """Yield what is not as it should be by itself."""
        if self.world.troubles:
            yield f"{self.world.troubles} workers ended"
        for node in self.wishes:
            for index in range(self.topology.nodes[node].lanes):
                worker = self.world.workers[worker_name(node, index)]
                lanes = [] if worker.lanes is None else worker.lanes.owned.values()
                if not worker.is_ready or any(lane.following.is_learning for lane in lanes):
                    yield f"{worker_name(node, index)} does not serve"
            newest = self.newest(node)
            try:
                beat = decode_heartbeat(newest.get(heartbeat_key()) or b"")
                ack = decode_acknowledgement(newest.get(subscribed_key()) or b"")
            except ProtocolError as error:
                yield f"{node} says nothing of itself: {error}"
                continue
            for link in beat.links:
                if link.state != "up":
                    yield f"{node}-{link.neighbour} is {link.state}"
            if ack.complete < self._asked[node]:
                yield f"what {node} wants is not known everywhere: {ack.open_links}"

    def losses(self) -> Iterator[str]:
        """Yield what came to anybody otherwise than once, or never should have come."""
        wishes = {node: list(filters) for node, filters in self.wishes.items()}
        for node, filter_ in self._static:
            wishes[node].append(filter_)
        for node, asked in self.wishes.items():
            records = self.read(node, self.names.endpoint(node, "s"))
            came = Counter(record.value() for record in records)
            for source, subject, payload in self.published:
                reached = {source, *naive_copies(self.topology, source, subject, wishes)}
                wanted = any(subject.startswith(one.removesuffix(">")) for one in asked)
                if came[payload] != (node in reached and wanted):
                    yield f"{payload!r} of {source} came {came[payload]} times to {node}"


def trial(seed: int) -> SpoiltMesh:
    """Have a mesh troubled and judged.

    Raises:
        SpoiltError: It does not recover, or has lost something.
    """
    mesh = SpoiltMesh(seed)
    for _ in range(TROUBLES):
        mesh.trouble()
    mesh.judge()
    return mesh


def main() -> int:
    """Try one seed after the other."""
    parser = argparse.ArgumentParser(description="meshes with spoilt control topics")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first one")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    failed = 0
    for seed in range(given.seed, given.seed + given.trials):
        try:
            trial(seed)
        except SpoiltError as error:
            failed += 1
            sys.stderr.write(f"{error}\n")
    sys.stdout.write(f"{given.trials} trials, {failed} failed\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
