"""Writes the auditor's output: keyed records in compacted topics, so that writing twice is once.

It uses the JVM's own Kafka client, which Spark's connector includes: a Spark job per batch for a
handful of records would cost more than the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from mesh.errors import TransportFencedError
from streaming.connectors.failures import is_fenced, is_known_topic, unavailable
from streaming.connectors.java import compiled, java_array, java_class

_CLIENTS = "org.apache.kafka.clients"

_TAKEN_OVER = "another auditor of this mesh has taken over: this one ends"

TOGETHER_MIN = 100
"""Fewer records are handed to the JVM individually: compiling code for many costs more."""

ALONE_MAX = 1_000
"""After this many individual records compiling would have cost less."""

TOGETHER_MAX = 2_000
"""Maximum number of records handed over at once: some hundred kilobytes of text."""

_END = "\0"
"""Ends each part of a record on its way to the JVM: neither JSON nor a name has it."""

_SEND_ALL = f"""
String[] parts = text.split("\\0", -1);
for (int at = 0; at + 2 < parts.length; at += 3) {{
    String value = parts[at + 2].isEmpty() ? null : parts[at + 2];
    producer.send(new {_CLIENTS}.producer.ProducerRecord(parts[at], parts[at + 1], value));
}}
"""

CREATED_MS = "5000"
"""How long a broker may take to say which topics there are, and to create some, in milliseconds."""

_TOPIC_SETTINGS = {"segment.ms": "600000"}


class SinkRecord(NamedTuple):
    """One record to write; a record without a value withdraws the former one of its key."""

    topic: str
    key: str
    value: str | None


@dataclass(slots=True)
class AuditTopics:
    """The topics `mesh.audit.*` of one Kafka cluster.

    Attributes:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
        writer: The transactional id: of two auditors with one id, the older one ends.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    writer: str
    _producer: Any = field(default=None, repr=False)
    _sender: Any = field(default=None, repr=False)
    _alone: int = field(default=0, repr=False)
    _is_fenced: bool = field(default=False, repr=False)

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)

    def _properties(self, **more: str) -> Any:
        properties = self._java("java.util.Properties")()
        for name, value in {**self.kafka, **more}.items():
            properties.setProperty(name.replace("_", "."), value)
        return properties

    def create(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        """Create the topics that do not exist yet, with one partition and their settings.

        Raises:
            TransportUnavailableError: Kafka does not answer or refuses.
        """
        patience = {"default_api_timeout_ms": CREATED_MS, "request_timeout_ms": CREATED_MS}
        admin = self._java(f"{_CLIENTS}.admin.Admin").create(self._properties(**patience))
        try:
            known = admin.listTopics().names().get()
            missing = self._java("java.util.ArrayList")()
            for topic, settings in topics.items():
                if not known.contains(topic):
                    missing.add(self._new_topic(topic, {**_TOPIC_SETTINGS, **settings}))
            if not missing.isEmpty():
                admin.createTopics(missing).all().get()
        except Exception as error:
            if not is_known_topic(error):  # else it was made by a request that was given up
                raise unavailable("the auditor could not make its topics", error) from error
        finally:
            admin.close(self._java("java.time.Duration").ofMillis(0))

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

    def write(self, outputs: Sequence[SinkRecord]) -> None:
        """Write records in one transaction: readers see all of them or none.

        Raises:
            TransportUnavailableError: They could not be written.
            TransportFencedError: Another auditor of this mesh has begun to write.
        """
        if not outputs:
            return
        if self._is_fenced:
            raise TransportFencedError(_TAKEN_OVER)
        try:
            if self._producer is None:
                self._producer = self._open()
                self._producer.initTransactions()
            self._producer.beginTransaction()
            if len(outputs) < TOGETHER_MIN and self._alone < ALONE_MAX:
                self._alone += len(outputs)
                self._send_each(outputs)
            else:
                self._send_together(outputs)
            self._producer.commitTransaction()
        except Exception as error:
            self.close()  # the next one begins with a new producer, which ends open transactions
            if is_fenced(error):
                self._is_fenced = True  # writing on would end the other one
                raise TransportFencedError(_TAKEN_OVER) from error
            raise unavailable("the auditor could not write what it found", error) from error

    def _send_each(self, outputs: Sequence[SinkRecord]) -> None:
        record = self._java(f"{_CLIENTS}.producer.ProducerRecord")
        for output in outputs:
            self._producer.send(record(output.topic, output.key, output.value))

    def _send_together(self, outputs: Sequence[SinkRecord]) -> None:
        """Hand records over as one text.

        Individually each takes four calls, including those that release the record and the answer:
        with many endpoints, that was a fifth of all that the auditor's Python did.
        """
        if self._sender is None:
            told = {"producer": f"{_CLIENTS}.producer.Producer", "text": "java.lang.String"}
            self._sender = compiled(self.session, told, _SEND_ALL)
        for begin in range(0, len(outputs), TOGETHER_MAX):
            some = outputs[begin : begin + TOGETHER_MAX]
            text = "".join(
                f"{one.topic}{_END}{one.key}{_END}{one.value or ''}{_END}" for one in some
            )
            given = java_array(self.session, "java.lang.Object", self._producer, text)
            self._sender.evaluate(given)

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
        """Release the producer."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.close(self._java("java.time.Duration").ofSeconds(1))
            self._producer = None
