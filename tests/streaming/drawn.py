"""Random meshes that really run, in memory, and what they wrote as a plant for the auditor."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mesh.client import MeshClient
from mesh.model.frames import MessageClass
from mesh.transport.headers import headers_of
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs
from streaming.tables.topics import audited_pattern
from tests.component.in_memory_mesh import Mesh
from tests.sim.swarm.oracle import POOL, Oracle, oracle
from tests.streaming.planted import Plant, Record

JOINED = 0.4
"""Share of the topologies with joins."""

FILTERS = ("a/>", "*/b", "b", "a/*", "b/>")
SUBJECTS = ("a/b", "a/c", "b", "b/c")
LIVE = "live/x"
"""Wanted by direct endpoints alone, so nobody is owed any of it."""
SPARE = "spare/x"
"""Wanted by nobody; joins that take all carry it."""
STALE = "stale/x"
"""Wanted by nobody, and published once."""


def copy_of(mesh: Mesh, plant: Plant) -> dict[str, str]:
    """Put all that the auditor reads of a mesh into a plant; return the ids of its topics."""
    pattern, ids = re.compile(audited_pattern("mesh.")), {}
    for kafka in mesh.world.kafka.values():
        topics = [one for one in kafka.admin().named("mesh.") if pattern.fullmatch(one)]
        for topic, info in kafka.admin().describe(topics).items():
            ids[topic] = info.topic_id.hex()
            places = [TopicPartition(topic, number) for number in range(info.partitions)]
            for place, end in kafka.admin().ends(places).items():
                plant.logs[topic, place.partition] = [None] * end
            for one in read_logs(kafka, places):
                plant.logs[topic, one.partition()][one.offset()] = Record(
                    one.key(), one.value(), tuple(headers_of(one)), one.timestamp()[1]
                )
    return ids


@dataclass
class Drawn:
    """A mesh that runs, and clients that ask for what is drawn.

    Attributes:
        oracle: Its topology, and by which ways messages go there.
        mesh: It.
        rng: Draws all that is left to chance.
        asked: (node, endpoint) -> filter, of guaranteed endpoints.
        left: Those of them that have left it.
        stale_at: Where `STALE` was published.
    """

    oracle: Oracle
    mesh: Mesh
    rng: random.Random
    asked: dict[tuple[str, str], str] = field(default_factory=dict)
    left: dict[tuple[str, str], None] = field(default_factory=dict)
    stale_at: str = ""
    clients: Mapping[str, MeshClient] = field(init=False)

    def __post_init__(self) -> None:
        self.clients = {node: self.mesh.client(node) for node in sorted(self.oracle.topology.nodes)}

    def subscribe(self) -> None:
        """Have every node ask for something, and wait until that is known everywhere."""
        versions: dict[str, int] = {}
        for node, client in self.clients.items():
            for number in range(self.rng.choice((1, 1, 2))):
                filter_ = self.rng.choice(FILTERS)
                self.asked[node, f"e{number}"] = filter_
                client.subscribe(f"e{number}", filter_)
            versions[node] = client.subscribe("d", "live/*", message_class=MessageClass.DIRECT)
        for node, version in versions.items():
            assert not self.clients[node].wait(version)

    def leave(self) -> None:
        """Have an endpoint leave what it asked for, in two of three draws."""
        if self.rng.random() < 1 / 3:
            return
        node, endpoint = self.rng.choice(sorted(self.asked))
        client = self.clients[node]
        version = client.unsubscribe(endpoint, self.asked[node, endpoint])
        self.left[node, endpoint] = None
        assert not client.wait(version)

    def publish(self, rounds: int) -> None:
        """Have every node publish, of both classes, with and without keys and headers."""
        for _ in range(rounds):
            for client in self.clients.values():
                for subject in (*self.rng.choices(SUBJECTS, k=4), LIVE):
                    self._publish(client, subject)
                for message_class in MessageClass:
                    self._publish(client, SPARE, message_class)
                client.flush()
            self.mesh.pause(0.4)

    def publish_stale(self) -> None:
        """Publish once what a subscription asks for of which no lane will know."""
        self.stale_at = self.rng.choice(sorted(self.clients))
        self._publish(self.clients[self.stale_at], STALE, MessageClass.GUARANTEED)
        self.clients[self.stale_at].flush()

    def _publish(
        self, client: MeshClient, subject: str, message_class: MessageClass | None = None
    ) -> None:
        guaranteed, direct = MessageClass.GUARANTEED, MessageClass.DIRECT
        names = self.rng.sample(("x", "y", "z"), k=self.rng.choice((0, 0, 1, 2)))
        client.publish(
            subject,
            f"payload {self.rng.getrandbits(32)}".encode(),
            key=self.rng.choice((None, b"k1", b"k2")),
            headers=[(name, name.encode()) for name in names],
            message_class=message_class or self.rng.choice((guaranteed, guaranteed, direct)),
        )

    def rest(self) -> None:
        """Let all that was published come, and be told of."""
        self.mesh.pause(4)


def draw(rng: random.Random) -> Drawn:
    """Return a mesh on a small legal topology; nobody has asked for anything yet."""
    made = oracle(rng.randrange(POOL), joined=rng.random() < JOINED)
    kafka = min(node.kafka for node in made.topology.nodes.values())
    topology = replace(
        made.topology, audit_kafka=kafka, audit_copies=True, allows_drills=True, name="drawn"
    )
    return Drawn(made, Mesh(topology), rng)
