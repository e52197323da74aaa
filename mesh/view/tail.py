"""The newest part of long logs, followed live, while earlier parts are filled in gradually."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.transport.port import KafkaCluster, Reader, Record, TopicPartition, place_of

_LIMIT = 5_000
_SLICES_MAX = 4
"""Reads per call: what a busy log holds beyond that comes with the next one."""


class Tail:
    """Follows partitions of one Kafka cluster from their present end on.

    Records before that end are returned by `earlier`, a slice at a time: a reader of a log of
    millions of records sees at once what happens now, and fetches history as it goes.

    Args:
        kafka: Where they are.
        name: Client name of the readers.
        back_max: Offsets of each partition that are filled in.

    Attributes:
        cut: Partitions that hold more than is filled in.
    """

    def __init__(self, kafka: KafkaCluster, name: str, back_max: int) -> None:
        self._kafka = kafka
        self._back_max = back_max
        self._now: Reader = kafka.reader(name, gathers=True)
        self._before: Reader = kafka.reader(f"{name}-before")
        self.cut: dict[TopicPartition, None] = {}
        self._wanted: dict[TopicPartition, None] = {}
        self._begins: dict[TopicPartition, int] = {}
        self._unfilled: dict[TopicPartition, int] = {}

    def add(self, places: Sequence[TopicPartition]) -> None:
        """Follow these too; those that do not exist yet are picked up by `look_for`."""
        self._wanted.update(dict.fromkeys(places))

    def look_for(self) -> None:
        """Take up partitions that exist by now.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        for place in self._now.lost():
            self._begins.pop(place, None)  # its topic was recreated
        missing = [place for place in self._wanted if place not in self._begins]
        if not missing:
            return
        ends, starts = self._kafka.admin().ends(missing), self._kafka.admin().starts(missing)
        begins = {place: end for place, end in ends.items() if place in starts}
        back = {
            place: max(starts[place], end - self._back_max)
            for place, end in begins.items()
            if end > starts[place]
        }
        self._now.assign(begins)
        self._begins |= begins
        self.cut |= {at: None for at, end in begins.items() if end - self._back_max > starts[at]}
        if back:
            self._before.assign(back)
            self._unfilled |= {place: begins[place] for place in back}

    def new(self) -> Sequence[Record]:
        """Return what has come since the last call; no broker is asked."""
        found: list[Record] = []
        for _ in range(_SLICES_MAX):
            records = self._now.read(0, _LIMIT)
            found += records
            if len(records) < _LIMIT:
                break
        return found

    @property
    def is_filled(self) -> bool:
        """Whether there is nothing earlier left to return."""
        return not self._unfilled

    def earlier(self, limit: int) -> Sequence[Record]:
        """Return at most so many records from before the first call of `look_for`, oldest first."""
        if self.is_filled:
            return ()
        records = self._before.read(0, limit)
        found = [record for record in records if record.offset() < self._begins[place_of(record)]]
        done = [at for at, end in self._unfilled.items() if self._before.position(at) >= end]
        for place in done:
            del self._unfilled[place]
        self._before.unassign(done)
        return found

    def close(self) -> None:
        """Release the readers."""
        self._now.close()
        self._before.close()
