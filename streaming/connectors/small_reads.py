"""Small reads: a client that stays connected reads a few records again.

A Spark job requests metadata, connects and fetches again for every partition of every read, which
for a handful of records takes longer than everything that is derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming.connectors.failures import unavailable
from streaming.connectors.java import compiled, java_array, java_class
from streaming.connectors.source import SCHEMA, Ranges

SMALL_OFFSETS_MAX = 10_000
"""Maximum number of offsets of a small read: more are worth a job."""

SMALL_BYTES_MAX = 4_000_000
"""Maximum number of bytes of a small read: they are all held at once."""

READ_TIMEOUT_MS = 10_000
"""How long a Kafka cluster may take for a small read, in milliseconds."""

_KAFKA = "org.apache.kafka"

_READ = f"""
java.util.Map ends = new java.util.HashMap();
String[] parts = text.split(" ");
for (int at = 0; at + 3 < parts.length; at += 4) {{
    {_KAFKA}.common.TopicPartition place = new {_KAFKA}.common.TopicPartition(
        parts[at], Integer.parseInt(parts[at + 1]));
    ends.put(place, Long.valueOf(parts[at + 3]));
}}
consumer.assign(ends.keySet());
consumer.resume(ends.keySet());
java.util.Map stable = consumer.endOffsets(ends.keySet());
for (int at = 0; at + 3 < parts.length; at += 4) {{
    {_KAFKA}.common.TopicPartition place = new {_KAFKA}.common.TopicPartition(
        parts[at], Integer.parseInt(parts[at + 1]));
    long end = Math.min(((Long) ends.get(place)).longValue(),
        ((Long) stable.get(place)).longValue());
    ends.put(place, Long.valueOf(end));
    consumer.seek(place, Long.parseLong(parts[at + 2]));
}}
java.util.List rows = new java.util.ArrayList();
long until = System.currentTimeMillis() + {READ_TIMEOUT_MS}L;
long bytes = 0L;
while (true) {{
    java.util.Iterator open = new java.util.ArrayList(ends.keySet()).iterator();
    while (open.hasNext()) {{
        {_KAFKA}.common.TopicPartition place = ({_KAFKA}.common.TopicPartition) open.next();
        if (consumer.position(place) >= ((Long) ends.get(place)).longValue()) {{
            ends.remove(place);
            consumer.pause(java.util.Collections.singletonList(place));
        }}
    }}
    if (ends.isEmpty()) return rows;
    if (System.currentTimeMillis() > until)
        throw new RuntimeException("not read in time: " + ends.keySet());
    java.util.Iterator found = consumer.poll(java.time.Duration.ofMillis(100L)).iterator();
    while (found.hasNext()) {{
        {_KAFKA}.clients.consumer.ConsumerRecord record =
            ({_KAFKA}.clients.consumer.ConsumerRecord) found.next();
        Long end = (Long) ends.get(new {_KAFKA}.common.TopicPartition(
            record.topic(), record.partition()));
        if (end == null || record.offset() >= end.longValue()) continue;
        byte[] key = (byte[]) record.key();
        byte[] value = (byte[]) record.value();
        bytes += (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
        {_KAFKA}.common.header.Header[] told = record.headers().toArray();
        java.util.List headers = told.length == 0 ? null : new java.util.ArrayList();
        for (int one = 0; one < told.length; one++) {{
            bytes += told[one].key().length();
            if (told[one].value() != null) bytes += told[one].value().length;
            headers.add(org.apache.spark.sql.RowFactory.create(
                new Object[] {{told[one].key(), told[one].value()}}));
        }}
        if (bytes > {SMALL_BYTES_MAX}L) return null;
        rows.add(org.apache.spark.sql.RowFactory.create(new Object[] {{
            record.topic(), Integer.valueOf(record.partition()), Long.valueOf(record.offset()),
            new java.sql.Timestamp(record.timestamp()), key, value, headers}}));
    }}
}}
"""


def is_small_read(ranges: Ranges) -> bool:
    """Return whether ranges are too small to be worth a job."""
    return sum(end - first for first, end in ranges.values()) <= SMALL_OFFSETS_MAX


@dataclass(slots=True)
class SmallReader:
    """Reads from one Kafka cluster; by one thread at a time.

    Attributes:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    _consumer: Any = field(default=None, repr=False)
    _reader: Any = field(default=None, repr=False)

    def read(self, ranges: Ranges) -> DataFrame | None:
        """Return the committed records of some ranges; None where they are too large.

        Args:
            ranges: What to read; each begins at or after a record that still exists.

        Raises:
            TransportUnavailableError: Kafka does not answer, or no longer has the beginnings.
        """
        text = " ".join(
            f"{place.topic} {place.partition} {first} {end}"
            for place, (first, end) in sorted(ranges.items())
        )
        try:
            if self._consumer is None:
                self._consumer = self._open()
            given = java_array(self.session, "java.lang.Object", self._consumer, text)
            rows = self._compiled().evaluate(given)
            return None if rows is None else self._frame(rows)
        except Exception as error:
            self.close()
            raise unavailable("could not read again", error) from error

    def _frame(self, rows: Any) -> DataFrame:
        types = java_class(self.session, "org.apache.spark.sql.types.StructType")
        # Not in Python's own API, whose rows would start Python workers.
        made = self.session._jsparkSession.createDataFrame(rows, types.fromDDL(SCHEMA))  # noqa: SLF001
        return DataFrame(made, self.session)

    def _compiled(self) -> Any:
        if self._reader is None:
            told = {"consumer": f"{_KAFKA}.clients.consumer.Consumer", "text": "java.lang.String"}
            self._reader = compiled(self.session, told, _READ, is_answering=True)
        return self._reader

    def _open(self) -> Any:
        bytes_ = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        more = {
            "key.deserializer": bytes_,
            "value.deserializer": bytes_,
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "auto.offset.reset": "none",
            "fetch.max.wait.ms": "10",
            "max.poll.records": "5000",
            "default.api.timeout.ms": str(READ_TIMEOUT_MS),
            "request.timeout.ms": str(READ_TIMEOUT_MS),
            "enable.metrics.push": "false",
            "auto.include.jmx.reporter": "false",
            "client.id": "mesh-audit-again",
        }
        properties = java_class(self.session, "java.util.Properties")()
        for name, value in {**self.kafka, **more}.items():
            properties.setProperty(name, value)
        return java_class(self.session, f"{_KAFKA}.clients.consumer.KafkaConsumer")(properties)

    def close(self) -> None:
        """Release the client."""
        if self._consumer is not None:
            self._consumer.close(java_class(self.session, "java.time.Duration").ofMillis(0))
            self._consumer = None
