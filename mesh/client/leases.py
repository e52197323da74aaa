"""Subscriptions with a lease, written again before it ends. Spec: K13.

A renewal says nothing new about a subscription. If another client has changed it since, that is
renewed instead; if it now lasts without a lease or has been ended, it is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from mesh.errors import ProtocolError, TransportError
from mesh.wire.subscriptions import decode_subscription, encode_subscription

RENEWED_AT = 3
"""A lease is renewed when a third of it has passed: two attempts may fail."""

LOOK_S = 0.5
"""How often the thread checks whether one is due, in seconds."""


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """The content of a record of `clients`.

    Attributes:
        key: Key of the subscription.
        value: The subscription; None if it has ended.
        said_at: Offset of the original statement: its own, or that of the record which it repeats.
    """

    key: bytes
    value: bytes | None
    said_at: int


class LeaseRecords(Protocol):
    """What is read and written to renew leases. Raises TransportError if Kafka does not answer.

    Implemented by `mesh.client.lease_records`, or by a test.
    """

    def look(self) -> int | None:
        """Check for records; return the offset from which the log is another one, if so.

        Then everything comes again: the topic was recreated, or has lost its end.
        """

    def read(self) -> Iterable[SubscriptionRecord]:
        """Return new records, in order, as of the last look."""

    def repeat(self, key: bytes, value: bytes | None, at: int) -> int:
        """Write a record again, or for the first time in a new topic; return its offset."""


@dataclass(slots=True)
class Lease:
    """A subscription that is written again and again.

    Attributes:
        lease_s: Seconds after which it ends.
        value: The last statement about it, with this lease.
        said_at: Its offset; `NOT_SAID` in a topic that does not have it.
        renewed_ms: When it was last written, on the monotonic clock.
        is_over: The last statement has no lease, or is its end.
        is_undone: Something older was repeated after it.
    """

    lease_s: int
    value: bytes | None
    said_at: int
    renewed_ms: int
    is_over: bool = False
    is_undone: bool = False

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is due for renewal."""
        return now_ms - self.renewed_ms >= self.lease_s * 1000 // RENEWED_AT

    def heed(self, record: SubscriptionRecord) -> None:
        """Take in a statement or a repetition."""
        if record.said_at <= self.said_at:
            self.is_undone = record.said_at < self.said_at
            return
        value, is_over = record.value, True
        if value is not None:
            try:
                asked = decode_subscription(value)
            except ProtocolError:
                return  # for the node, too, the earlier statement counts
            if asked.lease_s is not None:
                value = encode_subscription(replace(asked, lease_s=self.lease_s))
                is_over = False
        self.value, self.said_at = value, record.said_at
        self.is_over, self.is_undone = is_over, False


class Leases:
    """The leases that a client keeps. Any thread may use it.

    Args:
        records: Those of the topic, which nobody else uses.
        now_ms: Monotonic clock.
    """

    def __init__(self, records: LeaseRecords, now_ms: Callable[[], int]) -> None:
        self._records = records
        self._now_ms = now_ms
        # The handler of a signal that arrives while it is held may close.
        self._lock = threading.RLock()
        self._kept: dict[bytes, Lease] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, key: bytes, value: bytes, lease_s: int, version: int) -> None:
        """Renew a subscription, written at an offset, from now on."""
        with self._lock:
            self._kept[key] = Lease(lease_s, value, version, self._now_ms())

    def drop(self, key: bytes) -> Lease | None:
        """Stop renewing it; return the lease that was renewed until now."""
        with self._lock:
            return self._kept.pop(key, None)

    def put_back(self, key: bytes, lease: Lease | None) -> None:
        """Resume renewing a dropped lease, if there is one."""
        if lease is not None:
            with self._lock:
                self._kept[key] = lease

    def renew(self) -> None:
        """Renew what is due; what cannot be written is due again at the next call.

        All records are of one topic: if one is not accepted, the others are not tried in vain.
        """
        while not self._lock.acquire(timeout=LOOK_S):
            # A signal handler may have interrupted the lock's holder, and have closed.
            if self._stopped.is_set():
                return
        try:
            with suppress(TransportError):
                self._renew()
        finally:
            self._lock.release()

    def _renew(self) -> None:
        now_ms = self._now_ms()
        if not any(one.is_due(now_ms) for one in self._kept.values()):
            return
        self._heed()
        for key, one in list(self._kept.items()):
            if self._stopped.is_set():
                return
            if one.is_undone or (one.is_due(now_ms) and not one.is_over):
                one.said_at = self._records.repeat(key, one.value, one.said_at)
                one.renewed_ms, one.is_undone = now_ms, False
            if one.is_over:
                del self._kept[key]

    def _heed(self) -> None:
        """Take in what others have stated."""
        another = self._records.look()
        if another is not None:
            for one in self._kept.values():
                one.said_at = min(one.said_at, another - 1)  # what precedes it is no news
        for record in self._records.read():
            if (lease := self._kept.get(record.key)) is not None:
                lease.heed(record)

    def begin(self) -> None:
        """Renew them in a background thread until `close`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mesh-leases", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self.renew()

    def close(self) -> None:
        """Stop renewing; a renewal under way in any thread has ended when this returns."""
        self._stopped.set()
        with self._lock:  # wait for a renewal under way; it renews no other
            pass
        if self._thread is not None:
            self._thread.join()
