"""Reader and writer of the in-memory Kafka cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mesh.errors import (
    InvariantError,
    TransportDeniedError,
    TransportError,
    TransportFencedError,
    TransportRecordError,
    TransportUnavailableError,
    TransportUnknownError,
)
from mesh.transport.memory_faults import Call, Outcome
from mesh.transport.memory_group import GroupTicket
from mesh.transport.memory_log import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    MemoryBroker,
    MemoryRecord,
    PartitionLog,
    record_bytes,
)
from mesh.transport.port import BEGINNING, DeliveryCallback, Headers, Passed, Row, TopicPartition

TIME_MAX = (1 << 63) - 1
"""Latest time that a record can have, in ms."""

PATIENCE_MS = 12_000
"""How long a real flush waits for a partition that takes nothing."""


class MemoryReader:
    """Reads committed records; never blocks."""

    def __init__(self, broker: MemoryBroker, name: str, topics: Collection[str] = ()) -> None:
        self.name = name
        self.noted = 0
        self._asked = set(topics)
        self._unasked: set[str] = set()
        self._broker = broker
        self._positions: dict[TopicPartition, int] = {}
        self._order: list[TopicPartition] = []
        self._logs: list[PartitionLog | None] = []
        self._shape = -1
        self._first = 0
        self._lost: dict[TopicPartition, None] = {}
        self._led: dict[TopicPartition, int] = {}
        self._elections = broker.elections
        self._seen = -1
        self._moved = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions from these offsets; one that is assigned already is moved there."""
        self._positions.update(positions)
        for place in positions:
            self._lost.pop(place, None)
            self._led.pop(place, None)
        self._unasked |= {place.topic for place in positions} - self._asked
        self._reorder()

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these."""
        for place in partitions:
            self._positions.pop(place, None)
            self._lost.pop(place, None)
            self._led.pop(place, None)
        self._reorder()

    @property
    def heeded(self) -> int:
        """Every change, at once."""
        return self.noted

    def _reorder(self) -> None:
        self.noted += 1
        self._shape = -1
        self._seen = -1

    def _look_up(self) -> None:
        broker = self._broker
        self._order = sorted(self._positions)
        self._logs = [broker.log(place) for place in self._order]
        self._shape = broker.shape
        self._first = 0
        self._seen = -1

    def renew(self) -> None:
        """Do nothing: it remembers nothing of topics."""

    def read(self, timeout_s: float, limit: int) -> Sequence[MemoryRecord]:
        """Return up to `limit` records at once; the timeout is only passed to `faults`.

        Partitions take turns: a call goes on behind the partition at which the last one reached
        its limit.
        """
        faults = self._broker.faults
        if faults is None:
            return self._fetch(limit)
        if self._unasked:
            self._asked |= self._unasked
            self._unasked.clear()
            self._broker.find_leaders(self.name)
        self._moved = False
        found = self._fetch(faults.fetch_limit(self.name, limit))
        if timeout_s > 0 and not (found or self._moved):
            faults.waited(self.name, timeout_s)
        return found

    def _fetch(self, limit: int) -> list[MemoryRecord]:
        found: list[MemoryRecord] = []
        broker = self._broker
        if not broker.available or limit < 1 or self._seen == broker.changes:
            return found
        if self._shape != broker.shape:
            self._look_up()
        if self._elections != broker.elections:
            self._validate()
        hidden = False
        count = len(self._order)
        for step in range(count):
            index = (self._first + step) % count
            log = self._logs[index]
            if log is None or log.changed <= self._seen:
                continue
            if broker.leaderless and self._order[index] in broker.leaderless:
                hidden = True
                continue
            if broker.blocked and (self.name, log.topic) in broker.blocked:
                hidden = True
                continue
            self._take(self._order[index], log, limit, found)
            if len(found) >= limit:
                self._first = (index + 1) % count
                self._seen = -1
                return found
        # Everything was read: only partitions that change from now on are looked at again.
        self._seen = -1 if hidden else broker.changes
        return found

    def _validate(self) -> None:
        """Lose the positions before which a later leader has written, as the client library does.

        It knows by which leader it fetched last, if anything since the partition was assigned, and
        asks whenever there is another one.
        """
        self._elections = self._broker.elections
        for place, epoch in self._led.items():
            log, position = self._broker.log(place), self._positions[place]
            if log is None or place in self._lost:
                continue
            if log.agrees_until(epoch, min(position, log.end)) < position:
                self._lost[place] = None

    def _take(
        self, place: TopicPartition, log: PartitionLog, limit: int, found: list[MemoryRecord]
    ) -> None:
        if place in self._lost:
            return
        position = self._positions[place]
        if position == BEGINNING:
            position = log.start
        if not log.start <= position <= log.end:
            self._lost[place] = None
            return
        stable = log.stable
        self._moved = self._moved or position != stable
        if position < stable:
            self._led[place] = log.leader_epoch
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
            # Not read again until it is reassigned, as the client library does.
            self._positions.pop(place, None)
            self._led.pop(place, None)
        if lost:
            self._lost.clear()
            self._reorder()
        return lost

    def behind(self) -> Mapping[TopicPartition, int]:
        """Return how far each position is behind the end of its log."""
        logs = {place: self._broker.log(place) for place in self._positions}
        return {
            place: log.stable - max(log.start, self._positions[place])
            for place, log in logs.items()
            if log is not None
        }

    def reachable(self) -> bool:
        """Return whether the Kafka cluster answers."""
        return self._broker.available

    def close(self) -> None:
        """Read nothing any more."""
        self.unassign(list(self._positions))


class MemoryWriter:
    """Writes at once; a transaction decides what becomes visible.

    After an unknown outcome its owner must open another one, as with real brokers (R3). This one
    does not refuse to go on, so that it shows what would come of it (KAFKA-17754): where the
    request was lost, the next transaction is still the former one; where it took effect, its second
    copy ends a later transaction in its middle: see `MemoryFaults.late_records`.
    """

    def __init__(self, broker: MemoryBroker, name: str, transactional_id: str | None) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self._broker = broker
        self._transaction: int | None = None
        self._touched: dict[PartitionLog, None] = {}
        self._failures: list[tuple[str, str, type[TransportError]]] = []
        self._led_nowhere: set[TopicPartition] = set()
        self._cut_off = 0
        self._fenced = False
        self._unanswered = False
        self._late_end: bool | None = None
        self._late_in = 0
        self._ended_early = False

    def fence(self) -> None:
        """End the open transaction and refuse everything from now on: a successor is here."""
        self._end(committed=False)
        self._late_end = None
        self._fenced = True

    def _require_rights(self) -> None:
        if self._fenced:
            raise TransportFencedError(
                f"Kafka cluster {self._broker.name}: another writer has taken "
                f"{self.transactional_id}; stop this one"
            )

    def _ask(self, call: Call) -> Outcome | None:
        faults = self._broker.faults
        return None if faults is None else faults.called(call, self.name, self._what)

    @property
    def _what(self) -> str:
        return self.transactional_id or ""

    def begin(self) -> None:
        """Open a transaction."""
        self._require_rights()
        outcome = self._ask(Call.BEGIN)
        self._require_rights()
        self._broker.require_available()
        is_open = self._transaction is not None and not self._unanswered
        if self.transactional_id is None or is_open:
            raise InvariantError(f"writer {self.name}: begin without an id or within a transaction")
        if outcome is not None:
            raise self._fault(outcome, "begin a transaction")
        if self._broker.is_prepared(self._what):
            raise self._fault(Outcome.UNKNOWN_ABORTED, "begin a transaction")
        if self._transaction is None:
            self._transaction = self._broker.next_transaction()
        self._unanswered = False

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Hand over one record; errors surface at `commit` or `flush`. `timestamp` 0 means now."""
        self._require_rights()
        broker = self._broker
        transaction = self._transaction
        if broker.faults is not None:
            broker.faults.called(Call.PRODUCE, self.name, topic)
            self._require_rights()
            transaction = self._transaction
        if self.transactional_id is not None and transaction is None and not self._ended_early:
            raise InvariantError(f"writer {self.name}: produce outside a transaction")
        if not broker.available:
            self._cut_off += 1
            if on_delivery is not None:
                on_delivery(-1, -1, "no broker answers")
            return
        log = self._log_for(topic, partition, key, value, timestamp, headers)
        if log is None or self._ended_early:
            if on_delivery is not None:
                on_delivery(-1, -1, self._failures[-1][1] if self._failures else "it was aborted")
            return
        if broker.topics[topic].append_time:
            stamp = (LOG_APPEND_TIME, broker.now_ms())
        else:
            stamp = (CREATE_TIME, timestamp or broker.now_ms())
        log.append(key, value, list(headers) if headers else None, stamp, transaction)
        if on_delivery is not None:
            on_delivery(log.partition, log.end - 1, "")
        if transaction is None:
            broker.touch(log)
            return
        self._touched[log] = None
        if self._late_end is not None:
            self._late_in -= 1
            if self._late_in <= 0:
                self._end(committed=self._late_end)
                self._late_end = None
                self._ended_early = True

    def _log_for(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> PartitionLog | None:
        """Return where a record goes; None, with the reason noted, if it is refused."""
        broker = self._broker
        target = broker.topics.get(topic)
        log = None if target is None else target.log_for(partition, key)
        if target is None or log is None:
            reason = "it does not exist or has fewer partitions; create it"
            self._failures.append((topic, reason, TransportDeniedError))
            return None
        place = TopicPartition(topic, log.partition)
        if broker.leaderless and place in broker.leaderless:
            self._led_nowhere.add(place)
            self._failures.append((topic, "no leader took it in time", TransportUnavailableError))
            return None
        if topic in broker.denied:
            self._failures.append((topic, broker.denied[topic], TransportDeniedError))
            return None
        if record_bytes(key, value, headers or ()) > target.message_bytes_max:
            limit = target.message_bytes_max
            reason = f"the record is larger than its {limit} bytes allow"
            self._failures.append((topic, reason, TransportRecordError))
            return None
        if timestamp > TIME_MAX:
            self._failures.append((topic, "a time beyond 64 bits", TransportRecordError))
            return None
        return log

    def produce_all(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Hand over many records of one partition, in order."""
        for value, key, timestamp, headers in rows:
            self.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)

    def send_offsets(self, positions: Mapping[TopicPartition, Passed], ticket: object) -> None:
        """Let the open transaction move a consumer group on."""
        self._require_rights()
        if self._transaction is None or not isinstance(ticket, GroupTicket):
            raise InvariantError(f"writer {self.name}: offsets outside a transaction or a group")
        self._broker.require_available()
        ticket.require(positions)
        self._broker.note_offsets(self._transaction, ticket.group, positions)

    def commit(self) -> None:
        """Commit the open transaction, or raise.

        Raises:
            TransportFencedError: A successor has taken the transactional id.
            TransportUnknownError: Only by a fault: it may be committed or not.
            TransportError: Nothing was committed.
        """
        self._require_rights()
        outcome = self._ask(Call.COMMIT)
        self._require_rights()  # somebody may have come just then
        where = f"Kafka cluster {self._broker.name}"
        if self._ended_early:
            self._ended_early = False
            raise TransportError(f"{where}: {self._what}: the transaction is in no valid state")
        if self._transaction is None:
            raise InvariantError(f"writer {self.name}: commit without a transaction")
        failures, cut_off = self._failures, self._cut_off + (not self._broker.available)
        if outcome is not None and not failures and not cut_off:
            if outcome is Outcome.FAILED:
                self._end(committed=False)
            raise self._fault(outcome, "commit")
        self._end(committed=not failures and not cut_off)
        is_vain = cut_off or any(kind is TransportUnavailableError for _, _, kind in failures)
        self._broker.costs("commit", PATIENCE_MS if is_vain else self._broker.answers_after_ms)
        if failures:
            # What concerns a whole topic comes before what concerns a record.
            topic, reason, kind = min(failures, key=lambda one: one[2] is TransportRecordError)
            topics = tuple(dict.fromkeys(name for name, _, _ in failures))
            raise kind(f"{where}: topic {topic}: {reason}", topics=topics)
        if cut_off:
            raise TransportUnavailableError(f"{where}: no broker answers; nothing was committed")
        self._ask(Call.COMMITTED)

    def abort(self) -> None:
        """Abort the open transaction, if any.

        Raises:
            TransportFencedError: A successor has taken the transactional id.
            TransportUnknownError: Only by a fault: a new writer ends it for sure.
        """
        self._require_rights()
        outcome = self._ask(Call.ABORT)
        if outcome is not None and outcome is not Outcome.FAILED and self._transaction is not None:
            raise self._fault(outcome, "abort", committed=False)
        self._ended_early = False
        self._end(committed=False)

    def _fault(self, outcome: Outcome, what: str, *, committed: bool = True) -> TransportError:
        """Let a request fail; return the error for its sender."""
        text = f"Kafka cluster {self._broker.name}: {what} under {self._what}"
        if outcome is Outcome.FAILED:
            return TransportError(f"{text}: a connection was lost; nothing was committed")
        if outcome is Outcome.UNKNOWN_COMMITTED and self._transaction is not None:
            self._end(committed=committed)
            self._late_end = committed
            faults = self._broker.faults
            self._late_in = 1 if faults is None else faults.late_records()
        else:
            self._unanswered = self._transaction is not None
        return TransportUnknownError(
            f"{text}: nobody answered; open a new writer and read the positions again"
        )

    def _end(self, *, committed: bool) -> None:
        transaction = self._transaction
        if transaction is not None:
            if self._broker.leaderless:
                places = {TopicPartition(log.topic, log.partition) for log in self._touched}
                self._broker.prepare(self._what, places | self._led_nowhere)
            for log in self._touched:
                log.end_transaction(transaction, committed=committed)
                self._broker.touch(log)
            self._broker.end_offsets(transaction, committed=committed)
        self._transaction = None
        self._unanswered = False
        self._touched = {}
        self._failures = []
        self._led_nowhere = set()
        self._cut_off = 0

    def pending(self) -> int:
        """Return how many records are in flight: none ever is."""
        return 0

    def failed(self) -> int:
        """Return how many records failed since the last call."""
        return self._reset()

    def flush(self, patience_s: float | None = None) -> int:
        """Return how many records failed since the last flush; nothing is ever in flight.

        In a transaction the failures stay on record: its commit raises them.
        """
        self._require_rights()
        if self._transaction is not None:
            return len(self._failures) + self._cut_off
        if self._led_nowhere or self._cut_off:
            self._broker.costs(
                "flush", PATIENCE_MS if patience_s is None else int(1000 * patience_s)
            )
        return self._reset()

    def _reset(self) -> int:
        failed = len(self._failures) + self._cut_off
        self._failures = []
        self._led_nowhere = set()
        self._cut_off = 0
        return failed

    def close(self) -> None:
        """Forget this writer; an open transaction stays open, as after a kill."""
