"""`python -m streaming.job.classes OPTIONS`: a JVM that loads what an auditor loads, and ends.

With Java's option to leave an archive of its classes it makes one; later sessions map that and
start with a third of the work. Kafka need not be there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mesh.model.topics import TopicNames
from streaming.config import cache_of
from streaming.connectors.java import java_class
from streaming.connectors.materialized import materialized
from streaming.connectors.session import INTERPRETED, YOUNG_JVM, knows_jars, start_session
from streaming.connectors.source import nothing
from streaming.tables.aggregates import batch_rows
from streaming.tables.columns import parsed
from streaming.tables.control_rows import control_rows

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

ENDED_WITHIN_S = 120.0
"""A JVM that leaves an archive writes it when it ends."""

NOWHERE = "127.0.0.1:9"
"""No broker: a client is made, which loads what it is made of, and closed."""


def main() -> int:
    """Run the JVM with the options of the command line, and return its exit code."""
    cache = cache_of(os.environ)
    if not knows_jars(cache):
        end(start_session(cache))  # their place on the class path is known from now on
    session = start_session(cache, jvm=f"{YOUNG_JVM} {' '.join(sys.argv[1:])}")
    _take_a_batch(session)
    _make_clients(session)
    return end(session)


def end(session: SparkSession) -> int:
    """Stop a session and its JVM, and return the exit code of that; another one can start then."""
    context: type[SparkContext] = type(session.sparkContext)
    gateway = context._gateway  # noqa: SLF001  # not in Python's own API
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    context._gateway = context._jvm = None  # noqa: SLF001
    return int(gateway.proc.wait(ENDED_WITHIN_S))


def _take_a_batch(session: SparkSession) -> None:
    """Take one micro-batch as the auditor does, of records of no topic."""
    columns = nothing(session).schema
    prefix = "mesh."
    wanted = {TopicNames(prefix).endpoint("a", "x"): ".*"}

    def take(lines: DataFrame, _: int) -> None:
        records = lines.selectExpr(
            *(f"cast(null as {one.dataType.simpleString()}) as `{one.name}`" for one in columns)
        )
        control_rows(records, prefix).collect()
        for _ in range(2):  # by code for it, and without
            with materialized(parsed(records.coalesce(1), prefix, 1_000_000)) as opened:
                batch_rows(opened, wanted, {}, tasks=1).collect()
            for name, value in INTERPRETED.items():
                lines.sparkSession.conf.set(name, value)

    with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
        read = Path(folder, "read")
        read.mkdir()
        (read / "one").write_text("a line\n", encoding="utf-8")
        stream = session.readStream.text(str(read)).writeStream.foreachBatch(take)
        kept_at = stream.option("checkpointLocation", str(Path(folder, "checkpoint")))
        kept_at.trigger(availableNow=True).start().awaitTermination()


def _make_clients(session: SparkSession) -> None:
    kind, clients = "org.apache.kafka.common.serialization.", "org.apache.kafka.clients"
    settings = java_class(session, "java.util.Properties")()
    settings.setProperty("bootstrap.servers", NOWHERE)
    for side, form in (("key", "String"), ("value", "String")):
        settings.setProperty(f"{side}.serializer", f"{kind}{form}Serializer")
        settings.setProperty(f"{side}.deserializer", f"{kind}{form}Deserializer")
    for made in (
        java_class(session, f"{clients}.admin.Admin").create(settings),
        java_class(session, f"{clients}.producer.KafkaProducer")(settings),
        java_class(session, f"{clients}.consumer.KafkaConsumer")(settings),
    ):
        made.close()


if __name__ == "__main__":
    sys.exit(main())
