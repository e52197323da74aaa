"""Writing what the auditor says: keyed records in compacted topics, so that writing twice is once.

The JVM's own Kafka client does it, which Spark's connector brought along: a Spark job per batch
for a handful of records would cost more than the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from mesh.errors import TransportFencedError, TransportUnavailableError
from streaming.connectors.java import java_class

_CLIENTS = "org.apache.kafka.clients"

_TAKEN_OVER = "another auditor of this mesh has taken over: this one ends"
_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "newer producer")

_TOPIC_SETTINGS = {"segment.ms": "600000"}


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
        writer: The transactional id: of two auditors with one id, the older ends.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    writer: str
    _producer: Any = field(default=None, repr=False)
    _is_fenced: bool = field(default=False, repr=False)

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)

    def _properties(self, **more: str) -> Any:
        properties = self._java("java.util.Properties")()
        for name, value in {**self.kafka, **more}.items():
            properties.setProperty(name.replace("_", "."), value)
        return properties

    def create(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        """Make the topics that are not there yet, with one partition and their settings.

        Raises:
            TransportUnavailableError: Kafka does not answer or refuses.
        """
        admin = self._java(f"{_CLIENTS}.admin.Admin").create(self._properties())
        try:
            known = admin.listTopics().names().get()
            missing = self._java("java.util.ArrayList")()
            for topic, settings in topics.items():
                if not known.contains(topic):
                    missing.add(self._new_topic(topic, {**_TOPIC_SETTINGS, **settings}))
            if not missing.isEmpty():
                admin.createTopics(missing).all().get()
        except Exception as error:
            raise _unavailable("could not make its topics", error) from error
        finally:
            admin.close()

    def _new_topic(self, topic: str, wanted: Mapping[str, str]) -> Any:
        optional = self._java("java.util.Optional")
        new = self._java(f"{_CLIENTS}.admin.NewTopic")(
            topic,
            optional.of(self._java("java.lang.Integer")(1)),
            optional.empty(),
        )
        settings = self._java("java.util.HashMap")()
        for name, value in wanted.items():
            settings.put(name, value)
        return new.configs(settings)

    def write(self, outputs: Sequence[Output]) -> None:
        """Write records in one transaction: readers see all of them or none.

        Raises:
            TransportUnavailableError: They could not be written.
            TransportFencedError: Another auditor of this mesh has begun to write.
        """
        if not outputs:
            return
        if self._is_fenced:
            raise TransportFencedError(_TAKEN_OVER)
        record = self._java(f"{_CLIENTS}.producer.ProducerRecord")
        try:
            if self._producer is None:
                self._producer = self._open()
                self._producer.initTransactions()
            self._producer.beginTransaction()
            for output in outputs:
                self._producer.send(record(output.topic, output.key, output.value))
            self._producer.commitTransaction()
        except Exception as error:
            self.close()  # the next one begins with a new producer, which ends what is open
            if any(name in str(error) for name in _FENCED):
                self._is_fenced = True  # to write on would end the other one
                raise TransportFencedError(_TAKEN_OVER) from error
            raise _unavailable("could not write what it found", error) from error

    def _open(self) -> Any:
        text = "org.apache.kafka.common.serialization.StringSerializer"
        properties = self._properties(
            key_serializer=text,
            value_serializer=text,
            acks="all",
            transactional_id=self.writer,
            transaction_timeout_ms="20000",
            compression_type="lz4",
            buffer_memory="8388608",
            delivery_timeout_ms="15000",
            max_block_ms="15000",
            request_timeout_ms="10000",
            client_id="mesh-audit",
        )
        return self._java(f"{_CLIENTS}.producer.KafkaProducer")(properties)

    def close(self) -> None:
        """Give back the producer."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.close(self._java("java.time.Duration").ofSeconds(1))
            self._producer = None


def _unavailable(what: str, error: Exception) -> TransportUnavailableError:
    reason = str(error).strip().split("\n")
    return TransportUnavailableError(f"the auditor {what}: {reason[0][:300]}")
