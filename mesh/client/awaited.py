"""An endpoint's topic, read once it exists: the node makes it when it reads a subscription."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from mesh.client.outbound import check_number
from mesh.client.process_guard import ProcessGuard
from mesh.errors import ClosedError, TransportError, TransportUnavailableError
from mesh.transport.port import KafkaCluster, Passed, TopicInfo, TopicPartition

READ_S = 0.2
"""Longest wait of one read, so that a close from another thread need not wait longer."""
RETRY_MS = 500

KNOWN_MS = 5_000
"""How long a topic is assumed to be the same one."""

LONGEST_S = 366 * 24 * 3600.0
"""The longest timeout: `inf` means this."""

OUTAGE_MS = 60_000
"""How long an iteration hides that brokers do not answer: by then other brokers lead."""

APART_MS = 10_000
"""Failed attempts this far apart are not one outage."""


def deadline_of(now_ms: int, timeout_s: float) -> int:
    """Return the moment a number of seconds later; `inf` means practically never.

    Raises:
        TypeError: It is text, or anything else that is not a number of seconds.
        ValueError: It is nan.
    """
    check_number("a timeout", timeout_s, "a number of seconds")
    if timeout_s != timeout_s:  # noqa: PLR0124 - nothing else says so of every number
        raise ValueError("a timeout of nan; write seconds")
    return now_ms + int(max(0.0, min(timeout_s, LONGEST_S)) * 1000)


def has_rewound(
    owned: Mapping[TopicPartition, Passed], known: Mapping[TopicPartition, Passed]
) -> bool:
    """Return whether a member starts again at records it has read: the log is new or cut short."""
    return any(passed.is_rewound and known.get(at) is not passed for at, passed in owned.items())


class OutageLimit:
    """Lets an endless loop outlive an outage, but not hide one that does not end.

    Args:
        now_ms: Monotonic clock.
        pause: Lets time pass, in seconds.
    """

    def __init__(self, now_ms: Callable[[], int], pause: Callable[[float], None]) -> None:
        self._now_ms, self._pause = now_ms, pause
        self._since_ms: int | None = None
        self._failed_ms = 0

    @property
    def has_just_failed(self) -> bool:
        """Whether the last attempt failed."""
        return self._since_ms is not None

    @contextmanager
    def outlived(self) -> Iterator[None]:
        """Run a block that may be retried while no broker answers.

        Raises:
            TransportUnavailableError: No broker has answered for a minute.
        """
        if self._now_ms() - self._failed_ms >= APART_MS:
            self._since_ms = None
        try:
            yield
        except TransportUnavailableError:
            now_ms = self._now_ms()
            self._since_ms = now_ms if self._since_ms is None else self._since_ms
            if now_ms - self._since_ms >= OUTAGE_MS:
                raise
            self._pause(READ_S)
            self._failed_ms = self._now_ms()
        else:
            self._since_ms = None


class _Closable(Protocol):
    def close(self) -> None: ...


Source = TypeVar("Source", bound=_Closable)
Item = TypeVar("Item")


class AwaitedTopic(Generic[Source]):
    """Opens a reader or consumer of a topic as soon as it exists, and knows which topic it is.

    Attributes:
        source: What is open; None before, and after `release`.
        is_closed: Whether it is closed for good.
        process: The process in which it may be used.
        is_torn: Whether a read was interrupted; the next one begins with another source.

    Args:
        kafka: Where the topic is.
        topic: Its name.
        opens: Opens it; what was read before and not handed out comes again.
        now_ms: Monotonic clock.
        pause: Lets time pass while nothing is there yet, in seconds.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topic: str,
        opens: Callable[[], Source],
        *,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        self.source: Source | None = None
        self.is_closed = False
        # Held while the source is in use: the client library may hang forever in a commit or a
        # close that runs beside a read.
        self._lock = threading.RLock()
        self.process = ProcessGuard("this reader")
        self.is_torn = False
        self._kafka, self._topic, self._opens = kafka, topic, opens
        self._now_ms, self._pause = now_ms, pause
        self._tried_ms = -RETRY_MS
        self._topic_id, self._looked_ms = b"", 0

    def outage_limit(self) -> OutageLimit:
        """Return how long a loop over what is read outlives an outage: each has a minute."""
        return OutageLimit(self._now_ms, self._pause)

    def read(
        self, timeout_s: float, take: Callable[[Source, float], Sequence[Item]]
    ) -> Sequence[Item]:
        """Return what `take` finds as soon as it finds something, or nothing after the timeout.

        It also returns nothing if another thread closes this meanwhile.

        Args:
            timeout_s: The longest wait.
            take: Reads once, waiting at most the given number of seconds.

        Raises:
            TransportError: Kafka does not answer, or refuses.
            ClosedError: This is closed, or this process was forked after it was made.
        """
        self.check_open()
        return self.read_on(timeout_s, take)

    def check_open(self) -> None:
        """Refuse to be read once closed: a loop around `read` would spin forever.

        Raises:
            ClosedError: It is closed.
        """
        if self.is_closed:
            raise ClosedError("this reader is closed; open another one")

    def read_on(
        self, timeout_s: float, take: Callable[[Source, float], Sequence[Item]]
    ) -> Sequence[Item]:
        """Read likewise; once closed return nothing, which ends an iteration."""
        deadline = deadline_of(self._now_ms(), timeout_s)
        while True:
            with self.used():
                if self.is_torn:
                    self.release()
                source = self.source or self._open()
                if source is not None:
                    left_s = max(0.0, (deadline - self._now_ms()) / 1000)
                    if found := self._take(source, min(READ_S, left_s), take):
                        return found
            if self._now_ms() >= deadline or self.is_closed:
                return ()
            self._pause(0 if source is not None else READ_S)

    def _take(
        self, source: Source, wait_s: float, take: Callable[[Source, float], Sequence[Item]]
    ) -> Sequence[Item]:
        try:
            return take(source, wait_s)
        except TransportError:
            raise
        except BaseException:  # Ctrl-C, or a signal that raises: what was read is lost
            self.is_torn = True
            raise

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use the open source exclusively.

        Raises:
            ClosedError: This process was forked after this was made.
        """
        self.process.check()  # the client library would wait for threads that do not exist there
        with self._lock:
            yield

    def _open(self) -> Source | None:
        now = self._now_ms()
        if self.is_closed or now - self._tried_ms < RETRY_MS:
            return None
        self._tried_ms = now
        if (known := self._described()) is not None:
            self._topic_id, self._looked_ms = known.topic_id, now
            self.source = self._opens()
        return self.source

    def _described(self) -> TopicInfo | None:
        return self._kafka.admin().describe([self._topic]).get(self._topic)

    def notice_another(self, *, at_once: bool = False) -> bool:
        """Return, once, whether the topic has been recreated since it was opened.

        Call it when records have arrived. Brokers are read by name: records of a new topic that has
        outgrown the position look like the next ones. Brokers are queried now and then, and not
        during an outage of one that reading does not need.

        Args:
            at_once: Whether there is a sign that it may have been.
        """
        now = self._now_ms()
        if now - self._looked_ms < KNOWN_MS and not at_once:
            return False
        self._looked_ms = now
        try:
            known = self._described()
        except TransportError:
            return False
        if known is None or known.topic_id == self._topic_id:
            return False
        self._topic_id = known.topic_id
        return True

    def release(self) -> None:
        """Close what is open; the next read opens it again."""
        with self._lock:
            source, self.source = self.source, None
            self._tried_ms = -RETRY_MS
            self.is_torn = False
            if source is not None:
                source.close()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Use the open source one last time; it is then closed for good.

        Any thread may do so; a reader in another thread has ended by then.
        """
        self.is_closed = True
        with self._lock:
            try:
                yield
            finally:
                self.release()

    def close(self) -> None:
        """Close the source for good; in a forked process close nothing."""
        if not self.process.is_forked:
            with self.closing():
                pass
