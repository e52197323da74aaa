"""Where the client library's log lines go: the logger `mesh.kafka`, each line now and then."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable

REPEAT_S = 30.0
"""How long the same line is kept back after it was let through."""
KINDS_MAX = 500
_AGE = re.compile(r"\(after \d+ms")
_ASKED_AGAIN = re.compile(r"GETPID .*: retrying")
"""Brokers that have just started do not know yet which of them coordinates a transactional id, and
the client library retries by itself: that is news only if it goes on."""


class RepeatedLines(logging.Filter):
    """Suppresses lines that were logged less than `REPEAT_S` ago.

    A client that cannot connect says so ten times a second. Mere retries of the library, as with
    every fresh Kafka cluster, are suppressed from the first one on for that long.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._seen_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether this line is news."""
        kind = _AGE.sub("(after", record.getMessage())
        now_s = self._clock_s()
        if kind not in self._seen_s:
            if len(self._seen_s) >= KINDS_MAX:
                self._seen_s.clear()
            self._seen_s[kind] = now_s if _ASKED_AGAIN.match(kind) else -REPEAT_S
        if now_s - self._seen_s[kind] < REPEAT_S:
            return False
        self._seen_s[kind] = now_s
        return True


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


class Hidden(logging.Filter):
    """Removes secrets from lines; each newly opened Kafka cluster adds its own."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[str, None] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the line, without what it must not contain."""
        record.msg, record.args = hidden(record.getMessage(), self.secrets), ()
        return True


HIDDEN = Hidden()
LOG = logging.getLogger("mesh.kafka")
# Without a handler Python would print warnings to stderr.
LOG.addHandler(logging.NullHandler())
LOG.addFilter(RepeatedLines())
LOG.addFilter(HIDDEN)
