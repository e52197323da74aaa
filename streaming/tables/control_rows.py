"""The rows of a batch without messages: nodes' records about themselves, and little else.

Most batches of a mesh at rest are like that. Their records are few, so no messages are parsed and
nothing is grouped: one pass turns each into a row, and Python finds the newest.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from streaming.tables.aggregates import minute_of
from streaming.tables.audited_keys import is_advert, is_kept, is_wanted, scope_of
from streaming.tables.cached_columns import cached_columns
from streaming.tables.columns import placed, size_column
from streaming.tables.topics import LEDGER


def control_rows(raw: DataFrame, prefix: str) -> DataFrame:
    """Return what `batch_rows` would for records that are no messages, small ones not yet grouped.

    Args:
        raw: Columns `topic, partition, offset, timestamp, key, value, headers` of Spark's Kafka
            source; records of topics with messages are ignored.
        prefix: Start of every topic name of the mesh.
    """
    told = placed(raw, prefix).withColumns(_told())
    return told.where(_is_row()).select(_row())


@cached_columns
def _is_row() -> Column:
    return F.col("of").isNotNull()


@cached_columns
def _told() -> dict[str, Column]:
    of = (
        F.when(F.col("topic_kind") == LEDGER, "ledger")
        .when(is_kept(), "small")
        .when(is_wanted(), "newest")
        .when(is_advert(), "minute")
    )
    return {"at_ms": F.unix_millis("timestamp"), "of": of}


@cached_columns
def _row() -> Column:
    is_small, is_minute = F.col("of").isin("small", "newest"), F.col("of") == "minute"
    row = F.struct(
        "of",
        "topic",
        "partition",
        "offset",
        "at_ms",
        F.when(is_small, F.col("key").cast("string")).alias("key"),
        F.when(~is_minute, F.base64("value")).alias("value"),
        F.when(is_minute, minute_of()).alias("minute"),
        F.when(is_minute, scope_of()).alias("scope"),
        F.when(is_minute, F.lit(1)).alias("messages"),
        F.when(is_minute, F.lit(0)).alias("repairs"),
        F.when(is_minute, size_column()).alias("size"),
    )
    return F.to_json(row).alias("row")
