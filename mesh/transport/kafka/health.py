"""Whether a Kafka cluster answers, asked at most once a second and without waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import KafkaException

from mesh.transport.kafka.faults import error_of, is_away

ASKED_TOPIC = "__transaction_state"
"""Asked for because something must be: the alternative is every topic there is. Of the Kafka
cluster itself nobody asks with a request of its own: a broker that the others have given up answers
that there is no broker, and the client library, as of 2.16, ends the process over it."""

ASK_EVERY_S = 1.0
ANSWER_WITHIN_S = 3.0
"""How long a request may take: a broker that hangs counts as away after this and `ASK_EVERY_S`."""


class Health:
    """The last answer of a Kafka cluster.

    Args:
        ask: Sends a small request; its future ends with an answer or an exception.
        clock_s: A monotonic clock.
    """

    def __init__(
        self, ask: Callable[[], Future[object]], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._pending: Future[object] | None = None
        self._asked_s = -ASK_EVERY_S
        self._is_up = False

    def is_up(self) -> bool:
        """Return whether the last request was answered, and ask again if that is due."""
        with self._lock:
            now_s = self._clock_s()
            if self._pending is not None and self._pending.done():
                fault = self._pending.exception()
                # A refusal is an answer too.
                self._is_up = fault is None or (
                    isinstance(fault, KafkaException) and not is_away(error_of(fault))
                )
                self._pending = None
            if self._pending is None and now_s - self._asked_s >= ASK_EVERY_S:
                self._asked_s = now_s
                self._pending = self._ask()
            return self._is_up
