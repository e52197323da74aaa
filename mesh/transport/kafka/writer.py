"""Writer on real brokers, with and without transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mesh.errors import InvariantError, MeshError
from mesh.transport.kafka.consumer import places_of
from mesh.transport.kafka.faults import Site, error_of, served, transport_error
from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.settings import MESSAGE_TIMEOUT_MS, Settings
from mesh.transport.kafka.state import WriterState
from mesh.transport.kafka.transactions import Transactions
from mesh.transport.port import DeliveryCallback, Headers, Passed, Row, TopicPartition

ROOM_DEADLINE_S = 10.0
"""How long one record of a transaction waits for space in the queue."""
OPEN_DEADLINE_S = 15.0
_GRACE_S = 2.0


class Produce(Protocol):
    """The shape of `Writer.produce`."""

    def __call__(
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
        """Hand over one record."""


class ProduceAll(Protocol):
    """The shape of `Writer.produce_all`."""

    def __call__(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Hand over many records."""


class KafkaWriter:
    """Writes records; one thread uses it.

    Attributes:
        produce: Hands over one record.
        produce_all: Hands over many. A closure that passes arguments by position: faster than the
            client library's own method called with names.
        begin: Opens a transaction; see `Transactions`, as for `commit` and `abort`.
    """

    produce: Produce
    produce_all: ProduceAll

    def __init__(
        self,
        site: Site,
        name: str,
        settings: Settings,
        transactional_id: str | None,
        waited: Callable[[], None] = lambda: None,
        patience_ms: int | None = None,
    ) -> None:
        self.name = name
        self._patience_s = (patience_ms or MESSAGE_TIMEOUT_MS) / 1000 + _GRACE_S
        self.transactional_id = transactional_id
        self.is_closed = False
        state = WriterState(site, name, transactional_id, waited)
        callbacks: Settings = {"on_delivery": state.on_delivery, "error_cb": state.on_error}
        if transactional_id is not None:
            callbacks["stats_cb"] = state.retries.on_statistics
        self._settings: Settings = {**settings, **callbacks}
        self._state = state
        self._open()
        if transactional_id is not None:
            try:
                self._take_id()
            except BaseException:
                self.close()
                raise

    def _open(self) -> None:
        state = self._state
        try:
            self._producer: Producer | None = Producer(self._settings)
        except KafkaException as exc:
            raise transport_error(state.site, f"open writer {self.name}", error_of(exc)) from exc
        self._transactions: Transactions | None = Transactions(self._producer, state)
        self.produce, self.produce_all, self._forget = _produce(self._producer, state)

    def _take_id(self) -> None:
        deadline_s = time.monotonic() + OPEN_DEADLINE_S
        while True:
            transactions = self._open_transactions()
            transactions.meet()
            if transactions.init(deadline_s):
                return
            self._open()

    def begin(self) -> None:
        """Open a transaction.

        Raises:
            TransportFencedError: A successor has taken the transactional id, or the brokers
                ended a transaction that took too long.
            TransportUnknownError: A connection was lost since the last one: open a new writer.
        """
        self._open_transactions().begin()

    def commit(self) -> None:
        """Commit the open transaction; returns when it is committed.

        Raises:
            TransportFencedError: As for `begin`.
            TransportUnknownError: Nobody answered in time: it may be committed or not.
            TransportDeniedError: A broker refused a record; nothing was committed.
            TransportError: Nothing was committed; the transaction is aborted.
        """
        self._open_transactions().commit()

    def abort(self) -> None:
        """Abort the open transaction, if any.

        Raises:
            TransportFencedError: As for `begin`.
            TransportUnknownError: Nobody answered in time; a new writer ends it for sure.
        """
        self._open_transactions().abort()

    def send_offsets(self, positions: Mapping[TopicPartition, Passed], ticket: object) -> None:
        """Have the open transaction move a consumer group on.

        Raises:
            TransportMovedError: The group has assigned them to another member: abort.
            TransportFencedError: As for `begin`.
            TransportError: Abort.
        """
        self._open_transactions().send_offsets(places_of(positions), ticket)

    def _open_transactions(self) -> Transactions:
        if self._transactions is None:
            raise InvariantError(f"writer {self.name} is closed")
        return self._transactions

    def pending(self) -> int:
        """Return how many records were handed over and are not acknowledged yet; no wait."""
        return 0 if self._producer is None else len(self._producer)

    def failed(self) -> int:
        """Return how many records failed for good since the last such call or `flush`; no wait."""
        return self._reports(0.0, gives_up=False)

    def flush(self, patience_s: float | None = None) -> int:
        """Wait until all records handed over are acknowledged; return how many failed for good.

        In a transaction the failures stay on record: its commit raises them.
        """
        wait_s = self._patience_s if patience_s is None else patience_s
        return self._reports(wait_s, gives_up=True)

    def _reports(self, wait_s: float, *, gives_up: bool) -> int:
        state = self._state
        if self._producer is None:
            return 0
        if state.spent is not None:
            raise state.spent
        producer, given_up = self._producer, 0
        try:
            if not gives_up:
                served(producer.poll, 0)
            elif (given_up := served(producer.flush, wait_s)) > 0:
                producer.purge()
                served(producer.flush, _GRACE_S)
        except KafkaException as exc:
            state.refuse("", KafkaError(KafkaError._FATAL, error_of(exc).str()))
        if state.is_open:
            return state.failed
        if state.is_dead:
            # Without a transaction nobody waits for the lost ones: continue with a new producer.
            state.is_dead = False
            self._open()
        if (refusal := state.refusal("not in a transaction")) is not None:
            LOG.warning("%d records failed: %s", state.failed, refusal)
        return state.reset() + given_up

    def take_news(self) -> None:
        """Consume accumulated statistics; any thread may call it now and then."""
        producer, state = self._producer, self._state
        if producer is not None and not state.is_open:
            with suppress(KafkaException, MeshError):
                served(producer.poll, 0)

    def close(self) -> None:
        """Release everything, without waiting for records in flight."""
        producer, self._producer = self._producer, None
        transactions, self._transactions = self._transactions, None
        self.is_closed = True
        self.produce = self.produce_all = _refuse_closed
        self._forget()
        if transactions is not None:
            transactions.close()
        if producer is not None:
            with suppress(KafkaException):
                producer.purge(blocking=False)
                served(producer.flush, 0)


