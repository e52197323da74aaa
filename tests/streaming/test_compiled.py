"""What a batch costs before it has read a record."""

from __future__ import annotations

import pytest

from streaming.tables.aggregates import batch_rows
from streaming.tables.columns import parsed
from tests.streaming.conftest import kafka_frame
from tests.streaming.planted import Plant

pytestmark = pytest.mark.spark


def test_code_is_generated_once_and_not_for_every_batch(spark):
    """Spark keeps so many pieces of it; one more, and each batch compiles many of them anew."""
    plant = Plant()
    plant.carry(1, ["c/s1"])
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    try:
        rows = []
        for _ in range(2):
            before = compiled.getCount()
            records = parsed(kafka_frame(spark, plant), "mesh.", 1_000_000)
            rows.append(len(batch_rows(records, {}, {"mesh.a.to.b": ">"}).collect()))
            pieces = compiled.getCount() - before
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    assert rows[0] == rows[1] > 0
    assert pieces == 0
