"""What brokers say of the topics of one Kafka cluster: which there are, where they begin and end.

What was deleted before somebody read it cannot be audited, and what has not been read yet is not
missing. Nothing here waits for a Kafka cluster longer than a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mesh.errors import TransportUnavailableError
from streaming.connectors.java import java_class
from streaming.tables.rows import TopicPartition

_COMMON, _ADMIN = "org.apache.kafka.common", "org.apache.kafka.clients.admin"

PATIENCE_MS = 3000
"""How long a broker may take to answer, in milliseconds."""


@dataclass(slots=True)
class Logs:
    """The logs of one Kafka cluster.

    Attributes:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    _client: Any = field(default=None, repr=False)

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)

    def _admin(self) -> Any:
        if self._client is None:
            properties = self._java("java.util.Properties")()
            for name, value in self.kafka.items():
                properties.setProperty(name, value)
            properties.setProperty("default.api.timeout.ms", str(PATIENCE_MS))
            properties.setProperty("request.timeout.ms", str(PATIENCE_MS))
            properties.setProperty("enable.metrics.push", "false")
            self._client = self._java(f"{_ADMIN}.Admin").create(properties)
        return self._client

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset that is still there, of those partitions that exist.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.earliest())

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record, open transactions included.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.latest())

    def stable_ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset up to which all is committed or given up.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.latest(), "READ_COMMITTED")

    def since(self, places: Iterable[TopicPartition], at_ms: int) -> Mapping[TopicPartition, int]:
        """Return the first offset with this time stamp or a later one; the end where none has.

        Args:
            places: Partitions; those that do not exist are left out.
            at_ms: Milliseconds since 1970.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        found = self._offsets(places, self._spec.forTimestamp(at_ms))
        ends = self.ends(place for place, offset in found.items() if offset < 0)
        return {place: ends.get(place, 0) if first < 0 else first for place, first in found.items()}

    def topics(self) -> Sequence[str]:
        """Return the names of all topics.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        try:
            # A walk through a set would end with an exception, which PySpark takes apart at length.
            names = self._admin().listTopics().names().get().toArray()
            return sorted(str(name) for name in names)
        except Exception as error:
            raise _unavailable(error) from error

    def described(self, topics: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Return the id in hexadecimal and the number of partitions of those topics that exist.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        found: dict[str, tuple[str, int]] = {}
        try:
            wanted = self._java("java.util.ArrayList")()
            for topic in topics:
                wanted.add(topic)
            answers = self._admin().describeTopics(wanted).topicNameValues()
        except Exception as error:
            raise _unavailable(error) from error
        for topic in topics:
            description = _answer(answers.get(topic))
            if description is not None:
                found[topic] = (_hex(description.topicId()), description.partitions().size())
        return found

    @property
    def _spec(self) -> Any:
        return self._java(f"{_ADMIN}.OffsetSpec")

    def _offsets(
        self, places: Iterable[TopicPartition], spec: Any, isolation: str = "READ_UNCOMMITTED"
    ) -> Mapping[TopicPartition, int]:
        partition_of, level = self._java(f"{_COMMON}.TopicPartition"), f"{_COMMON}.IsolationLevel"
        options = self._java(f"{_ADMIN}.ListOffsetsOptions")(self._java(level).valueOf(isolation))
        wanted = self._java("java.util.HashMap")()
        keys = {place: partition_of(*place) for place in places}
        for key in keys.values():
            wanted.put(key, spec)
        try:
            answer = self._admin().listOffsets(wanted, options)
        except Exception as error:
            raise _unavailable(error) from error
        found = {}
        for place, key in keys.items():
            told = _answer(answer.partitionResult(key))
            if told is not None:
                found[place] = int(told.offset())
        return found

    def close(self) -> None:
        """Give back the client."""
        if self._client is not None:
            self._client.close(self._java("java.time.Duration").ofMillis(0))
            self._client = None


def _answer(future: Any) -> Any:
    """Return an answer about one topic, or None if the topic is gone."""
    try:
        return future.get()
    except Exception as error:
        if "UnknownTopicOrPartition" in str(error):
            return None
        raise _unavailable(error) from error


def _hex(uuid: Any) -> str:
    mask = 0xFFFFFFFFFFFFFFFF
    high, low = uuid.getMostSignificantBits() & mask, uuid.getLeastSignificantBits() & mask
    return f"{high:016x}{low:016x}"


def _unavailable(error: Exception) -> TransportUnavailableError:
    reason = str(error).strip().split("\n")
    told = [line for line in reason if "Exception" in line] or reason
    return TransportUnavailableError(f"Kafka did not say what its logs hold: {told[-1][:300]}")
