"""Subscriptions with a lease, written again before it ends. Spec: K13."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mesh.errors import TransportError

RENEWED_AT = 3
"""A lease is renewed when a third of it has passed: two attempts may fail."""
LOOK_S = 0.5


@dataclass(slots=True)
class Lease:
    """A subscription that is written again.

    Attributes:
        lease_s: Seconds after which it ends.
        value: Its record.
        renewed_ms: When it was written last, on the monotonic clock.
    """

    lease_s: int
    value: bytes
    renewed_ms: int


class Leases:
    """The leases that a client keeps. Any thread may use it.

    Args:
        write: Writes a subscription again: its key and value.
        now_ms: Monotonic clock.
    """

    def __init__(self, write: Callable[[bytes, bytes], None], now_ms: Callable[[], int]) -> None:
        self._write = write
        self._now_ms = now_ms
        self._lock = threading.RLock()  # a signal may come amid it, whose handler closes
        self._kept: dict[bytes, Lease] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, key: bytes, value: bytes, lease_s: int) -> None:
        """Renew this subscription from now on."""
        with self._lock:
            self._kept[key] = Lease(lease_s, value, self._now_ms())

    def drop(self, key: bytes) -> Lease | None:
        """Stop renewing it; return what was renewed until now."""
        with self._lock:
            return self._kept.pop(key, None)

    def put_back(self, key: bytes, lease: Lease | None) -> None:
        """Renew again what was dropped, if it was."""
        if lease is not None:
            with self._lock:
                self._kept[key] = lease

    def renew(self) -> None:
        """Renew what is due; what cannot be written is due again at the next call."""
        with self._lock:
            if self._stopped.is_set():
                return
            now_ms = self._now_ms()
            for key, one in self._kept.items():
                if now_ms - one.renewed_ms < one.lease_s * 1000 // RENEWED_AT:
                    continue
                try:
                    self._write(key, one.value)
                except TransportError:
                    continue
                one.renewed_ms = now_ms

    def begin(self) -> None:
        """Renew them in a thread beside the application until `close`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mesh-leases", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self.renew()

    def close(self) -> None:
        """Renew nothing more; who renews something just now, in whatever thread, has ended then."""
        with self._lock:
            self._stopped.set()
        if self._thread is not None:
            self._thread.join()
