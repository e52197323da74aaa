"""Whether the client library has sent a request of a transaction twice. Spec: reliability.md R3.

It repeats an EndTxn whose answer was lost, without reporting it. Brokers may apply the late first
copy to the *next* transaction of the same producer epoch (KAFKA-17754). The statistics reveal it:
each connection counts its repetitions, timeouts and losses.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

STATISTICS_MS = 100
RETRY_BACKOFF_MS = 100
SLOW_S = RETRY_BACKOFF_MS / 2_000
"""An end of a transaction that took less time contains no repetition: that comes after the
back-off, which the client library shortens by a fifth at most."""

PROOF_S = 1.0
"""How long to wait for statistics; without any the transaction counts as sent twice."""

_COUNTED = re.compile(r'"(?:txretries|req_timeouts|disconnects)":\s*(\d+)')
_EMITTED = re.compile(r'"ts":\s*(\d+)')


class Retries:
    """Watches the transactions of one writer.

    Args:
        clock_s: The clock of the statistics: monotonic.

    Attributes:
        is_dirty: Something was sent twice, or may have been, while a transaction was open: none
            must follow it under the same epoch.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.is_dirty = False
        self._clock_s = clock_s
        self._total = 0
        self._has_base = False
        self._received_s = self._ended_s = 0.0
        self._is_open = self._is_slow = self._is_watching = False

    def taken(self) -> None:
        """Begin to watch: earlier losses affected no transaction."""
        self.is_dirty = self._has_base = False
        self._is_open = self._is_slow = self._is_watching = False
        self._ended_s = self._clock_s()

    def begun(self) -> None:
        """Record that a transaction is open."""
        self._is_open = self._is_watching = True

    def ended(self, took_s: float) -> None:
        """Record that it has ended, and how long its requests took."""
        self._ended_s = self._clock_s()
        self._is_open = False
        self._is_slow = self._is_slow or took_s >= SLOW_S

    def lost(self) -> None:
        """Record that a connection was lost on which requests may have been under way."""
        self.is_dirty = True

    def on_statistics(self, text: str) -> None:
        """Take the client library's counts."""
        connections = text.partition('"topics"')[0]
        total = sum(map(int, _COUNTED.findall(connections)))
        now_s, emitted = self._clock_s(), _EMITTED.search(connections)
        emitted_s = int(emitted[1]) / 1e6 if emitted else now_s
        # With a different clock they are at most as old as the previous ones.
        emitted_s = emitted_s if emitted_s <= now_s else self._received_s
        self._received_s = now_s
        is_over = not self._is_open and emitted_s > self._ended_s
        # The first ones after a taking cannot show what was before, unless something needs proof.
        if total > self._total and (self._is_slow or (self._has_base and self._is_watching)):
            self.is_dirty = True
        self._total, self._has_base = total, True
        if is_over:
            self._is_slow = self._is_watching = False

    @property
    def needs_proof(self) -> bool:
        """Whether the last transaction ended slowly, and no statistics since then say why."""
        return self._is_slow and not self.is_dirty
