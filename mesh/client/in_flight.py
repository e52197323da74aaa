"""Messages handed to Kafka, and those of them that were not accepted. Spec: K7."""

from __future__ import annotations

from mesh.client.outbound import Outgoing
from mesh.client.published import NotPublishedError, Published
from mesh.errors import TransportUnavailableError
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.transport.port import KafkaCluster, Writer

IN_FLIGHT_BYTES_MAX = 16 << 20
"""How much may be handed over and not yet acknowledged; beyond it `publish` waits, because a full
queue would lose records."""

PATIENCE_MS = 30_000
"""How long a message may wait for Kafka. A hung broker is noticed after ten seconds, and about as
long after that another one leads its partitions: messages under way are sent there."""

RECORD_BYTES = 100
"""What a record counts as in addition to its content."""

REFUSED_MAX = 100_000
"""How many messages one error lists that were not accepted; its text names `NAMED_MAX`."""
NAMED_MAX = 3


class InFlight:
    """Hands a client's records to Kafka in order. One thread uses it.

    Args:
        kafka: Kafka cluster of the node.
        name: What the topology calls it.
    """

    def __init__(self, kafka: KafkaCluster, name: str) -> None:
        self._kafka = kafka
        self._name = name
        self._writer: Writer | None = None
        self._handed_over = 0
        self._in_flight_bytes = 0
        self._pending: list[Published] = []
        self._failed = 0
        self._refused: list[Published] = []

    def publish(self, published: Published, given: Outgoing) -> None:
        """Hand over one message; `published` is notified of the outcome."""
        if self._in_flight_bytes + given.size > IN_FLIGHT_BYTES_MAX:
            self._settle()
        self._open().produce(
            published.topic,
            given.payload,
            given.key,
            headers=[*given.headers, (SUBJECT_HEADER, published.subject.encode())],
            on_delivery=published.settle,
        )
        self._pending.append(published)
        self._in_flight_bytes += given.size + RECORD_BYTES
        self._handed_over += 1

    def flush(self) -> int:
        """Wait until all messages are accepted; return how many there were since the last call.

        Raises:
            NotPublishedError: Some were not; the error lists them with the reasons.
        """
        self._settle()
        total, self._handed_over = self._handed_over, 0
        failed, self._failed = self._failed, 0
        refused, self._refused = self._refused, []
        if failed:
            named = "; ".join(f"{one.subject}: {one.error}" for one in refused[:NAMED_MAX])
            more = f"; and {failed - NAMED_MAX} more" if failed > NAMED_MAX else ""
            raise NotPublishedError(
                f"{failed} of {total} messages were not acknowledged by Kafka cluster "
                f"{self._name}; publish them again ({named}{more})",
                failed=failed,
                refused=refused,
            )
        return total

    def write(self, topic: str, value: bytes | None, key: bytes) -> None:
        """Write a subscription after all messages, and wait until Kafka has acknowledged it.

        Raises:
            TransportUnavailableError: Kafka has not acknowledged it.
        """
        self._settle()
        writer = self._open()
        writer.produce(topic, value, key, 0)
        if writer.flush():
            raise TransportUnavailableError(f"topic {topic} did not take the subscription")

    def _settle(self) -> None:
        """Wait for what is in flight, and count what was not accepted."""
        if self._writer is not None:
            self._writer.flush()
        self._in_flight_bytes = 0
        pending, self._pending = self._pending, []
        for one in pending:
            if not one.is_accepted:
                self._failed += 1
                one.error = one.error or "no broker has acknowledged it in time"
                if len(self._refused) < REFUSED_MAX:
                    self._refused.append(one)

    def _open(self) -> Writer:
        if self._writer is None:
            self._writer = self._kafka.writer("publish", tells=True, patience_ms=PATIENCE_MS)
        return self._writer

    def close(self) -> None:
        """Release the writer; unflushed messages may be lost."""
        if self._writer is not None:
            self._writer.close()
