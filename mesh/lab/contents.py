"""What endpoints hold and ingresses took, read afresh as the checker sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.errors import ProtocolError
from mesh.lab.checker.history import HeldRecord
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.transport.following import Follower
from mesh.transport.headers import headers_of
from mesh.transport.port import Headers, KafkaCluster, Record, TopicPartition
from mesh.wire.deliveries import decode_delivery


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """Committed records of endpoints, each time read from the beginning.

    Attributes:
        kafka: Every Kafka cluster by name.
        endpoints: Topic -> (name of its Kafka cluster, endpoint as `node/name`, partitions).
        ingresses: Id of each ingress topic -> its name.
        begins: Where the storm began on each ingress: what was published before is left out.
        now_ms: Clock for deadlines.
    """

    kafka: Mapping[str, KafkaCluster]
    endpoints: Mapping[str, tuple[str, str, int]]
    ingresses: Mapping[bytes, str]
    begins: Mapping[TopicPartition, int]
    now_ms: Callable[[], int]

    def __iter__(self) -> Iterator[HeldRecord]:
        """Yield each record once, every partition in order.

        Raises:
            TransportUnavailableError: Not all could be read.
        """
        for kafka in dict.fromkeys(kafka for kafka, _, _ in self.endpoints.values()):
            places = [
                TopicPartition(topic, number)
                for topic, (at, _, count) in self.endpoints.items()
                for number in range(count)
                if at == kafka
            ]
            for record in read_all(self.kafka[kafka], places, self.now_ms):
                held = self._held(record)
                if held is not None:
                    yield held

    def _held(self, record: Record) -> HeldRecord | None:
        headers = headers_of(record)
        origin = self._origin(headers)
        if origin is not None:
            topic, partition, offset = origin
            if offset < self.begins.get(TopicPartition(topic, partition), 0):
                return None
        subjects = [value for name, value in headers if name == SUBJECT_HEADER]
        key = record.key()
        return HeldRecord(
            endpoint=self.endpoints[record.topic()][1],
            partition=record.partition(),
            offset=record.offset(),
            payload=(record.value() or b"").decode(errors="replace"),
            subject=b" ".join(value or b"" for value in subjects).decode(errors="replace"),
            key=None if key is None else key.decode(errors="replace"),
            headers=_written(headers),
            origin=origin,
        )

    def _origin(self, headers: Headers) -> tuple[str, int, int] | None:
        contents = [value for name, value in headers if name == MESH_HEADER]
        try:
            delivery = decode_delivery(contents[-1] or b"" if contents else b"")
        except ProtocolError:
            return None
        source = delivery.source
        topic = self.ingresses.get(source.topic_id, source.topic_id.hex())
        return topic, source.partition, delivery.offset


def _written(headers: Headers) -> str:
    """Return a client's own headers as the checker compares them."""
    own = [(n, v or b"") for n, v in headers if n not in (MESH_HEADER, SUBJECT_HEADER)]
    return ";".join(f"{name}={value.decode(errors='replace')}" for name, value in own)


def read_all(
    kafka: KafkaCluster, places: Sequence[TopicPartition], now_ms: Callable[[], int]
) -> Iterator[Record]:
    """Yield every committed record of these partitions, up to their present ends.

    Raises:
        TransportUnavailableError: An end was not reached in time.
    """
    follower = Follower(kafka, "storm-check", now_ms)
    try:
        follower.add(places)
        yield from follower.poll()
    finally:
        follower.close()
