"""Writing what the auditor says: keyed records in compacted topics, so that writing twice is once.

The JVM's own Kafka client does it, which Spark's connector brought along: a Spark job per batch
for a handful of records would cost more than the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from mesh.errors import TransportUnavailableError

FLUSH_DEADLINE_S = 30

_TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.ms": "600000"}


class Output(NamedTuple):
    """One record to write; no value takes back what was written under the key."""

    topic: str
    key: str
    value: str | None


@dataclass(slots=True)
class AuditTopics:
    """The topics `mesh.audit.*` of one Kafka cluster.

    Attributes:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    _producer: Any = field(default=None, repr=False)

    @property
    def _jvm(self) -> Any:
        return self.session._jvm  # noqa: SLF001  # the only door to the JVM's own classes

    def _properties(self, **more: str) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in {**self.kafka, **more}.items():
            properties.setProperty(name.replace("_", "."), value)
        return properties

    def create(self, topics: Sequence[str]) -> None:
        """Make the topics that are not there yet: one partition, compacted.

        Raises:
            TransportUnavailableError: Kafka does not answer or refuses.
        """
        admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._properties())
        try:
            known = admin.listTopics().names().get()
            missing = self._jvm.java.util.ArrayList()
            for topic in topics:
                if not known.contains(topic):
                    missing.add(self._new_topic(topic))
            if not missing.isEmpty():
                admin.createTopics(missing).all().get()
        except Exception as error:
            raise _unavailable("could not make its topics", error) from error
        finally:
            admin.close()

    def _new_topic(self, topic: str) -> Any:
        optional = self._jvm.java.util.Optional
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(
            topic,
            optional.of(self._jvm.java.lang.Integer(1)),
            optional.empty(),
        )
        settings = self._jvm.java.util.HashMap()
        for name, value in _TOPIC_SETTINGS.items():
            settings.put(name, value)
        return new.configs(settings)

    def write(self, outputs: Sequence[Output]) -> None:
        """Write records and wait until they are there.

        Raises:
            TransportUnavailableError: Not all of them could be written.
        """
        if not outputs:
            return
        if self._producer is None:
            self._producer = self._open()
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        try:
            sent = [
                self._producer.send(record(output.topic, output.key, output.value))
                for output in outputs
            ]
            self._producer.flush()
            for future in sent:
                future.get()
        except Exception as error:
            raise _unavailable("could not write what it found", error) from error

    def _open(self) -> Any:
        text = "org.apache.kafka.common.serialization.StringSerializer"
        properties = self._properties(
            key_serializer=text,
            value_serializer=text,
            acks="all",
            enable_idempotence="true",
            compression_type="lz4",
            buffer_memory="8388608",
            delivery_timeout_ms=str(FLUSH_DEADLINE_S * 1000),
            request_timeout_ms="10000",
            client_id="mesh-audit",
        )
        return self._jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)

    def close(self) -> None:
        """Give back the producer."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def _unavailable(what: str, error: Exception) -> TransportUnavailableError:
    reason = str(error).strip().split("\n")
    return TransportUnavailableError(f"the auditor {what}: {reason[0][:300]}")
