"""Reads partitions to their present end, once or repeatedly.

State that must be known before anything else is done is read this way. Spec: K16.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mesh.errors import ClosedError, TransportStalledError
from mesh.transport.port import BEGINNING, PATIENCE_MS, KafkaCluster, Reader, Record, TopicPartition

DEADLINE_MS = 60_000
FOLLOWER_PATIENCE_MS = 100
"""How late the end of a log is noticed; less than usual, because somebody waits for it."""
GLANCE_MS = 500
"""How often a follower that only glances checks for partitions that did not exist yet."""
_READ_S = 0.2
_LIMIT = 5_000


class Follower:
    """Follows partitions of one Kafka cluster from their beginning.

    Partitions that do not exist yet are picked up once they do. A log that has lost its end, or a
    topic that was recreated, is followed from its beginning.

    Args:
        kafka: Where they are.
        name: Client name of the reader used.
        now_ms: Clock for the deadline.
        patience_ms: How late the end of a log may be noticed.
        deadline_ms: How long nothing may arrive while an end is not reached.
        gathers: Whether new records, and the end of a log, may be noticed half a second late: it
            costs a tenth of the requests.
        begun_again: Told of each partition that is followed from its beginning again.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        name: str,
        now_ms: Callable[[], int],
        patience_ms: int = FOLLOWER_PATIENCE_MS,
        *,
        deadline_ms: int = DEADLINE_MS,
        gathers: bool = False,
        begun_again: Callable[[TopicPartition], object] | None = None,
    ) -> None:
        patience_ms = PATIENCE_MS if gathers else patience_ms
        self._kafka = kafka
        self._reader: Reader = kafka.reader(name, patience_ms=patience_ms, gathers=gathers)
        self._now_ms, self._deadline_ms = now_ms, deadline_ms
        self._begun_again = begun_again
        self._looked_ms = -GLANCE_MS
        self._is_closed = False
        self._lock = threading.Lock()  # held while the client library reads, or gives up the reader
        self._assigned: dict[TopicPartition, None] = {}
        self._wanted: dict[TopicPartition, None] = {}

    def add(self, places: Sequence[TopicPartition]) -> None:
        """Follow these too."""
        self._wanted.update(dict.fromkeys(places))

    def remove(self, place: TopicPartition) -> None:
        """Stop following this one."""
        self._wanted.pop(place, None)
        if place in self._assigned:
            del self._assigned[place]
            self._reader.unassign([place])

    def prefetch(self) -> None:
        """Have the reader fetch what exists, for a later call."""
        self._assign(self._kafka.admin().ends(list(self._wanted)))

    def glance(self) -> Iterator[Record]:
        """Yield the records fetched so far; do not ask brokers where the logs end.

        For callers that poll so often that what is missed now arrives a moment later.
        """
        missing = [place for place in self._wanted if place not in self._assigned]
        if missing and self._now_ms() - self._looked_ms >= GLANCE_MS:
            self._looked_ms = self._now_ms()
            self._assign(self._kafka.admin().ends(missing))
        yield from self.fetched()
        self._begin_again(self._reader.lost())

    def fetched(self) -> Iterator[Record]:
        """Yield the records fetched so far, and have the reader apply additions and removals."""
        yield from self._read(0)

    def _read(self, timeout_s: float) -> Sequence[Record]:
        with self._lock:
            if self._is_closed:
                raise ClosedError("a follower is used after it was closed")
            return self._reader.read(timeout_s, _LIMIT)

    def catch_up(self, places: Sequence[TopicPartition] = ()) -> Iterator[Record]:
        """Yield what is new, up to the high watermarks found at the start of the call.

        The high watermark, not the last stable offset: an open transaction must not hide what
        follows it.

        Args:
            places: Whose ends to reach; by default all. Records of others are yielded too.

        Raises:
            TransportStalledError: An end was not reached, and nothing arrived for too long.
            TransportUnavailableError: No broker says where the logs end.
        """
        yield from self._read_to(self._kafka.admin().ends(list(places or self._wanted)))

    def poll(self, places: Sequence[TopicPartition] = ()) -> Iterator[Record]:
        """Yield what is new, up to the last stable offsets found at the start of the call.

        What an open transaction hides is left for the next call.

        Args:
            places: As for `catch_up`.

        Raises:
            TransportStalledError: An end was not reached, and nothing arrived for too long.
            TransportUnavailableError: No broker says where the logs end.
        """
        yield from self._read_to(self._kafka.admin().stable_ends(list(places or self._wanted)))

    def _assign(self, places: Iterable[TopicPartition]) -> None:
        fresh = [place for place in places if place not in self._assigned]
        if fresh:
            self._assigned.update(dict.fromkeys(fresh))
            self._reader.assign(dict.fromkeys(fresh, BEGINNING))

    def _begin_again(self, places: Sequence[TopicPartition]) -> None:
        if places:
            self._reader.assign(dict.fromkeys(places, BEGINNING))
        if self._begun_again is not None:
            for place in places:
                self._begun_again(place)

    def _read_to(self, ends: Mapping[TopicPartition, int]) -> Iterator[Record]:
        self._assign(ends)
        self._begin_again([p for p, end in ends.items() if self._reader.position(p) > end])
        deadline = self._now_ms() + self._deadline_ms
        waiting = {place: end for place, end in ends.items() if end > 0}
        while waiting := {p: end for p, end in waiting.items() if self._reader.position(p) < end}:
            records = self._read(_READ_S)
            yield from records
            self._begin_again(self._reader.lost())
            if records:
                # Millions may precede the end: only a standstill is a fault.
                deadline = self._now_ms() + self._deadline_ms
            elif self._now_ms() > deadline:
                place, end = next(iter(waiting.items()))
                raise TransportStalledError(
                    f"{place}: offset {end} was not reached and nothing "
                    f"came for {self._deadline_ms // 1000} s; look for a hanging transaction"
                )

    def close(self) -> None:
        """Release the reader; any thread may, and a read in another thread ends.

        Otherwise it would wait in vain for what a closed reader does not return.
        """
        self._is_closed = True
        with self._lock:
            self._reader.close()
