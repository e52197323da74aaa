"""A frame that is computed once and read often; plans know only its columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@contextmanager
def materialized(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute a frame once, for as long as the context lasts.

    With `persist` each frame derived from this one would carry its whole plan along, to be analysed
    and compared with the cache again and again: for small batches that is most of the work.
    """
    made = frame.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)
    try:
        yield made
    finally:
        # Not in Python's own API; otherwise it would stay until the JVM collects garbage.
        made._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: SLF001
