"""Faults planted in random meshes that really ran: each is found, and nothing else. DESIGN 7.

Many more: `python -m tests.streaming --count 200`.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from streaming.job.batches import BatchContext, rows_of
from streaming.tables.aggregates import DATA_KINDS
from streaming.tables.digest import Digest
from streaming.tables.rows import MicroBatch, TopicPartition
from tests.component.streaming.plain_rows import Rows, Seen
from tests.streaming.conftest import kafka_frame
from tests.streaming.drawn import copy_of, draw
from tests.streaming.faults import PLANTED
from tests.streaming.planted import Plant
from tests.streaming.trial import Account, Trial

pytestmark = pytest.mark.spark


def test_a_fault_of_each_kind_is_found_in_a_drawn_mesh_and_nothing_else(spark, tmp_path):
    """Healthy, it is certified, and nothing is found however long it stands."""
    account = Account()
    Trial(spark, tmp_path, "suite/0", account).run()
    assert account.wrong == []
    assert len(account.planted) > len(PLANTED)
    assert account.certified > 0


def counted(batch: MicroBatch) -> dict[str, list[str]]:
    """Return rows as text, in order; of digests only how many messages they are of."""

    def told(row):
        if hasattr(row, "digest"):
            return row._replace(digest=Digest(row.digest.count))
        return row

    minutes = [one for one in batch.minutes if one.scope is None]
    tables = replace(batch, minutes=minutes)
    return {
        one.name: sorted(str(told(row)) for row in getattr(tables, one.name))
        for one in fields(MicroBatch)
    }


def test_python_alone_makes_the_rows_that_spark_makes(spark):
    """Else thousands of meshes that are judged without Spark would prove nothing of it."""
    drawn = draw(random.Random("rows"))
    drawn.subscribe()
    drawn.publish(2)
    drawn.rest()
    plant, prefix = Plant(), drawn.mesh.topology.prefix
    copy_of(drawn.mesh, plant)
    drawn.mesh.close()
    known = BatchContext(drawn.mesh.topology, {}, {})
    seen = [
        Seen(TopicPartition(*at), offset, record, prefix)
        for at, log in plant.logs.items()
        for offset, record in enumerate(log)
        if record is not None
    ]
    by_spark = rows_of(kafka_frame(spark, plant), known, DATA_KINDS, 1)
    assert counted(Rows(seen, known).batch()) == counted(by_spark)