def _refuse_closed(*_args: Any, **_options: Any) -> NoReturn:
    raise InvariantError("a writer is used after it was closed")


def _fault(exc: Exception) -> KafkaError:
    """Return what is wrong with a record that the client library does not accept."""
    if isinstance(exc, KafkaException):
        return error_of(exc)
    # No broker would accept it either: a time beyond 64 bits, for example.
    return KafkaError(KafkaError.INVALID_RECORD, str(exc))


def _report(
    state: WriterState, on_delivery: DeliveryCallback
) -> Callable[[KafkaError | None, Message], None]:
    """Return the callback for the outcome of one record."""

    def report(error: KafkaError | None, message: Message) -> None:
        state.on_delivery(error, message)
        if error is None:
            on_delivery(message.partition() or 0, message.offset() or 0, "")
        else:
            on_delivery(-1, -1, error.str())

    return report


def _sent_once_there_is_room(
    send: Any, poll: Callable[[float], int], is_open: bool, arguments: tuple[Any, ...]
) -> KafkaError | None:
    """Hand over a record that finds the queue full; return what is wrong with it, or None."""
    # In a transaction records wait for space; without one a full queue is a lost record.
    wait_s = ROOM_DEADLINE_S if is_open else 0.0
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            served(poll, min(wait_s, 0.1))
            send(*arguments)
        except BufferError:
            if time.monotonic() > deadline_s:
                return KafkaError(KafkaError._QUEUE_FULL, "the queue to the brokers stays full")
        except KafkaException as exc:
            return error_of(exc)
        else:
            return None


def _produce(
    producer: Producer, state: WriterState
) -> tuple[Produce, ProduceAll, Callable[[], None]]:
    """Return functions that hand over records, with failures in the state, and one to end them.

    The last releases the client, which tracebacks of their errors would keep alive.
    """
    send: Any = producer.produce
    poll = producer.poll
    refuse = state.refuse

    def produce(
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        if on_delivery is None:
            produce_all(topic, partition, [(value, key, timestamp, headers)])
            return
        report = _report(state, on_delivery)
        arguments = (topic, value, key, partition, report, None, timestamp, headers)
        error: KafkaError | None = None
        try:
            send(*arguments)
        except KafkaException as exc:
            error = error_of(exc)
        except BufferError:
            error = _sent_once_there_is_room(send, poll, state.is_open, arguments)
        if error is not None:
            refuse(topic, error)
            on_delivery(-1, -1, error.str())

    def produce_all(topic: str, partition: int, rows: Sequence[Row]) -> None:
        for value, key, timestamp, headers in rows:
            try:
                send(topic, value, key, partition, None, None, timestamp, headers)
            except BufferError:
                arguments = (topic, value, key, partition, None, None, timestamp, headers)
                error = _sent_once_there_is_room(send, poll, state.is_open, arguments)
                if error is not None:
                    refuse(topic, error)
            except (KafkaException, OverflowError, TypeError, ValueError) as exc:
                refuse(topic, _fault(exc))

    def forget() -> None:
        nonlocal send, poll
        send = poll = _refuse_closed

    return produce, produce_all, forget
