"""The Spark session of the auditor: in its process, or on a Spark cluster. Spec: DESIGN 10."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from mesh.errors import StartError
from streaming.connectors.java import java_class
from streaming.connectors.sequences import made_once

Progress = Callable[[str], None]

#: Small heaps work best with the serial collector; class data and code have bounds of their own.
STEADY_JVM = "-XX:+UseSerialGC -Xss512k -XX:ReservedCodeCacheSize=160m -XX:MaxMetaspaceSize=256m "

_AVRO = "-Dorg.apache.avro.limits."

BOUNDED = (
    f"{_AVRO}string.maxLength=1048576 {_AVRO}bytes.maxLength=16777216 "
    f"{_AVRO}collectionItems.maxLength=1048576"
)
"""What Avro may allocate for one string, one value of bytes and one collection, whatever length a
stranger's record claims: a length that no heap holds ends the JVM, one above a bound makes the
record unreadable. Records of the mesh stay far below: payloads are skipped, not read."""

YOUNG_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Compiles little: half the work until the first batch is done, and twice as much per record."""


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Plans are interpreted: writing and compiling code for each costs more than some ten thousand
records do. Nothing is broadcast unless requested: that takes a job."""


_OFTEN = ("col", "lit", "when", "coalesce", "octet_length", "max", "struct")
_OF_COLUMNS = {
    "org.apache.spark.sql.functions": _OFTEN,
    "functions": _OFTEN,
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
}
"""Classes of the JVM as PySpark names them, and their functions that it calls often."""


_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    # Filters of clients appear in expressions: `${...}` in one is text, not a reference.
    "spark.sql.variable.substitute": "false",
    "spark.sql.adaptive.enabled": "false",
    # A batch needs some 120 pieces of generated code. If more are needed than fit here, each batch
    # compiles half of them again, and the default is 100.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Ids are hexadecimal. The case tables of all languages take 2.5 seconds of the processor to
    # build, in each process.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    # One consumer per topic partition is reused in every batch: never close them early.
    "spark.kafka.consumer.cache.capacity": "4096",
    "spark.kafka.consumer.cache.timeout": "2m",
    # Recording the Python call site of every column would cost more than the columns.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""The settings of every session."""

_AT_HOME = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def _abroad(cores: int, memory: str) -> dict[str, str]:
    """Return what executors need on a Spark cluster; the driver provides their jars."""
    return {
        "spark.cores.max": str(cores),
        "spark.executor.memory": memory,
        "spark.executor.extraJavaOptions": f"{STEADY_JVM} {BOUNDED}",
        "spark.task.maxFailures": "1",  # a failed batch is restarted as a whole
    }


def packages() -> str:
    """Return the Maven names of Spark's Kafka source and Avro functions, at Spark's version."""
    version = pyspark.__version__
    names = ("spark-sql-kafka-0-10_2.13", "spark-avro_2.13")
    return ",".join(f"org.apache.spark:{name}:{version}" for name in names)


def start_session(
    cache: Path,
    *,
    cores: int = 2,
    memory: str = "1g",
    master: str = "",
    jvm: str = STEADY_JVM,
    compiles: bool = True,
    progress: Progress = lambda _: None,
) -> SparkSession:
    """Start Spark in this process, fetching its jars on the first start.

    Args:
        cache: Folder for the jars; Ivy gets a home of its own in it, because a half-filled
            local Maven repository makes resolution fail.
        cores: Task slots, and partitions of a shuffle.
        memory: Heap of the JVM, and of each executor on a Spark cluster.
        master: The Spark cluster; empty: none, all runs in this process.
        jvm: Further Java options, `STEADY_JVM` or `YOUNG_JVM`.
        compiles: Whether code is generated for plans; else they are `INTERPRETED`.
        progress: Notified of what is going on, in short lines.

    Raises:
        StartError: Java or the jars are not available.
    """
    ivy, listing = cache / "ivy-spark", _listing(cache)
    known = _known_jars(listing)
    # The worker's interpreter is this one, wherever it stands.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    progress(f"starting Spark {pyspark.__version__}" + ("" if known else ", resolving its jars"))
    is_here = not master or master.startswith("local")
    settings = {
        **_SETTINGS,
        **_jars(known, is_here=is_here),
        **(_AT_HOME if is_here else _abroad(cores, memory)),
        **({} if compiles else INTERPRETED),
        "spark.jars.ivy": str(ivy),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"{jvm} {BOUNDED}",
        "spark.sql.shuffle.partitions": str(cores),
    }
    builder = SparkSession.builder.master(master or f"local[{cores}]").appName("trellis-audit")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise StartError(
            "Spark did not start: it needs Java 17 and, the first time, its jars "
            f"{packages()} from Maven Central; see the lines above ({_first_line(error)})"
        ) from error
    if not known:
        _remember_jars(session, listing)
    _silence(session)
    _remember_classes(session)
    progress("Spark runs")
    return session


