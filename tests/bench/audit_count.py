"""`python -m tests.bench.audit_count ADDRESS PREFIX BATCH MEMORY`: Spark's own Kafka source counts.

In micro-batches of as many records as the auditor takes, of the same topics, by the same client and
in a JVM of the same settings; told are the moment after each batch and what had been used by then.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import psutil

from streaming.config import cache_of
from streaming.connectors.logs import Logs
from streaming.connectors.session import start_session
from streaming.connectors.source import live
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.tables.topics import audited_pattern
from tests.bench.meter import cpu_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORES = 2


def main() -> None:
    """Count what the arguments say; print the steps as JSON."""
    address, prefix, batch, memory = sys.argv[1:]
    session = start_session(cache_of(os.environ), cores=CORES, memory=memory)
    pids = [os.getpid(), *(one.pid for one in psutil.Process().children(recursive=True))]
    steps: list[tuple[float, int, float]] = []

    def take(records: DataFrame, _: int) -> None:
        known = steps[-1][1] if steps else 0
        count = known + records.count()
        steps.append((time.monotonic(), count, sum(map(cpu_s, pids))))

    kafka = {"bootstrap.servers": address}
    kafka_clusters = AuditedKafkaClusters(prefix, {"k1": Logs(session, kafka)})
    count = len(kafka_clusters.places("k1", lambda _: True))
    reader = live(session, kafka, audited_pattern(prefix), int(batch), count)
    with tempfile.TemporaryDirectory(prefix="mesh-bench-") as folder:
        query = reader.writeStream.foreachBatch(take).option("checkpointLocation", folder)
        query.trigger(availableNow=True).start().awaitTermination()
    session.stop()
    json.dump(steps, sys.stdout)


if __name__ == "__main__":
    main()
