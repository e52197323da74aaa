"""What the contenders are fed with: numbered records that all become visible at one moment."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer

from mesh.errors import StartError
from mesh.model.record_headers import SUBJECT_HEADER
from tests.bench.stage import PARTITIONS

Headers = list[tuple[str, str | bytes | None]]
NUMBER = struct.Struct(">Q")
POOL = 4_096
FLUSH_S = 120.0


@dataclass(frozen=True, slots=True)
class Way:
    """A set of subjects, named by their first level, and what the second level is good for.

    Attributes:
        name: First level of its subjects.
        shares: Values of the second level, each as often as it stands here; none for no such level.
    """

    name: str
    shares: Sequence[str] = ()


WHOLE, FAST = Way("g"), Way("d")
NEAR, FAR = Way("near"), Way("far")
HALVES = Way("half", ("0", "1"))
TENTH = Way("tenth", ("0", *["1"] * 9))


class Load:
    """Writes batches of numbered messages, each in one transaction.

    Readers of committed records see nothing of a batch before `release`, then all of it: that is
    a preloaded topic for a worker that runs already, without its start in the figures.
    """

    def __init__(
        self, bootstrap: str, *, payload: int, subjects: int, partitions: int = PARTITIONS
    ) -> None:
        self._partitions = partitions
        drawn = random.Random(7)
        self._tails = [drawn.randbytes(payload - NUMBER.size) for _ in range(POOL)]
        self._keys = [b"%010d" % drawn.randrange(10**10) for _ in range(POOL)]
        self._names = [f"site-{index % 12}/line-{index}" for index in range(subjects)]
        self._drawn = [drawn.randrange(subjects) for _ in range(8 * POOL)]
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

    def subjects(self, way: Way) -> Sequence[str]:
        """Return the subjects of messages of a way in their order, which begins anew at the end."""
        named = [self._subject(way, index) for index in range(len(self._names))]
        return [named[index] for index in self._drawn]

    def _subject(self, way: Way, index: int) -> str:
        level = f"/{way.shares[index % len(way.shares)]}" if way.shares else ""
        return f"{way.name}{level}/{self._names[index]}"

    def numbers(self, way: Way, prefix: str, count: int) -> Callable[[int], bool]:
        """Return what tells whether one of `count` messages has a subject with this prefix."""
        fits = [subject.startswith(prefix) for subject in self.subjects(way)]
        return lambda number: number < count and fits[number % len(fits)]

    def write(self, topic: str, way: Way | None, count: int) -> None:
        """Write messages that nobody sees yet.

        Args:
            topic: Where to.
            way: Of their subjects; None for records without headers.
            count: How many; they are numbered from 0.
        """
        headers: list[Headers | None] = [None]
        if way is not None:
            headers = [[(SUBJECT_HEADER, one.encode())] for one in self.subjects(way)]
        self._producer.begin_transaction()
        self._fill(topic, headers, count)
        if self._producer.flush(FLUSH_S):
            raise StartError(f"{topic}: the broker did not take {count} messages")

    def _fill(self, topic: str, headers: Sequence[Headers | None], count: int) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        tails, keys, pack = self._tails, self._keys, NUMBER.pack
        for index in range(count):
            at = index % POOL
            value = pack(index) + tails[at]
            more = {"headers": found} if (found := headers[index % len(headers)]) else {}
            while True:
                try:
                    produce(topic, value, keys[at], index % self._partitions, **more)
                except BufferError:
                    poll(0.05)
                    continue
                break
            if not index % 1_000:
                poll(0)

    def release(self) -> None:
        """Make them visible."""
        self._producer.commit_transaction(FLUSH_S)
