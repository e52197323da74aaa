"""Consumers of queues in a scenario: they take what there is whenever time passes. Spec: lab.md 1.

Each acknowledges at once what it was handed. What it cannot acknowledge, because the group
has given the partition to somebody else, is handed out again and counts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.client.consuming import QueueConsumer
from mesh.errors import TransportError
from mesh.lab.backend import Backend
from mesh.lab.faults import StepFailedError
from mesh.lab.steps import Consume, Leave
from mesh.model.names import fold
from mesh.model.topology import Topology
from mesh.view.messages import MessageIdentity


@dataclass(slots=True)
class ScenarioConsumers:
    """The consumers of a scenario, and what they were handed.

    Attributes:
        backend: Where they are.
        consumed: Per node and queue: how often each message was handed out there.
    """

    backend: Backend
    consumed: dict[tuple[str, str], Counter[MessageIdentity]] = field(default_factory=dict)
    _joined: dict[tuple[str, str], QueueConsumer] = field(default_factory=dict)

    def join(self, topology: Topology, step: Consume) -> None:
        """Join a queue's group, unless this node's consumer has."""
        key = (step.node, step.queue)
        if key in self._joined:
            return
        self._joined[key] = QueueConsumer(
            topology.home_of(step.node, self.backend.kafka),
            topology,
            step.node,
            step.queue,
            deliveries_max=None,
            now_ms=self.backend.now_ms,
            pause=lambda _: self.backend.advance(),
        )

    def leave(self, step: Leave) -> None:
        """Leave a queue's group.

        Raises:
            StepFailedError: Nobody consumes it at this node.
        """
        leaving = self._joined.pop((step.node, step.queue or ""), None)
        if leaving is None:
            there = ", ".join(queue for node, queue in self._joined if node == step.node)
            text = f"{step.node} has no consumer of {step.queue}; there is {there or 'none'}"
            raise StepFailedError(text)
        leaving.close()

    def lacking(self, step: Consume) -> Sequence[str]:
        """Return what is missing of the messages that are to be consumed by a step."""
        count = self.count(step)
        if step.count is None or count >= step.count:
            return []
        return [f"{step.node}/{step.queue}: {count} of {step.count} messages consumed"]

    def count(self, step: Consume) -> int:
        """Return how many messages were consumed where a step consumes."""
        return self.consumed.get((step.node, step.queue), Counter()).total()

    def step(self) -> None:
        """Have everybody take what there is; brokers may be away."""
        for key, consumer in self._joined.items():
            try:
                for one in consumer.read(0.0):
                    counts = self.consumed.setdefault(key, Counter())
                    counts[one.message.identity] += 1
                    consumer.ack(one)
                consumer.commit()
            except TransportError:
                continue

    def counted(self, name: str) -> tuple[int, int]:
        """Return how many messages were consumed, and how many different ones.

        Args:
            name: `node/queue`, or a queue's name alone: at all nodes together.
        """
        node, _, queue = name.rpartition("/")
        total: Counter[MessageIdentity] = Counter()
        for (at, of), counts in self.consumed.items():
            if fold(of) == fold(queue) and node in ("", at):
                total.update(counts)
        return total.total(), len(total)

    def close(self) -> None:
        """Leave all groups."""
        for consumer in self._joined.values():
            try:
                consumer.close()
            except TransportError:
                continue
