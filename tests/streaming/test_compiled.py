"""What a batch costs before it has read a record."""

from __future__ import annotations

import pytest

from streaming.job import auditor
from streaming.tables.aggregates import DATA_ROLES, batch_rows
from streaming.tables.columns import parsed
from streaming.tables.rows import TopicPartition
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


def test_tables_of_topics_with_nothing_new_are_not_made(bench, plant, monkeypatch):
    """A table costs as much for no record as for a hundred, and a mesh at rest only beats."""
    made = []

    def noted(records, wanted, asked, roles):
        made.append(sorted(roles))
        return batch_rows(records, wanted, asked, roles)

    monkeypatch.setattr(auditor, "batch_rows", noted)
    plant.beat()
    bench.take()
    assert made == [[], []]  # of both Kafka clusters
    plant.carry(1, ["b/s1"])
    bench.take()
    assert made[2:] == [sorted(DATA_ROLES), []]
    plant.publish("a", "acme/x")
    bench.take()
    assert made[4:] == [["in"]]
    (tally,) = bench.auditor.state.certifier.blocks.open["mesh.a.in.g", 0][0].subjects.values()
    assert tally.digest.count == 2
    place = TopicPartition("mesh.a.in.g", 0)
    bench.auditor.state.read[place] += 7  # and Spark goes back, for the log has lost its end
    assert bench.auditor._roles({place: 2, TopicPartition("mesh.a.ep.x", 0): 0}) == {"in"}