@contextmanager
def interpreted(session: SparkSession) -> Iterator[None]:
    """Have a session's plans `INTERPRETED` within the context; by one thread at a time.

    Code that is already compiled is generated again for each plan, and found by its text.
    """
    settings = session.conf
    before = {name: str(settings.get(name)) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        settings.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            settings.set(name, known)


def _jars(known: str, *, is_here: bool) -> Mapping[str, str]:
    """Return how the JVMs find the jars, listed in `known`, which may be empty.

    On the class path of a single JVM they need neither be served to it nor fetched, and a class
    data archive holds their classes too.
    """
    if not known:
        return {"spark.jars.packages": packages()}
    if is_here:
        return {"spark.driver.extraClassPath": known.replace(",", os.pathsep)}
    return {"spark.jars": known}


def knows_jars(cache: Path) -> bool:
    """Return whether a former start has resolved the jars."""
    return bool(_known_jars(_listing(cache)))


def _listing(cache: Path) -> Path:
    return cache / "ivy-spark" / f"jars-{pyspark.__version__}.txt"


def _known_jars(listing: Path) -> str:
    """Return the jars that an earlier start resolved, comma-separated, or an empty text.

    Later starts then need neither the network nor the seconds that resolving takes.
    """
    if not listing.is_file():
        return ""
    jars = [listing.parent / "jars" / name for name in listing.read_text("utf-8").split()]
    return ",".join(map(str, jars)) if all(jar.is_file() for jar in jars) else ""


def _remember_jars(session: SparkSession, listing: Path) -> None:
    jars = session.sparkContext._jsc.sc().listJars()  # noqa: SLF001  # not in Python's own API
    names = sorted(jars.apply(number).rsplit("/", 1)[-1] for number in range(jars.size()))
    if names and all((listing.parent / "jars" / name).is_file() for name in names):
        draft = listing.with_suffix(".draft")
        draft.write_text("\n".join(names), encoding="utf-8")
        draft.replace(listing)


def _silence(session: SparkSession) -> None:
    """Suppress the stack traces of failed queries: the code that restarts them reports it."""
    log4j = "org.apache.logging.log4j"
    off = java_class(session, f"{log4j}.Level").OFF
    name = "org.apache.spark.sql.execution.streaming.MicroBatchExecution"
    java_class(session, f"{log4j}.core.config.Configurator").setLevel(name, off)


def _remember_classes(session: SparkSession) -> None:
    """Cache the classes that columns are built with.

    py4j asks the JVM for a class whenever it is named, and for its function: half of the traffic
    between the two while a batch is prepared, and for a name without its package a search through
    all jars.
    """
    known = vars(session._jvm)  # noqa: SLF001  # not in Python's own API
    for name, functions in _OF_COLUMNS.items():
        known[name] = found = getattr(session._jvm, name)  # noqa: SLF001  # the same
        for function in functions:
            vars(found)[function] = getattr(found, function)
    utils = vars(session._jvm.PythonUtils)  # noqa: SLF001  # the same
    utils["toSeq"] = made_once(utils["toSeq"])


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
