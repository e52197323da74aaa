"""The small rows of one micro-batch, by as little work as its records need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mesh.model.topology import Topology
from streaming.connectors.materialized import materialized
from streaming.connectors.session import interpreted
from streaming.tables.aggregates import batch_rows
from streaming.tables.bundles import Bundles
from streaming.tables.columns import parsed
from streaming.tables.control_rows import control_rows
from streaming.tables.rows import MicroBatch, read_batch


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What a batch is held against where it is read.

    Attributes:
        topology: The mesh.
        wanted: Endpoint topic -> what was ever asked for there, as a regular expression.
        asked: Outbox topic without its class -> what is asked for behind its link, likewise.
        bundles: How subjects are taken together; None: each alone.
    """

    topology: Topology
    wanted: Mapping[str, str]
    asked: Mapping[str, str]
    bundles: Bundles | None = None


def rows_of(
    records: DataFrame, known: BatchContext, kinds: Collection[str], tasks: int | None
) -> MicroBatch:
    """Return the small rows of a micro-batch.

    Args:
        records: The micro-batch.
        known: What it is held against.
        kinds: Of topics with messages that it has records of.
        tasks: That parse it side by side; None: it is small, so one makes all of it alone, by
            plans that are interpreted.
    """
    if tasks is not None:
        return _rows_of(records, known, kinds, tasks)
    with interpreted(records.sparkSession):
        return _rows_of(records, known, kinds, 1)


def _rows_of(
    records: DataFrame, known: BatchContext, kinds: Collection[str], tasks: int
) -> MicroBatch:
    prefix, records = known.topology.prefix, records.coalesce(tasks)
    if tasks == 1 and not kinds:
        return read_batch(row[0] for row in control_rows(records, prefix).collect())
    with materialized(parsed(records, prefix, known.topology.max_message_bytes)) as opened:
        told = (known.wanted, known.asked, kinds)
        rows = batch_rows(opened, *told, bundles=known.bundles, tasks=tasks)
        return read_batch(row[0] for row in rows.collect())
