"""What a batch costs before it has read a record."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from streaming.connectors.materialized import materialized
from streaming.connectors.session import INTERPRETED
from streaming.job import batches
from streaming.tables.aggregates import DATA_KINDS, batch_rows, delivery_rows, ingress_rows
from streaming.tables.bundles import Bundles
from streaming.tables.columns import parsed
from streaming.tables.control_rows import control_rows
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.filters import ALL, Filters
from streaming.tables.rows import TopicPartition, read_batch
from tests.streaming.conftest import kafka_frame
from tests.streaming.planted import Plant, chain_topology

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
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)
    assert rows[0] == rows[1] > 0
    assert pieces == 0


def test_plans_of_a_small_batch_are_interpreted_and_no_others(spark, monkeypatch):
    """They say the same; and what holds for other plans of the session holds again."""
    setting, seen, rows_by = "spark.sql.codegen.wholeStage", [], batches.batch_rows

    def rows_of(*frames, **more):
        seen.append((spark.conf.get(setting), more["tasks"]))
        return rows_by(*frames, **more)

    monkeypatch.setattr(batches, "batch_rows", rows_of)
    plant = Plant()
    plant.carry(3, ["c/s1"], lost=[1])
    spark.conf.set(setting, "true")
    try:
        records, known = kafka_frame(spark, plant), batches.BatchContext(chain_topology(), {}, {})
        few, more = (batches.rows_of(records, known, DATA_KINDS, tasks) for tasks in (None, 2))
        assert spark.conf.get(setting) == "true"
    finally:
        spark.conf.set(setting, INTERPRETED[setting])
    assert seen == [("false", 1), ("true", 2)]
    assert few == more
    assert few.deliveries


def test_one_task_makes_the_rows_of_a_small_batch_and_shares_nothing_out(spark, plant):
    """They are the same as those of several tasks, of which each gets a share."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[2])
    plant.carry(5, ["c/s1"], partition=1)
    plant.publish("a", "acme/x", letter="d")
    plant.deliver("c/s1", [0, 9], ["a", "b", "c"], origin="a.in.d", subject="other/x")
    plant.frame("a->b", [3, 4], path=["a"], source="a.in.g", previous=20)
    plant.put("b.ep.s1", 0, b"k", b"by hand")
    plant.beat()
    asked = {"mesh.a.to.b": "nothing"}
    records = kafka_frame(spark, plant)
    with materialized(parsed(records.coalesce(1), "mesh.", 1_000_000)) as opened:
        alone = batch_rows(opened, {}, asked, tasks=1)
        plan = alone._jdf.queryExecution().executedPlan().toString()
        rows = sorted(row[0] for row in alone.collect())
    with materialized(parsed(records.repartition(3), "mesh.", 1_000_000)) as opened:
        assert sorted(row[0] for row in batch_rows(opened, {}, asked).collect()) == rows
    assert "hashpartitioning" not in plan
    assert len(rows) > 20


def test_what_an_endpoint_got_of_many_blocks_is_one_row(spark):
    """Each row that reaches Python costs as much as ten entries of one."""
    plant = Plant()
    plant.logs["mesh.a.in.g", 0] = [None] * (BLOCK_OFFSETS - 2)
    for subject in ("acme/x", "acme/y"):
        plant.carry(4, ["b/s1", "c/s1"], subject=subject)
    opened = parsed(kafka_frame(spark, plant), "mesh.", 1_000_000)
    lines = [row[0] for row in batch_rows(opened, {}, {}).collect()]
    batch = read_batch(lines)
    assert Counter(json.loads(one)["of"] for one in lines)["delivery"] == 2
    assert [(row.place.topic, row.block, row.digest.count) for row in batch.deliveries] == [
        *(("mesh.b.ep.s1", 0, 2), ("mesh.c.ep.s1", 0, 2)),
        *(("mesh.b.ep.s1", 1, 6), ("mesh.c.ep.s1", 1, 6)),
    ]
    assert [(row.block, row.subject, row.digest.count) for row in batch.ingress] == [
        *((0, "acme/x", 2), (1, "acme/x", 2), (1, "acme/y", 4)),
    ]


