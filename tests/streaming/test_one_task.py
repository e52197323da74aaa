"""What is few is read again by one task: no stage before it, and no job beside it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.rereads import Rereader
from streaming.tables import exact
from streaming.tables.columns import parsed
from tests.streaming.conftest import kafka_frame
from tests.streaming.planted import Plant, chain_topology

CASE = (0, "mesh.a.in.g", 0, 0, 2, 4095, " mesh.c.ep.s1 ", "00", False, False)
WANT = (0, "^acme/.*$", 0, 4095, True)
DELIVERY = (0, "mesh.c.ep.s1", 0, "00", 0, 0, 0)


def outcomes(records: DataFrame, reader: Rereader) -> DataFrame:
    return exact.case_outcomes(
        parsed(records, "mesh.", 1_000_000),
        reader._requests([CASE], exact.CASES),
        reader._requests([WANT], exact.WANTS),
        reader._requests([(0, 0, 0)], exact.GENERATIONS),
        is_alone=True,
    )


def deliveries(records: DataFrame, reader: Rereader) -> DataFrame:
    requests = reader._requests([DELIVERY], exact.DELIVERY_REQUESTS)
    return exact.delivery_faults(parsed(records, "mesh.", 1_000_000), requests, is_alone=True)


@pytest.mark.parametrize("read", [outcomes, deliveries])
def test_nothing_is_shared_out(spark: SparkSession, plant: Plant, read) -> None:
    plant.carry(3, ["c/s1"])
    reader = Rereader(spark, chain_topology(), AuditedKafkaClusters("mesh."), {})
    found = read(kafka_frame(spark, plant).coalesce(1), reader)
    assert "Exchange" not in found._jdf.queryExecution().executedPlan().toString()
