"""What a former run of the auditor has told, where it has left no state.

That run would have taken back what no longer holds. A run that begins again has to know of it, or
it would stand for good.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import functions as F  # noqa: N812

from streaming.connectors import source
from streaming.connectors.logs import Logs
from streaming.job.reread_answers import answers_of
from streaming.tables.rows import TopicPartition

FORMER_MAX = 100_000
"""Findings that are taken over, the newest ones: strangers may have written more."""


def former_findings(logs: Logs, topic: str) -> Mapping[str, str]:
    """Return the kinds of the findings that stand in a topic, by id.

    Spark reads it, for the topic may be much larger than what stands in it.

    Raises:
        TransportUnavailableError: Kafka does not answer.
    """
    place = TopicPartition(topic, 0)
    begin = logs.beginnings([place]).get(place, 0)
    end = logs.stable_ends([place]).get(place, 0)
    if begin >= end:
        return {}
    records = source.again(logs.session, logs.kafka, {place: (begin, end)})
    id_ = F.col("key").cast("string")
    kind = F.get_json_object(F.col("value").cast("string"), "$.kind")
    newest = records.groupBy(id_.alias("id")).agg(
        F.max_by(kind, "offset").alias("kind"), F.max("offset").alias("offset")
    )
    standing = newest.where(F.col("kind").isNotNull() & F.col("id").rlike("^[0-9a-f]{16}$"))
    last = standing.orderBy(F.desc("offset")).limit(FORMER_MAX)
    return {one["id"]: one["kind"] for one in answers_of(last.select(F.to_json(F.struct("*"))))}