@pytest.mark.parametrize("is_bundled", [False, True])
def test_what_was_published_is_summed_up_before_it_is_shared_out(spark, is_bundled):
    """By a hash table, which holds no text but its keys: else all of it would be sorted, twice."""
    plant, filters = Plant(), Filters()
    filters.know(["acme/>"])
    plant.carry(4, ["c/s1"])
    bundles = Bundles(filters.by_shape(), filters.known) if is_bundled else None
    opened = parsed(kafka_frame(spark, plant), "mesh.", 1_000_000)
    rows = ingress_rows(opened, bundles)
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "Sort" not in plan
    (row,) = read_batch(one[0] for one in rows.collect()).ingress
    told = (None, "acme/>", 1) if is_bundled else ("acme/x", None, ALL)
    assert (row.subject, row.selected, row.known) == told


def test_what_endpoints_got_is_shared_out_once(spark):
    """What makes its order known makes it one row as well."""
    plant = Plant()
    plant.carry(4, ["c/s1"])
    opened = parsed(kafka_frame(spark, plant).repartition(2), "mesh.", 1_000_000)
    plan = delivery_rows(opened)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning") == 1


def test_a_batch_without_messages_says_the_same_by_less_work(spark, plant):
    """Nothing is parsed, kept or grouped: what a mesh at rest says costs a fifth of a batch."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.subscribe("c", "s1", "acme/>")
    for key in (b"advert own acme/>", b"advert own acme/>", b"advert Z x/*", b"advert own $node/u"):
        plant.put("a.control", 0, key, b"v")
    plant.put("a.control", 0, b"stop in.g 0", None)
    plant.put("a.control", 0, None, b"by hand")
    plant.put("a.to.b.c", 0, b"repair aa 1 2 guaranteed", b"v")
    plant.put("a.progress", 0, b"else", b"v")
    for _ in range(2):
        plant.beat()
    records = kafka_frame(spark, plant)
    with materialized(parsed(records.coalesce(1), "mesh.", 1_000_000)) as opened:
        alone = batch_rows(opened, {}, {}, [], tasks=1)
        batch = read_batch(row[0] for row in alone.collect())
    resting = control_rows(records.coalesce(1), "mesh.")
    plan = resting._jdf.queryExecution().executedPlan().toString()
    found = read_batch(row[0] for row in resting.collect())
    assert "Aggregate" not in plan
    assert "Exchange" not in plan
    assert (found.small, found.ledgers) == (batch.small, batch.ledgers)
    assert len(found.ledgers) > 0
    words = {one.key.split()[0] for one in found.small}
    assert words >= {"heartbeat", "identity", "repair", "stop", "s1"}

    def counted(rows):
        return {
            (one.place, one.minute, one.scope): (
                sum(each.messages for each in rows if each.scope == one.scope),
                sum(each.size for each in rows if each.scope == one.scope),
                one.repairs,
            )
            for one in rows
        }

    assert counted(found.minutes) == counted(batch.minutes)
    assert {one.scope: one.messages for one in batch.minutes} == {"own": 2, "Z": 1}


def test_tables_of_topics_with_nothing_new_are_not_made(bench, plant, monkeypatch):
    """A table costs as much for no record as for a hundred, and a mesh at rest only beats."""
    made = []

    def noted(records, wanted, asked, kinds, **more):
        made.append(sorted(kinds))
        return batch_rows(records, wanted, asked, kinds, **more)

    monkeypatch.setattr(batches, "batch_rows", noted)
    plant.beat()
    bench.take()
    assert made == []
    plant.carry(1, ["b/s1"])
    bench.take()
    assert made == [sorted(DATA_KINDS)]
    plant.publish("a", "acme/x")
    bench.take()
    assert made[1:] == [["in"]]
    (tally,) = bench.auditor.state.certifier.blocks.open["mesh.a.in.g", 0][0].subjects.values()
    assert tally.digest.count == 2
    place = TopicPartition("mesh.a.in.g", 0)
    bench.auditor.state.read[place] += 7  # and Spark goes back, for the log has lost its end
    assert bench.auditor._kinds({place: 2, TopicPartition("mesh.a.ep.x", 0): 0}) == {"in"}
