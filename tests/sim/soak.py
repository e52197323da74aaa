"""`python -m tests.sim.soak [--days 10] [--left-days 7]`: days of churn, and nothing is left of it.

Subscriptions, queues with consumers, leases, a target that refuses records, and nodes with their
links come and go, under names that never come again, while one node of the mesh is down for good
and a worker begins anew. The one whose links come and go runs on.
What workers hold in memory, the topics, the keys of compacted topics and the largest control record
must end where they were after the first hours. Brokers compact and delete meanwhile as real ones
do, and topics of endpoints that are gone are deleted, as an operator does.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.client.consuming import QueueConsumer
from mesh.config.topology_file import topology_from_mapping
from mesh.lab import world
from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply
from mesh.lab.tally import Tally
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node import queues
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import PartitionLog
from mesh.transport.port import Record
from mesh.view.mesh_view import MeshView
from mesh.wire.keys import subscription_key

NODES = "abcde"
DEAD = "d"
HOST = "e"
"""Whose links come and go. No walk leads from there to the node that is down: a change that ends
walks waits for all whose they are."""

GUEST_ROUNDS = 6
"""In so many rounds a node comes, and goes again."""

ROUND_MS = 30_000
HOUR_MS = 3_600_000
AT_LAST = 20
"""So many rounds are looked at: a worker begins anew within them, and memos are emptied."""

A_DAY = 144
"""Rounds of a day, when ten minutes lie between two: what is emptied now and then is so within it."""

TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Sizes:
    """What there is at one moment, in pieces: of the largest records of the control plane bytes."""

    memory: int
    topics: int
    keys: int
    record: int

    def growth(self, before: Sizes) -> Mapping[str, float]:
        """Return by which share each is more than before."""
        pairs = {name: (getattr(before, name), getattr(self, name)) for name in self.__slots__}
        return {name: after / max(1, old) - 1 for name, (old, after) in pairs.items()}


def topology(guest: str = "") -> Topology:
    """Return the mesh, with a guest or without."""
    links = [["a", "b"], ["b", "c"], ["b", DEAD]]
    return topology_from_mapping(
        {
            "kafka": {"k": {}},
            "keep": "5m",
            "nodes": {node: {} for node in (*NODES, *([guest] if guest else []))},
            "zones": {
                "Z": {"kind": "multi-hop", "links": links},
                "Y": {"kind": "one-hop", "links": [[HOST, guest]] if guest else []},
            },
        }
    )


@dataclass(slots=True)
class Soak:
    """A mesh of five nodes, one of which is dead, and what comes and goes there."""

    seed: int = 1
    world: SimulatedBackend = field(init=False)
    driver: Driver = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    round: int = 0
    guest: str = ""
    _proposals: dict[int, Proposal] = field(default_factory=dict)
    _gone: deque[tuple[int, str]] = field(default_factory=deque)
    _consumers: list[QueueConsumer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start all; kill one."""
        mesh = topology()
        self.world = SimulatedBackend(mesh, self.seed)
        self.driver = Driver(  # it starts the nodes
            mesh,
            self.world,
            Tally(mesh, self.world.kafka, self.world.now_ms),
            MeshView(mesh, self.world.kafka, self.world.now_ms),
            proposals=self._proposals,
        )
        self.world.start("a", 1)  # a standby
        self.run(5_000)
        for node in ("a", "c", HOST):
            self._subscribe(node, "stays", f"{node}/>")
        self._subscribe(DEAD, "waits", "d/x")
        self.run(5_000)
        self.world.kill(DEAD)
        self.run(15_000)

    @property
    def kafka(self) -> MemoryKafka:
        """The one Kafka cluster."""
        return self.world.kafka["k"]

    def run(self, ms: int) -> None:
        """Let so much time pass."""
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 2 * ms)

    def turn(self) -> None:
        """Have everything come, be there for a while, and go."""
        self.round += 1
        number, node = self.round, "abc"[self.round % 3]
        queue, channel = f"q{number}", f"e{number}"
        wished = {  # what is routed is remembered by subject, so there are few of those
            (channel, f"x/{number % 10}"): b"{}",
            (channel, f"never/{number}/*"): b"{}",
            (queue, f"q/{number % 10}"): b'{"kind": "queue", "policy": "any"}',
        }
        for (endpoint, filter_), value in wished.items():
            self._subscribe(node, endpoint, filter_, value)
        self._subscribe("a", "leased", "lease/x", b'{"lease_s": 45}')
        self.run(4_000)
        self._consumers.append(self._consume(node, queue))
        stuck = self.kafka.topics[self.names.endpoint("c", "stays")]
        stuck.message_bytes_max = 1 if number % 5 == 0 else 1_000_000
        if number % GUEST_ROUNDS == 1:
            self._welcome(f"g{number}")
        if self.guest:
            self._publish(HOST, f"{self.guest}/1")
            self._publish(self.guest, f"{HOST}/1")
        for subject in ("a/1", "c/1", f"x/{number % 10}", f"q/{number % 10}", "lease/x"):
            self._publish("abc"[number % 2], subject)
        self.run(ROUND_MS // 2)
        stuck.message_bytes_max = 1_000_000
        self._consumers.pop().close()
        for endpoint, filter_ in wished:
            self._subscribe(node, endpoint, filter_, None)
        self._gone += [
            (self.world.clock.ms, self.names.endpoint(node, one)) for one in (channel, queue)
        ]
        if number % GUEST_ROUNDS == GUEST_ROUNDS // 2:
            self._see_off()
        if number % 20 == 0:
            self.world.kill("b")
            self.world.start("b")
        self.run(ROUND_MS // 2)
        self._keep_house()

    def sizes(self) -> Sizes:
        """Return what there is now, each worker's part and each broker's."""
        live = self._live()
        return Sizes(
            memory=sum(sum(1 for _ in reachable(one)) for one in self.world.workers.values()),
            topics=len(self.kafka.topics),
            keys=len({(one.topic(), one.key()) for one in live}),
            record=max(len(one.value() or b"") for one in live),
        )

    def largest(self) -> str:
        """Return which record is the largest, for whoever wonders what grows."""
        one = max(self._live(), key=lambda one: len(one.value() or b""))
        return f"{one.topic()} {(one.key() or b'').decode(errors='replace')}"

    def _live(self) -> Sequence[Record]:
        """Return the records of compacted topics that are no tombstones."""
        topics = [one for one in self.kafka.topics.values() if one.compacted]
        records = [one for topic in topics for log in topic.logs for one in log.entries]
        return [one for one in records if one is not None and one.value() is not None]

    def _welcome(self, guest: str) -> None:
        """Have a node come, linked with its host, and subscribe."""
        self.guest = guest
        self._change()
        self._subscribe(guest, "stays", f"{guest}/>")
        self.run(4_000)

    def _see_off(self) -> None:
        """Have the guest go; its topics are deleted later, like those of endpoints."""
        self._subscribe(self.guest, "stays", f"{self.guest}/>", None)
        self.run(4_000)
        left, self.guest = self.guest, ""
        self._change()
        levels = {name: name.split(".") for name in self.kafka.topics}
        self._gone += [(self.world.clock.ms, name) for name, all_ in levels.items() if left in all_]

    def _change(self) -> None:
        number = 1 + max(self._proposals, default=0)
        self._proposals[number] = Proposal(mesh=Mesh(spec={}, topology=topology(self.guest)))
        run_step(self.driver, number, Apply(timeout=60))

    def _keep_house(self) -> None:
        """Have brokers compact and delete, and delete the topics of endpoints long gone."""
        now = self.world.clock.ms
        while self._gone and now - self._gone[0][0] > 2 * HOUR_MS:
            self.kafka.delete_topic(self._gone.popleft()[1])
        for topic in self.kafka.topics.values():
            for log in topic.logs:
                if topic.settings.get("retention.ms", "-1") != "-1":
                    log.delete_before(max(log.start, log.stable - 2_000))
                if topic.compacted:
                    compact(log)

    def _subscribe(
        self, node: str, endpoint: str, filter_: str, value: bytes | None = b"{}"
    ) -> None:
        self._write(self.names.clients(node), value, subscription_key(endpoint, filter_), ())

    def _publish(self, node: str, subject: str) -> None:
        topic = self.names.ingress(node, MessageClass.GUARANTEED)
        self._write(topic, b"v", None, [(SUBJECT_HEADER, subject.encode())])

    def _write(self, topic: str, value: bytes | None, key: bytes | None, headers: object) -> None:
        writer = self.kafka.writer("client")
        writer.produce(topic, value, key, 0, headers=headers)
        assert writer.flush() == 0

    def _consume(self, node: str, queue: str) -> QueueConsumer:
        now_ms = self.world.clock.now_ms
        return QueueConsumer(
            self.kafka, self.world.topology, node, queue,
            deliveries_max=None, now_ms=now_ms, pause=lambda _: None,
        )  # fmt: skip


def compact(log: object) -> None:
    """Keep the newest record of each key, and no tombstones that everybody has read."""
    newest = {one.key(): one for one in log.entries if one is not None}
    kept = [one for one in newest.values() if one.value() is not None]
    edge = min((one.offset() for one in kept), default=log.end)
    for at, one in enumerate(log.entries):
        if one is not None and (newest[one.key()] is not one or one.value() is None):
            log.entries[at] = None
    log.delete_before(min(edge, log.stable))


def reachable(root: object) -> Iterator[object]:
    """Yield everything that an object holds, brokers apart, each once."""
    seen: dict[int, object] = {}
    rest = [root]
    while rest:
        one = rest.pop()
        if (
            id(one) in seen
            or isinstance(one, (MemoryKafka, PartitionLog, World, type))
            or callable(one)
        ):
            continue
        seen[id(one)] = one
        yield one
        if isinstance(one, dict):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset, deque)):
            rest += one
        else:
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            rest += [getattr(one, name) for name in slots if hasattr(one, name)]
            rest += vars(one).values() if hasattr(one, "__dict__") else ()


