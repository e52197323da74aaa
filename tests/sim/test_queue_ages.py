"""Messages of a queue that wait too long, while consumers come, keep some of them, and die. R14.

Each message is acknowledged once, or a dead letter; none becomes one long after its consumer was
done with it, whatever that one kept before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from mesh.client import QueueConsumer, QueueMessage
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportError
from mesh.transport.port import BEGINNING, TopicPartition
from tests.component.in_memory_mesh import Mesh
from tests.sim.queue_stage import CHAIN, Stage

MEMBERS = {"every": ["r"], "home": ["p", "r", "s"], "any": ["p", "s", "t"]}
SLACK_MS = 1_000
"""So late after an acknowledgement a dead letter may still come: it was decided before."""


@dataclass
class Member:
    """A consumer, and what it keeps."""

    consumer: QueueConsumer
    kept: list[QueueMessage] = field(default_factory=list)


@dataclass
class Ages:
    """One seed's mesh, its consumers and what became of each message."""

    seed: int
    done_ms: dict[bytes, int] = field(default_factory=dict)
    given_up_ms: dict[bytes, int] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    down: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.policy = self.rng.choice(sorted(MEMBERS))
        queue = {"policy": self.policy, "maxAge": self.rng.choice(["6s", "12s", "25s"])}
        if self.policy == "home":
            queue["home"] = "r"
        lanes = self.rng.choice([1, 1, 2])
        nodes = {name: {**one, "lanes": lanes} for name, one in CHAIN["nodes"].items()}  # type: ignore[attr-defined]
        spec = {**CHAIN, "nodes": nodes, "queues": {"jobs": queue}}
        self.mesh = Mesh(topology_from_mapping(spec))
        self.stage = Stage(self.mesh)
        self.stage.queue(*MEMBERS[self.policy])

    def run(self, steps: int) -> None:
        for number in range(steps):
            self._disturb(number)
            self.mesh.pause(self.rng.choice([0.05, 0.2, 0.5, 1.5]))
            for one in list(self.members):
                self._consume(one)
        for node in self.down:
            self.mesh.world.start(node)
        while self.members:
            self._leave()
        last = Member(self.stage.client(MEMBERS[self.policy][0]).consume("jobs"))
        for _ in range(200):
            self.mesh.pause(0.3)
            self._consume(last, keeps=0.0)
        self._read_letters()
        self.mesh.close()

    def _disturb(self, number: int) -> None:
        draw, up = self.rng.random(), sorted(set("prs") - self.down.keys())
        if draw < 0.3 and up:
            self.stage.publish(self.rng.choice(up), self.rng.randint(1, 15))
        elif draw < 0.4 and len(self.members) < 4:
            node = self.rng.choice(MEMBERS[self.policy])
            self.members.append(Member(self.stage.client(node).consume("jobs")))
        elif draw < 0.45 and self.members:
            self._leave()
        elif draw < 0.5 and up and not self.down:
            node = self.rng.choice(up)
            self.mesh.world.kill(node)
            self.down[node] = number + self.rng.randint(2, 10)
        for node in [node for node, until in self.down.items() if until <= number]:
            del self.down[node]
            self.mesh.world.start(node)

    def _leave(self) -> None:
        one = self.members.pop(self.rng.randrange(len(self.members)))
        source = one.consumer._reading.source
        if source is not None and self.rng.random() < 0.4:
            source.crash()  # type: ignore[attr-defined]
        else:
            one.consumer.close()

    def _consume(self, one: Member, keeps: float = 0.3) -> None:
        try:
            some = [*one.kept, *one.consumer.read(0.0, self.rng.choice([1, 5, 100]))]
            one.kept, given = [], []
            for message in some:
                if self.rng.random() < keeps:
                    one.kept.append(message)
                elif one.consumer.ack(message):
                    given.append(message.message.payload or b"")
            one.consumer.commit()
        except TransportError:
            one.kept = []
            return
        for payload in given:
            assert payload not in self.done_ms
            self.done_ms[payload] = self.mesh.now_ms()

    def _read_letters(self) -> None:
        for node in MEMBERS[self.policy]:
            kafka = self.mesh.world.kafka[self.mesh.topology.nodes[node].kafka]
            topic = f"mesh.{node}.dlq"
            reader = kafka.reader("letters")
            places = range(len(kafka.topics[topic].logs))
            reader.assign({TopicPartition(topic, number): BEGINNING for number in places})
            for record in reader.read(0.0, 100_000):
                if record.value() is not None:  # else it announces a loss
                    self.given_up_ms[record.value() or b""] = record.timestamp()[1]
            reader.close()


@pytest.mark.parametrize("seed", [8, 15, 16, 21, 23])
def test_what_is_done_is_no_dead_letter_and_what_waits_too_long_is_one(seed: int) -> None:
    ages = Ages(seed)
    ages.run(100)
    late = {
        payload
        for payload, ms in ages.given_up_ms.items()
        if ms - ages.done_ms.get(payload, ms) > SLACK_MS
    }
    assert late == set()
    published = {b"%d" % number for number in range(ages.stage.published)}
    assert ages.done_ms.keys() | ages.given_up_ms.keys() == published
