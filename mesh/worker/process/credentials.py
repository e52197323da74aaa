"""Secrets that change on disk: noticed, tried, and only then used. Spec: DESIGN 10.

Files under a mount change whenever somebody rotates a secret. A worker that kept the old one would
be locked out at its next connection, so it creates new clients from the new content, lets them
query their brokers beside the loop, and hands them over once they get answers. What does not work
is reported and tried again; until then the old clients serve.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import structlog

from mesh.errors import MeshError, TransportUnavailableError
from mesh.transport.port import KafkaCluster

LOOK_MS = 2_000
RETRY_MS = 20_000
SHARE_MS = 18_000
"""Workers of one node take up a changed secret this long after each other."""

SHARES = 3
"""Number of such shares before they start over: all workers have it within a minute."""

Clients: TypeAlias = Mapping[str, KafkaCluster]
Mark: TypeAlias = tuple[int, int, int]

log = structlog.get_logger()


def turn_ms(host: str, node: str) -> int:
    """Return how long a worker waits after a change, so that not all restart at once.

    Args:
        host: Its machine or pod; a number at the end, as in pods of a StatefulSet, is its place
            among the workers of its node.
        node: The node it serves: workers of different nodes wait differently, too.
    """
    number = re.search(r"-(\d+)$", host)
    place = int(number[1]) if number else 0
    return place % SHARES * SHARE_MS + zlib.crc32(node.encode()) % SHARE_MS


@dataclass(slots=True)
class Renewal:
    """Watches the files of one worker.

    Attributes:
        files: Where its secrets come from.
        own: Kafka cluster of its node, which must answer the new clients.
        wait_ms: See `turn_ms`.
        now_ms: Clock.
        make: Creates clients from what the files hold now.
    """

    files: Sequence[Path]
    own: str
    wait_ms: int
    now_ms: Callable[[], int]
    make: Callable[[], Clients]
    _marks: Mapping[Path, Mark] = field(init=False)
    _looked_ms: int = field(init=False)
    _due_ms: int | None = None
    _trial: _Trial | None = None

    def __post_init__(self) -> None:
        """Record the present state of the files."""
        self._marks, self._looked_ms = self._look(), self.now_ms()

    def poll(self) -> Clients | None:
        """Return new clients once there are any that work; call once a turn, never blocks."""
        if self._trial is not None:
            return self._ended(self._trial)
        now = self.now_ms()
        if now - self._looked_ms >= LOOK_MS:
            self._looked_ms = now
            marks = self._look()
            if marks != self._marks:
                changed = [str(file) for file in self.files if marks[file] != self._marks[file]]
                log.info("credentials.changed", files=changed, taken_in_ms=self.wait_ms)
                self._marks, self._due_ms = marks, now + self.wait_ms
        if self._due_ms is not None and now >= self._due_ms:
            self._trial, self._due_ms = _Trial(self.make, self.own), None
        return None

    def _ended(self, trial: _Trial) -> Clients | None:
        if trial.is_alive():
            return None
        self._trial = None
        if trial.fault is None:
            return trial.clients
        log.error("credentials.refused", fault=str(trial.fault), again_in_ms=RETRY_MS)
        self._due_ms = self.now_ms() + RETRY_MS
        return None

    def _look(self) -> Mapping[Path, Mark]:
        return {file: _mark(file) for file in self.files}


def _mark(file: Path) -> Mark:
    """Return a value that changes whenever a file, or the target of a link, does."""
    with suppress(OSError):
        found = file.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size
    return 0, 0, 0


class _Trial(threading.Thread):
    """New clients that query their brokers, in a thread of its own."""

    def __init__(self, make: Callable[[], Clients], own: str) -> None:
        super().__init__(name="credentials", daemon=True)
        self._make = make
        self._own = own
        self.clients: Clients = {}
        self.fault: MeshError | None = None
        self.start()

    def run(self) -> None:
        """Create and try them; a neighbour's brokers may be away, but none may refuse."""
        try:
            self.clients = self._make()
            for name, kafka in self.clients.items():
                try:
                    kafka.admin().cluster_id()
                except TransportUnavailableError:
                    if name == self._own:
                        raise
        except MeshError as error:
            self.fault = error
            for kafka in self.clients.values():
                kafka.close()
