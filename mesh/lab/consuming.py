"""Consumers of queues in a scenario: they take what there is whenever time passes. Spec: lab.md 1.

Each acknowledges at once what it was handed. What one was handed in vain, because the group gave
the partition to somebody else before, is handed out again and counts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mesh.client.consuming import QueueConsumer
from mesh.client.messages import MessageIdentity
from mesh.errors import TransportError
from mesh.lab.steps import Consume, Leave
from mesh.model.names import fold

if TYPE_CHECKING:
    from mesh.lab.driver import Driver

Detail = Mapping[str, object]


@dataclass(slots=True)
class Consumers:
    """The consumers of a scenario, and what they were handed.

    Attributes:
        driver: Who runs it.
        consumed: Per node and queue: how often each message was handed out there.
    """

    driver: Driver
    consumed: dict[tuple[str, str], Counter[MessageIdentity]] = field(default_factory=dict)
    _joined: dict[tuple[str, str], QueueConsumer] = field(default_factory=dict)

    def run(self, step: Consume | Leave, timeout_s: float) -> Detail:
        """Join or leave a queue's group.

        Raises:
            StepFailedError: Not as many messages were consumed there in time as should be.
        """
        key = (step.node, step.queue)
        if isinstance(step, Leave):
            if (leaving := self._joined.pop(key, None)) is not None:
                leaving.close()
            return {}
        if key not in self._joined:
            self._joined[key] = self._join(step)
        self.driver.wait(timeout_s, lambda: self._lacking(step))
        return {"consumed": self._count(step)}

    def _join(self, step: Consume) -> QueueConsumer:
        driver = self.driver
        return QueueConsumer(
            driver.backend.kafka[driver.topology.nodes[step.node].kafka],
            driver.topology,
            step.node,
            step.queue,
            deliveries_max=None,
            now_ms=driver.backend.now_ms,
            pause=lambda _: driver.backend.advance(),
        )

    def _lacking(self, step: Consume) -> Sequence[str]:
        count = self._count(step)
        if step.count is None or count >= step.count:
            return []
        return [f"{step.node}/{step.queue}: {count} of {step.count} messages consumed"]

    def _count(self, step: Consume) -> int:
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