def soak(
    days: float, seed: int, warm_days: float, rest_ms: int = 0, looked_at: int = AT_LAST
) -> tuple[Sizes, Sizes]:
    """Return what there is after the first days, and at the end, each over some rounds at most.

    Args:
        days: How long all of it takes.
        seed: Decides every order and delay.
        warm_days: How much of that comes first.
        rest_ms: How long nothing happens between two rounds.
        looked_at: Of how many rounds, the last ones, the most of each size counts.
    """
    mesh = Soak(seed)
    found = []
    for until in (warm_days, days):
        last: deque[Sizes] = deque(maxlen=looked_at)
        while mesh.world.clock.ms < until * 24 * HOUR_MS:
            mesh.turn()
            mesh.run(rest_ms)
            last.append(mesh.sizes())
            if mesh.round % 100 == 0:
                told = f"{last[-1]}, the largest {mesh.largest()}"
                sys.stderr.write(f"{mesh.world.clock.ms / HOUR_MS:6.1f} h  {told}\n")
        pieces = [[getattr(one, name) for one in last] for name in Sizes.__slots__]
        found.append(Sizes(*map(max, pieces)))
    return found[0], found[1]


def main() -> int:
    """Soak, and say what has grown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    text = "how long a queue that was left is remembered while a node is down: more than that, and"
    parser.add_argument("--left-days", type=float, default=7.0, help=f"{text} a tenth, must pass")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    queues.LEFT_MAX_MS = int(given.left_days * 24 * HOUR_MS)
    world.IDLE_S = 1.0  # half of the time goes into workers that look whether there is anything
    warm_days = 0.8 * given.days
    first, last = soak(given.days, given.seed, warm_days, rest_ms=9 * 60_000, looked_at=A_DAY)
    growth = last.growth(first)
    for name, share in growth.items():
        told = f"{name:8} {getattr(first, name):8} -> {getattr(last, name):8}  {share:+.1%}"
        sys.stdout.write(f"{told}\n")
    return int(any(share > TOLERANCE for share in growth.values()))


if __name__ == "__main__":
    sys.exit(main())
