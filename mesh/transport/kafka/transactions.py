"""Begin, commit and abort on real brokers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from mesh.errors import (
    InvariantError,
    TransportFencedError,
    TransportHeldError,
    TransportMovedError,
    TransportUnavailableError,
    TransportUnknownError,
)
from mesh.transport.kafka.faults import (
    FENCED,
    MOVED,
    error_of,
    is_away,
    is_refused,
    served,
    transport_error,
)
from mesh.transport.kafka.health import ASKED_TOPIC
from mesh.transport.kafka.retries import PROOF_S, STATISTICS_MS
from mesh.transport.kafka.settings import TRANSACTION_TIMEOUT_MS
from mesh.transport.kafka.state import WriterState

COMMIT_DEADLINE_S = 20.0
"""Above the transaction timeout: by then the brokers have decided."""
_SLICE_S = 1.0

TAKE_SLICE_S = 0.05
"""How soon to notice that the brokers have ended a predecessor's transaction."""

MEET_TRIES, MEET_S = 4, 1.0


class Transactions:
    """The transactions of one writer.

    When a request may have been sent twice, the next transaction is refused with
    TransportUnknownError; its owner opens a new writer, which raises the epoch: see `Retries`.
    """

    def __init__(self, producer: Producer, state: WriterState) -> None:
        self._held: Producer | None = producer
        self._state = state

    def close(self) -> None:
        """Release the client: an error's traceback may keep this object, but not a client."""
        self._held = None

    @property
    def _producer(self) -> Producer:
        if self._held is None:
            name = self._state.name
            raise TransportUnknownError(
                self._state.site.text(f"writer {name} was closed meanwhile")
            )
        return self._held

    def meet(self) -> None:
        """Wait until a broker is connected by its number, if that is possible soon.

        A client that looks for its coordinator before that retries only half a second later, which
        a lane takeover cannot afford. A client knows its first broker only by address, and often
        reconnects once it has learned the number.
        """
        with suppress(KafkaException):
            for _ in range(MEET_TRIES):
                if self._producer.list_topics(ASKED_TOPIC, MEET_S).orig_broker_id >= 0:
                    return

    def init(self, deadline_s: float) -> bool:
        """Fence predecessors and end their transactions.

        Args:
            deadline_s: When to give up, on the monotonic clock.

        Returns:
            Whether it is done. If not, the brokers are still ending a predecessor's transaction:
            a new client asks them again at once, while this one would wait for half a second.
        """
        state = self._state
        what = f"take transactional id {state.transactional_id}"
        while True:
            try:
                served(self._producer.init_transactions, TAKE_SLICE_S)
            except KafkaException as exc:
                error = error_of(exc)
                self._take_news()
                cause = state.last_error or error
                if is_refused(cause):
                    raise transport_error(state.site, what, cause) from exc
                if not is_away(error):
                    raise transport_error(state.site, what, error) from exc
                is_held = error.code() == KafkaError.CONCURRENT_TRANSACTIONS
                if time.monotonic() > deadline_s:
                    kind = TransportHeldError if is_held else TransportUnavailableError
                    raise kind(
                        state.site.text(f"{what}: {cause.str()}; check that the brokers run")
                    ) from exc
                if is_held:
                    return False
            else:
                break
        self._take_news()
        state.retries.taken()
        return True

    def _take_news(self, wait_s: float = 0.0) -> None:
        """Take in reports and statistics; the next call reports fatal errors more clearly."""
        with suppress(KafkaException):
            served(self._producer.poll, wait_s)

    def begin(self) -> None:
        """Open a transaction."""
        state = self._state
        if state.spent is not None:
            raise state.spent
        if state.transactional_id is None or state.is_open:
            raise InvariantError(
                f"writer {state.name}: begin without an id or within a transaction"
            )
        self._require_proof()
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            self._spend(error_of(exc), "begin a transaction", exc)
        state.reset()
        state.is_open = True
        state.retries.begun()

    def _require_proof(self) -> None:
        """Make sure that nothing of the previous transaction can arrive late. Spec: R3."""
        state = self._state
        deadline_s = time.monotonic() + PROOF_S
        self._take_news()
        while state.retries.needs_proof and time.monotonic() < deadline_s:
            self._take_news(STATISTICS_MS / 1000)
        if state.retries.is_dirty or state.retries.needs_proof:
            state.spent = TransportUnknownError(
                state.site.text(
                    f"a request may have been sent twice under {state.transactional_id}; "
                    "open a new writer"
                )
            )
            raise state.spent

    def send_offsets(self, places: Sequence[Place], ticket: object) -> None:
        """Let the open transaction move a consumer group on.

        Args:
            places: Where the group wants to go on, by partition.
            ticket: Proof of a membership, as the consumer gave it.

        Raises:
            TransportMovedError: Others have these partitions by now; nothing was committed.
            TransportError: The group was not moved on: abort.
            InvariantError: No transaction is open.
        """
        state = self._state
        if state.spent is not None:
            raise state.spent
        if not state.is_open:
            raise InvariantError(f"writer {state.name}: offsets outside a transaction")
        deadline_s = time.monotonic() + COMMIT_DEADLINE_S
        while True:
            try:
                served(self._producer.send_offsets_to_transaction, list(places), ticket, _SLICE_S)
            except KafkaException as exc:
                error = error_of(exc)
                if error.code() in MOVED:
                    text = f"{error.str()}; nothing was committed"
                    raise TransportMovedError(state.site.text(text)) from exc
                may_retry = error.retriable() and not error.txn_requires_abort()
                if may_retry and time.monotonic() < deadline_s:
                    continue
                if error.fatal():
                    self._spend(error, "move a group on", exc)
                raise transport_error(state.site, "move a group on", error) from exc
            else:
                return

    def commit(self) -> None:
        """Commit the open transaction, or raise."""
        state = self._state
        if state.spent is not None:
            raise state.spent
        if not state.is_open:
            raise InvariantError(f"writer {state.name}: commit without a transaction")
        # First all records, so that the time of the rest tells whether that was sent twice.
        with suppress(KafkaException):  # the commit will report fatal errors more clearly
            served(self._producer.flush, COMMIT_DEADLINE_S)
        state.waited()
        if (refusal := state.refusal("nothing was committed")) is not None:
            self.abort()
            raise refusal
        error = self._end("commit")
        if error is None:
            state.is_open = False
            return
        self._take_news()
        refusal = state.refusal("nothing was committed")
        self.abort()
        raise refusal or transport_error(state.site, "commit, nothing was committed", error)

    def abort(self) -> None:
        """Abort the open transaction, if any."""
        state = self._state
        if state.spent is not None:
            raise state.spent
        if not state.is_open:
            return
        error = self._end("abort")
        if error is not None:
            self._spend(error, "abort", KafkaException(error))
        self._take_news()
        state.is_open = False
        state.reset()

    def _end(self, what: Literal["commit", "abort"]) -> KafkaError | None:
        """Repeat the call until it is done; return an error that requires an abort."""
        state, began_s = self._state, time.monotonic()
        deadline_s = began_s + COMMIT_DEADLINE_S
        while True:
            try:
                wait_s = max(deadline_s - time.monotonic(), _SLICE_S)
                if what == "commit":
                    served(self._producer.commit_transaction, wait_s)
                else:
                    served(self._producer.abort_transaction, wait_s)
            except KafkaException as exc:
                error = error_of(exc)
                if error.txn_requires_abort():
                    state.retries.ended(time.monotonic() - began_s)
                    return error
                if not error.retriable() or time.monotonic() > deadline_s:
                    self._spend(error, what, exc)
            else:
                state.retries.ended(time.monotonic() - began_s)
                return None
            finally:
                state.waited()

    def _spend(self, error: KafkaError, what: str, cause: KafkaException) -> NoReturn:
        """Give the writer up: it is fenced, or the outcome of the transaction is unknown."""
        state = self._state
        state.is_open = False
        what = f"{what} under {state.transactional_id}: {error.str()}"
        if error.code() in FENCED:
            limit_s = TRANSACTION_TIMEOUT_MS // 1000
            what = f"{what}; a successor has it, or this took over {limit_s} s: stop this writer"
            state.spent = TransportFencedError(state.site.text(what))
        else:
            state.spent = TransportUnknownError(
                state.site.text(f"{what}; open a new writer and read the positions again")
            )
        raise state.spent from cause
