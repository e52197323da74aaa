"""What Spark's checkpoint says about a micro-batch: how far each partition is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from streaming.tables.rows import TopicPartition


def has_plan(checkpoint: Path, batch: int) -> bool:
    """Return whether Spark still knows what it read up to a batch.

    Otherwise it would start over at batch 0, and its batches would be taken for repetitions by a
    state that has come further.
    """
    return (checkpoint / "offsets" / str(batch)).is_file()


def read_positions(checkpoint: Path, batch: int) -> Mapping[TopicPartition, int]:
    """Return the next offset of every topic partition after a batch.

    Spark writes the plan of a batch before it runs it: a version line, a line about the batch,
    then one line per source.

    Args:
        checkpoint: The query's checkpoint folder.
        batch: Number of a batch that has been planned.
    """
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    positions: dict[TopicPartition, int] = {}
    for line in lines[2:]:
        # A source without any topic yet appears as a dash.
        if not line.startswith("{"):
            continue
        for topic, partitions in json.loads(line).items():
            for partition, offset in partitions.items():
                positions[TopicPartition(topic, int(partition))] = offset
    return positions
