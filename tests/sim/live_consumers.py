"""Consumers of queues who come and go while everything changes: see `live_trials`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.client import QueueConsumer
from mesh.errors import TransportError
from mesh.lab.simulated import SimulatedBackend
from mesh.model.topology import Topology

TURNS = 0.02
"""Share of 50 ms in which somebody comes or goes."""
QUIET_MS = 15_000
"""Nothing comes any more after so long: messages move to where somebody consumes before."""


@dataclass
class Consumption:
    """Who consumes, and what they were handed.

    Attributes:
        got: How often, by queue and payload.
        newest_ms: When anything was handed out last.
    """

    backend: SimulatedBackend
    rng: random.Random
    got: dict[str, Counter[bytes]] = field(default_factory=dict)
    newest_ms: int = 0
    _joined: dict[tuple[str, str], QueueConsumer] = field(default_factory=dict)

    def turn(self, topology: Topology, members: Sequence[tuple[str, str]]) -> None:
        """Have somebody come or go now and then: the members are (node, queue)."""
        if not members or self.rng.random() > TURNS:
            return
        member = self.rng.choice(members)
        if (leaving := self._joined.pop(member, None)) is not None:
            leaving.close()
        else:
            self.join(topology, *member)

    def join(self, topology: Topology, node: str, queue: str) -> None:
        """Have somebody consume a queue at a node from now on."""
        if (node, queue) not in self._joined:
            self._joined[node, queue] = QueueConsumer(
                self.backend.kafka[topology.nodes[node].kafka],
                topology,
                node,
                queue,
                deliveries_max=None,
                now_ms=self.backend.now_ms,
                pause=lambda _: self.backend.advance(),
            )

    def step(self) -> None:
        """Have everybody take what there is."""
        for (_, queue), consumer in self._joined.items():
            try:
                for one in consumer.read(0.0):
                    self.newest_ms = self.backend.now_ms()
                    counts = self.got.setdefault(queue, Counter())
                    counts[one.message.payload or b""] += 1
                    consumer.ack(one)
                consumer.commit()
            except TransportError:
                continue

    def finish(self, topology: Topology, members: Sequence[tuple[str, str]]) -> None:
        """Consume everywhere until nothing comes any more, and leave."""
        for member in members:
            self.join(topology, *member)
        self.newest_ms = self.backend.now_ms()
        while self.backend.now_ms() < self.newest_ms + QUIET_MS:
            self.backend.advance()
            self.step()
        for consumer in self._joined.values():
            consumer.close()
        self._joined.clear()
