"""What a writer's callbacks report, separate from the writer itself.

The client library holds its callbacks; if those held the writer, neither would ever be freed by
reference counting alone, and workers run with the garbage collector frozen.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from mesh.errors import InvariantError, TransportError
from mesh.transport.kafka.faults import (
    IDENTITY,
    Site,
    is_denied,
    is_of_record,
    transport_error,
)
from mesh.transport.kafka.retries import Retries

_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_NEVER_SENT = frozenset({KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN, *IDENTITY})


class WriterState:
    """Refusals and lost connections of one writer.

    Attributes:
        is_open: A transaction is open.
        spent: Why the writer is unusable, or None.
        failed: Records that failed since the last `reset`.
        retries: Whether something was sent twice under a transaction.
        last_error: The newest trouble with a connection.
        is_dead: The client library has given up for good, without a transaction.
        waited: Called whenever a wait for brokers has ended, in the thread that waited.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        transactional_id: str | None,
        waited: Callable[[], None] = lambda: None,
    ) -> None:
        self.site = site
        self.name = name
        self.transactional_id = transactional_id
        self.is_open = False
        self.spent: TransportError | None = None
        self.failed = 0
        self.retries = Retries()
        self.last_error: KafkaError | None = None
        self.is_dead = False
        self.waited = waited
        self._refusals: dict[str, KafkaError] = {}

    def refuse(self, topic: str, error: KafkaError) -> None:
        """Count a record that was refused, at once or later.

        Raises:
            TransportFencedError, TransportUnknownError: The writer is spent.
            InvariantError: There is no transaction to write in.
        """
        code = error.code()
        if code in _PURGED:
            return
        if self.spent is not None:
            raise self.spent
        if code == KafkaError._STATE:
            if self.transactional_id is not None and not self.is_open:
                raise InvariantError(f"writer {self.name}: produce outside a transaction")
        else:
            # A state error within a transaction only says that it failed earlier: not the cause.
            self._refusals.setdefault(topic, error)
        if code == KafkaError._FATAL:
            self.is_dead = True
        self.failed += 1

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Take the report on one record."""
        if error is not None and self.spent is None:
            self.refuse(message.topic() or "", error)

    def on_error(self, error: KafkaError) -> None:
        """Take news about a connection."""
        self.last_error = error
        text = error.str()
        if error.code() in _NEVER_SENT or "Connect to" in text or "state CONNECT" in text:
            return  # no request can have been under way on it
        self.retries.lost()

    def refusal(self, what: str) -> TransportError | None:
        """Return the error for what was refused, or None if nothing was.

        Args:
            what: End of the first clause of the text, for example ``nothing was committed``.
        """
        if not self._refusals:
            return None
        denied = [topic for topic, error in self._refusals.items() if is_denied(error)]
        # What concerns a whole topic comes before what concerns a record.
        denied.sort(key=lambda topic: is_of_record(self._refusals[topic]))
        topic = denied[0] if denied else next(iter(self._refusals))
        what = f"write to topic {topic}, {what}"
        topics = denied or list(self._refusals)
        return transport_error(self.site, what, self._refusals[topic], topics=topics)

    def reset(self) -> int:
        """Forget the refusals; return how many records they were."""
        failed, self.failed = self.failed, 0
        self._refusals.clear()
        return failed
