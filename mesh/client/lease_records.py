"""What is read and written on `clients` to renew leases. Spec: K13."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.client.leases import SubscriptionRecord
from mesh.client.subscribed import ClientsLog
from mesh.errors import TransportUnavailableError
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Writer
from mesh.wire.renewals import NOT_SAID, repeating, said_at


class ClientsRecords:
    """The records after those of the first lease. One thread at a time uses it.

    Args:
        kafka: Kafka cluster of the node.
        topic: Its `clients` topic.
    """

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._log = ClientsLog(kafka, topic)
        self._writer: Writer | None = None

    def begin(self, topic_id: bytes, version: int) -> None:
        """Start reading after a subscription just written, unless reading has begun."""
        if not self._log.topic_id:
            self._log.topic_id, self._log.passed = topic_id, version + 1

    def look(self) -> int | None:
        """Check for records; return the offset from which the log is another one, if so."""
        return self._log.look()

    def read(self) -> Iterator[SubscriptionRecord]:
        """Yield new records, in order, as of the last look."""
        for record in self._log.records():
            at = said_at(record.offset(), headers_of(record))
            yield SubscriptionRecord(record.key() or b"", record.value(), at)

    def repeat(self, key: bytes, value: bytes | None, at: int) -> int:
        """Write a record again, or for the first time in a new topic; return its offset.

        Raises:
            TransportUnavailableError: Kafka has not accepted it.
        """
        if self._writer is None:
            self._writer = self._kafka.writer("lease", tells=True)
        offsets: list[int] = []
        self._writer.produce(
            self._topic,
            value,
            key,
            0,
            headers=None if at == NOT_SAID else repeating(at),
            on_delivery=lambda _partition, offset, _fault: offsets.append(offset),
        )
        if self._writer.flush() or not offsets:
            raise TransportUnavailableError(f"topic {self._topic} did not take the subscription")
        self._log.wrote(offsets[0])
        return offsets[0] if at == NOT_SAID else at

    def close(self) -> None:
        """Release the writer; leases are no longer renewed and run out."""
        if self._writer is not None:
            self._writer.close()
