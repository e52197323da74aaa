"""What the contenders are fed with: records that all become visible at one moment."""

from __future__ import annotations

import random
from collections.abc import Sequence

from confluent_kafka import Producer

from mesh.errors import StartError
from mesh.model.headers import SUBJECT_HEADER
from tests.bench.stage import PARTITIONS

Headers = list[tuple[str, str | bytes | None]]
POOL = 4_096
FLUSH_S = 120.0


class Load:
    """Writes batches of messages, each in one transaction.

    Readers of committed records see nothing of a batch before `release`, then all of it: that is
    a preloaded topic for a worker that runs already, without its start in the figures.
    """

    def __init__(self, bootstrap: str, *, payload: int, subjects: int) -> None:
        drawn = random.Random(7)
        self._payloads = [drawn.randbytes(payload) for _ in range(POOL)]
        self._keys = [b"%010d" % drawn.randrange(10**10) for _ in range(POOL)]
        names = [f"site-{index % 12}/line-{index}" for index in range(subjects)]
        self._subjects = [drawn.choice(names) for _ in range(8 * POOL)]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "bench-load",
                "transaction.timeout.ms": 300_000,
                "linger.ms": 20,
                "batch.size": 500_000,
                "queue.buffering.max.messages": 100_000,
                "delivery.report.only.error": True,
                "enable.metrics.push": False,
                "log_level": 2,  # failures are raised; at the end the brokers may go first
            }
        )
        self._producer.init_transactions(30)

    def write(self, topic: str, first_level: str, count: int) -> None:
        """Write messages that nobody sees yet.

        Args:
            topic: Where to.
            first_level: Of their subjects.
            count: How many.
        """
        producer = self._producer
        producer.begin_transaction()
        headers: list[Headers] = [
            [(SUBJECT_HEADER, f"{first_level}/{subject}".encode())] for subject in self._subjects
        ]
        self._fill(topic, headers, count)
        if producer.flush(FLUSH_S):
            raise StartError(f"{topic}: the broker did not take {count} messages")

    def _fill(self, topic: str, headers: Sequence[Headers], count: int) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        payloads, keys = self._payloads, self._keys
        for index in range(count):
            at = index % POOL
            arguments = (topic, payloads[at], keys[at], index % PARTITIONS)
            while True:
                try:
                    produce(*arguments, headers=headers[index % len(headers)])
                except BufferError:
                    poll(0.05)
                    continue
                break
            if not index % 1_000:
                poll(0)

    def release(self) -> None:
        """Make them visible."""
        self._producer.commit_transaction(FLUSH_S)
