"""Where the logs of Kafka begin now: what was deleted before somebody read it cannot be audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mesh.errors import TransportUnavailableError
from streaming.tables.rows import TopicPartition


def beginnings(
    session: SparkSession, kafka: Mapping[str, str], places: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return the first offset that is still there, of partitions that exist.

    Args:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
        places: Partitions of one Kafka cluster.

    Raises:
        TransportUnavailableError: Kafka does not answer.
    """
    jvm: Any = session._jvm  # noqa: SLF001  # the only door to the JVM's own classes
    properties = jvm.java.util.Properties()
    for name, value in kafka.items():
        properties.setProperty(name, value)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    earliest = jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest()
    partition_of = jvm.org.apache.kafka.common.TopicPartition
    wanted = jvm.java.util.HashMap()
    keys = {place: partition_of(*place) for place in places}
    for key in keys.values():
        wanted.put(key, earliest)
    try:
        answer = admin.listOffsets(wanted)
        return {place: found for place, key in keys.items() if (found := _offset(answer, key)) >= 0}
    finally:
        admin.close()


def _offset(answer: Any, key: Any) -> int:
    """Return one partition's offset, or -1 if the partition is gone."""
    try:
        return int(answer.partitionResult(key).get().offset())
    except Exception as error:
        if "UnknownTopicOrPartition" in str(error):
            return -1
        reason = str(error).strip().split("\n")[0][:300]
        raise TransportUnavailableError(f"Kafka did not say where logs begin: {reason}") from error
