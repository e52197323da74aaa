"""What an application writes to its node, and what it reads of it. Spec: tree_layer 8, 13."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from mesh.client.awaited import READ_S
from mesh.errors import ClosedError, DecodeError, TransportDeniedError
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.transport.port import (
    BEGINNING,
    KafkaCluster,
    Reader,
    Record,
    TopicPartition,
    Writer,
    place_of,
)
from mesh.wire.tree_apps import encode_lease, encode_request, lease_key, role_key
from mesh.wire.tree_events import EventRecord, decode_event

READ_LIMIT = 500

RENEWALS = 3
"""How often a lease is renewed within its duration."""

AGAIN_MS = 1_000
"""Minimum time before rewriting what Kafka did not accept: it may refuse at once, repeatedly."""

FAREWELL_S = 1.0
"""How long Kafka may take for the record that ends an application."""


class RoleConnection:
    """The records of one application, and its lease. One thread uses it; another may close it.

    Attributes:
        told: Events from the node that nobody has taken up yet.
        unreadable: Number of records that could not be read.

    Args:
        kafka: The node's Kafka cluster.
        writer: Writes to it; closed with this.
        names: Of the mesh's topics.
        node: The node.
        app: Name of the application.
        lease_ms: How long it lives without renewing its lease.
        now_ms: Clock.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        writer: Writer,
        names: TopicNames,
        node: str,
        app: str,
        *,
        lease_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self.told: deque[EventRecord] = deque()
        self.unreadable = 0
        self._kafka, self._writer, self._node, self._app = kafka, writer, node, app
        self._roles, self._sends = names.roles(node), names.sends(node)
        self._place = TopicPartition(names.app(node, app), 0)
        self._lease_ms, self._now_ms = lease_ms, now_ms
        self._renewed_ms = 0
        self._has_lost = False
        self._lost_ms = -AGAIN_MS
        # Held while the client library is in use: it must not be closed beside a read.
        self._lock = threading.RLock()
        self._is_closed = False
        self._reader: Reader | None = None
        self._read_to = {self._place: BEGINNING}

    # -- written --------------------------------------------------------------------------

    def begin(self, hello: str, *, is_new: bool) -> None:
        """Ask the node to serve this application.

        Args:
            hello: What the node repeats once it does.
            is_new: End what an earlier application of this name held.

        Raises:
            TransportDeniedError: The node has no topics of the tree layer.
        """
        admin = self._kafka.admin()
        if self._roles not in admin.describe([self._roles]):
            raise TransportDeniedError(
                f"topic {self._roles} does not exist: start node {self._node}, or `mesh up`",
                topics=[self._roles],
            )
        self._read_to |= admin.ends([self._place])
        if is_new:
            self.end_lease()
        self.renew(hello)

    def renew(self, hello: str = "") -> None:
        """Renew the lease."""
        self._renewed_ms = self._now_ms()
        self._write(lease_key(self._app), encode_lease(self._lease_ms, hello))

    def is_due(self) -> bool:
        """Return whether the lease is to be renewed."""
        return self._now_ms() - self._renewed_ms >= self._lease_ms // RENEWALS

    def has_expired(self) -> bool:
        """Return whether the lease has ended, as far as can be known here."""
        return self._now_ms() - self._renewed_ms >= self._lease_ms

    def end_lease(self) -> None:
        """End it: everything the application holds is released."""
        self._write(lease_key(self._app), None)

    def write_role(self, key: RoleKey, request: RoleRequest | None) -> None:
        """Request a role; None withdraws the request."""
        self._write(role_key(key), encode_request(request))

    def write_said(self, key: bytes, value: bytes) -> None:
        """Write any other record of the application."""
        with self._used():
            self._writer.produce(self._sends, value, key, 0)

    def _write(self, key: bytes, value: bytes | None) -> None:
        with self._used():
            self._writer.produce(self._roles, value, key, 0)

    def flush(self, patience_s: float | None = None) -> int:
        """Wait until Kafka has acknowledged all records; return how many were lost."""
        lost = self._writer.flush(patience_s)
        self._has_lost |= lost > 0
        return lost

    def note_failures(self) -> None:
        """Note what Kafka has not accepted, and will not."""
        with self._used():
            self._has_lost |= self._writer.failed() > 0

    def is_written(self) -> bool:
        """Return whether Kafka has accepted all records, as of the last look for failures."""
        with self._used():
            return not (self._has_lost or self._writer.pending())

    def take_lost(self) -> bool:
        """Return, once, whether records were lost that are due to be written again."""
        if not self._has_lost or self._now_ms() - self._lost_ms < AGAIN_MS:
            return False
        self._has_lost, self._lost_ms = False, self._now_ms()
        return True

    # -- read -----------------------------------------------------------------------------

    def begin_reading(self) -> bool:
        """Read what comes from now on; return whether the node has created the topic for that."""
        if self._place not in self._kafka.admin().ends([self._place]):
            return False
        with self._used():
            self._reader = self._kafka.reader("app")
            self._reader.assign(self._read_to)
        return True

    def read(self, timeout_s: float) -> bool:
        """Read what is there, and renew the lease; return whether anything came."""
        left_s = timeout_s
        while True:
            if self.is_due():  # however long the caller waits
                self.renew()
            with self._used():
                if self._reader is None:
                    return False
                records = self._taken(self._reader, min(READ_S, left_s))
            left_s -= READ_S
            if records or left_s <= 0:
                return bool(records)

    def _taken(self, reader: Reader, wait_s: float) -> Sequence[Record]:
        try:
            records = reader.read(wait_s, READ_LIMIT)
            for record in records:
                self._read_to[place_of(record)] = record.offset() + 1
                try:
                    self.told.append(decode_event(self._app, record.value() or b""))
                except DecodeError:
                    self.unreadable += 1
        except BaseException:  # Ctrl-C: what was read is lost
            reader.assign(self._read_to)
            raise
        return records

    def skip_deleted(self) -> bool:
        """Continue after what was deleted unread; return whether anything was.

        That happens to an application that was away longer than its topic keeps, or reads too
        slowly.
        """
        with self._used():
            lost = [] if self._reader is None else self._reader.lost()
            if self._reader is None or not lost:
                return False
            starts = self._kafka.admin().starts(lost)
            self._read_to = {place: starts.get(place, BEGINNING) for place in lost}
            self._reader.assign(self._read_to)
            return True

    # -- its end --------------------------------------------------------------------------

    @contextmanager
    def _used(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"application {self._app} was closed meanwhile")
            yield

    def close(self) -> None:
        """Release everything without telling the node, once nobody reads any more."""
        self._is_closed = True
        with self._lock, ExitStack() as closing:
            for one in (self._reader, self._writer):
                if one is not None:
                    closing.callback(one.close)
