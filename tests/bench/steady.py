"""A steady load, and who notes when each of its messages was delivered."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from mesh.errors import StartError
from mesh.lab.companions import Companions
from mesh.model.record_headers import SUBJECT_HEADER
from tests.bench.pair import Pair, places_of
from tests.bench.stage import PARTITIONS

RATE = 200
SLICE_S = 1.0
"""How long a task works at a stretch: between two stretches it stands still for a moment."""

_KEYS = 7 * PARTITIONS
_PATIENCE_MS = 50


class Steady:
    """Publishes numbered messages at a, evenly and to every partition in turn.

    Attributes:
        published: How many were handed over; the number of the next one.
    """

    def __init__(self, pair: Pair, rate: int = RATE) -> None:
        self.published = 0
        self._topic = pair.ingress
        self._rate = rate
        self._writer = pair.kafka["a"].writer("steady")
        self._began_s = time.monotonic()
        self._companions = Companions([self._publish])

    def _publish(self) -> None:
        end_s = time.monotonic() + SLICE_S
        while (now_s := time.monotonic()) < end_s:
            due = int((now_s - self._began_s) * self._rate)
            while self.published < due:
                self._produce(self.published)
                self.published += 1
            time.sleep(1 / self._rate)
        if self._writer.flush():
            raise StartError(f"{self._topic}: messages were not acknowledged")

    def _produce(self, number: int) -> None:
        self._writer.produce(
            self._topic,
            b"%0100d" % number,
            b"k%d" % (number % _KEYS),
            number % PARTITIONS,
            headers=[(SUBJECT_HEADER, b"steady/%d" % (number % 5))],
        )

    def stop(self) -> int:
        """Publish no more; return how many there were."""
        self._companions.stop()
        self._writer.close()
        return self.published


class Arrivals:
    """Notes when a reader at b's endpoint sees each numbered message.

    Attributes:
        newest: Number of the newest message of each partition.
        faults: Messages that were not the next of their partition: lost, doubled, out of order.
    """

    def __init__(self, pair: Pair) -> None:
        self.newest = [index - PARTITIONS for index in range(PARTITIONS)]
        self.faults = 0
        self._seen_s: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._reader = pair.kafka["b"].reader("arrivals", patience_ms=_PATIENCE_MS)
        self._reader.assign(dict.fromkeys(places_of(pair.endpoint), 0))
        self._companions = Companions([self._look])

    def _look(self) -> None:
        end_s = time.monotonic() + SLICE_S
        while time.monotonic() < end_s:
            records = self._reader.read(_PATIENCE_MS / 1000, 1_000)
            now_s = time.monotonic()
            for record in records:
                at, number = record.partition(), int(record.value() or b"-1")
                self.faults += number != self.newest[at] + PARTITIONS
                self.newest[at] = number
                self._seen_s[at].append(now_s)

    def has_all_since(self, number: int) -> bool:
        """Return whether every partition has a message with this number or a later one."""
        return min(self.newest) >= number

    def silence_s(self, partition: int, from_s: float, to_s: float) -> float:
        """Return the longest time between two deliveries in a partition within a span."""
        return longest_silence(list(self._seen_s[partition]), from_s, to_s)

    def stop(self) -> None:
        """Look no more."""
        self._companions.stop()
        self._reader.close()


def longest_silence(seen_s: Sequence[float], from_s: float, to_s: float) -> float:
    """Return the longest silence that lasted at any moment of a span, in seconds.

    One that began before the span counts from its beginning, one that outlasts it up to the end of
    the span.

    Args:
        seen_s: When something came, in order.
        from_s, to_s: The span.
    """
    first = max(0, bisect_right(seen_s, from_s) - 1)
    within = seen_s[first : bisect_left(seen_s, to_s)]
    edges = [*(within or [from_s]), to_s]
    return max(later - earlier for earlier, later in pairwise(edges))
