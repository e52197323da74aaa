"""Reader and writer of the in-memory Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.errors import (
    InvariantError,
    TransportDeniedError,
    TransportFencedError,
    TransportUnavailableError,
)
from mesh.transport.memory_log import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    MemoryBroker,
    MemoryRecord,
    PartitionLog,
    record_bytes,
)
from mesh.transport.port import BEGINNING, Headers, Row, TopicPartition


class MemoryReader:
    """Reads committed records; never blocks."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self.name = name
        self._broker = broker
        self._positions: dict[TopicPartition, int] = {}
        self._order: list[TopicPartition] = []
        self._first = 0
        self._lost: dict[TopicPartition, None] = {}
        self._idle_at = -1

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions from these offsets; one that is assigned already is moved there."""
        self._positions.update(positions)
        for place in positions:
            self._lost.pop(place, None)
        self._reorder()

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these."""
        for place in partitions:
            self._positions.pop(place, None)
            self._lost.pop(place, None)
        self._reorder()

    def _reorder(self) -> None:
        self._order = sorted(self._positions)
        self._first = 0
        self._idle_at = -1

    def read(self, timeout_s: float, limit: int) -> Sequence[MemoryRecord]:  # noqa: ARG002
        """Return up to `limit` records at once; the timeout is ignored.

        Partitions take turns: a call goes on behind the partition at which the last one reached
        its limit.
        """
        found: list[MemoryRecord] = []
        broker = self._broker
        if not broker.available or self._idle_at == broker.changes:
            return found
        hidden = False
        count = len(self._order)
        for step in range(count):
            place = self._order[(self._first + step) % count]
            if broker.blocked and (self.name, place.topic) in broker.blocked:
                hidden = True
                continue
            self._take(place, limit, found)
            if len(found) >= limit:
                self._first = (self._first + step + 1) % count
                return found
        # Everything was read, so nothing new can be here before something changes.
        self._idle_at = -1 if hidden else broker.changes
        return found

    def _take(self, place: TopicPartition, limit: int, found: list[MemoryRecord]) -> None:
        log = self._broker.log(place)
        if log is None or place in self._lost:
            return
        position = self._positions[place]
        if position == BEGINNING:
            position = log.start
        if not log.start <= position <= log.end:
            self._lost[place] = None
            return
        stable = log.stable
        while position < stable and len(found) < limit:
            stop = min(stable, position + limit - len(found))
            chunk = log.entries[position - log.start : stop - log.start]
            found.extend([record for record in chunk if record is not None])
            position = stop
        self._positions[place] = position

    def position(self, place: TopicPartition) -> int:
        """Return the offset to be read next; `BEGINNING` before anything is known."""
        return self._positions.get(place, BEGINNING)

    def lost(self) -> Sequence[TopicPartition]:
        """Return, once each, partitions whose position is outside their log."""
        lost = list(self._lost)
        for place in lost:
            # Not read again until it is assigned anew, as the client library does.
            self._positions.pop(place, None)
        self._lost.clear()
        self._reorder()
        return lost

    def reachable(self) -> bool:
        """Say whether the Kafka cluster answers."""
        return self._broker.available

    def close(self) -> None:
        """Read nothing any more."""
        self.unassign(list(self._positions))


class MemoryWriter:
    """Writes at once; a transaction decides what becomes visible."""

    def __init__(self, broker: MemoryBroker, name: str, transactional_id: str | None) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self._broker = broker
        self._transaction: int | None = None
        self._touched: dict[PartitionLog, None] = {}
        self._failures: list[tuple[str, str]] = []
        self._cut_off = 0
        self._fenced = False

    def fence(self) -> None:
        """End the open transaction and refuse everything from now on: a successor is here."""
        self._end(committed=False)
        self._fenced = True

    def _require_rights(self) -> None:
        if self._fenced:
            raise TransportFencedError(
                f"Kafka cluster {self._broker.name}: another writer has taken "
                f"{self.transactional_id}; stop this one"
            )

    def begin(self) -> None:
        """Open a transaction."""
        self._require_rights()
        self._broker.require_available()
        if self.transactional_id is None or self._transaction is not None:
            raise InvariantError(f"writer {self.name}: begin without an id or within a transaction")
        self._transaction = self._broker.next_transaction()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Hand over one record; errors surface at `commit` or `flush`. `timestamp` 0 means now."""
        self._require_rights()
        broker = self._broker
        transaction = self._transaction
        if self.transactional_id is not None and transaction is None:
            raise InvariantError(f"writer {self.name}: produce outside a transaction")
        if not broker.available:
            self._cut_off += 1
            return
        target = broker.topics.get(topic)
        log = None if target is None else target.log_for(partition, key)
        if target is None or log is None:
            self._failures.append((topic, "it does not exist or has fewer partitions; create it"))
            return
        if record_bytes(key, value, headers or ()) > target.message_bytes_max:
            limit = target.message_bytes_max
            self._failures.append((topic, f"the record is larger than its {limit} bytes allow"))
            return
        if target.append_time:
            stamp = (LOG_APPEND_TIME, broker.now_ms())
        else:
            stamp = (CREATE_TIME, timestamp or broker.now_ms())
        log.append(key, value, list(headers) if headers else None, stamp, transaction)
        if transaction is None:
            broker.changes += 1
        else:
            self._touched[log] = None

    def produce_all(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Hand over many records of one partition, in order."""
        for value, key, timestamp, headers in rows:
            self.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)

    def commit(self) -> None:
        """Commit the open transaction, or raise with nothing of it committed."""
        self._require_rights()
        if self._transaction is None:
            raise InvariantError(f"writer {self.name}: commit without a transaction")
        failures, cut_off = self._failures, self._cut_off + (not self._broker.available)
        self._end(committed=not failures and not cut_off)
        where = f"Kafka cluster {self._broker.name}"
        if failures:
            topic, reason = failures[0]
            topics = tuple(dict.fromkeys(name for name, _ in failures))
            raise TransportDeniedError(f"{where}: topic {topic}: {reason}", topics=topics)
        if cut_off:
            raise TransportUnavailableError(f"{where}: no broker answers; nothing was committed")

    def abort(self) -> None:
        """Abort the open transaction, if any."""
        self._require_rights()
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        transaction = self._transaction
        if transaction is not None:
            for log in self._touched:
                log.end_transaction(transaction, committed=committed)
            self._broker.changes += 1
        self._transaction = None
        self._touched = {}
        self._failures = []
        self._cut_off = 0

    def flush(self) -> int:
        """Return how many records failed since the last flush; nothing is ever in flight."""
        self._require_rights()
        if self._transaction is not None:
            return 0
        failed = len(self._failures) + self._cut_off
        self._failures = []
        self._cut_off = 0
        return failed

    def close(self) -> None:
        """Forget this writer; an open transaction stays open, as after a kill."""
