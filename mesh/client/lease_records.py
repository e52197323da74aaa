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
    """The records behind those of the first lease. One thread at a time uses it.

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
        """Read what comes behind a subscription just written, if nothing is read yet."""
        if not self._log.topic_id:
            self._log.topic_id, self._log.passed = topic_id, version + 1

    def look(self) -> int | None:
        """See what has come; return from where on it is no more of what was read before, if so."""
        return self._log.look()

    def read(self) -> Iterator[SubscriptionRecord]:
        """Yield what has come, in order, as of the last look."""
        for record in self._log.records():
            at = said_at(record.offset(), headers_of(record))
            yield SubscriptionRecord(record.key() or b"", record.value(), at)

    def repeat(self, key: bytes, value: bytes | None, at: int) -> int:
        """Write a record once more, or for the first time in a topic; return where it stands.

        Raises:
            TransportUnavailableError: Kafka has not taken it.
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
        """Release what writes; leases that are renewed no longer run out."""
        if self._writer is not None:
            self._writer.close()
