"""What runs on Java here, ready to start quickly: Kafka's brokers, and the auditor's Spark.

The archive of Kafka's classes is made by the first command that starts brokers, for it wins back at
once what it costs. That of Spark's takes longer: `python -m mesh.local.software` makes both, as
`make install` does, and `mesh demo` makes it when it is done.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from mesh.errors import StartError
from mesh.local.broker_jvm import YOUNG_JVM
from mesh.local.class_archive import ClassArchive, leave, use
from mesh.local.embedded import EmbeddedKafka, start_together
from mesh.local.jars import KafkaSoftware, Progress, cache_folder, find_kafka, silent
from mesh.local.processes import spawn

STOP_DEADLINE_S = 60.0
"""The archive is written while the broker stops."""

SPARK_DEADLINE_S = 240.0

QUIET = "-Xlog:disable"
"""Each class that no archive takes would be a line, and each JVM that an archive does not fit."""


def prepare_kafka(
    environment: Mapping[str, str] = os.environ, progress: Progress = silent
) -> KafkaSoftware:
    """Return Java and Kafka's jars as `find_kafka`, with the archive of their classes.

    Args:
        environment: `MESH_CACHE` and `JAVA_HOME` count.
        progress: Called with short lines about what is going on.

    Raises:
        StartError: As `find_kafka`.
    """
    software = find_kafka(
        cache=cache_folder(environment.get("MESH_CACHE")),
        java_home=environment.get("JAVA_HOME"),
        progress=progress,
    )
    archive_kafka(software, progress)
    return software


def archive_kafka(software: KafkaSoftware, progress: Progress = silent) -> None:
    """Make the archive of Kafka's classes, unless it is there or cannot be made.

    Args:
        software: Java and jars.
        progress: Called with a short line when it takes time.
    """

    def write(archive: Path) -> bool:
        progress("preparing Kafka's classes (once, some seconds)")
        with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
            jvm = (*YOUNG_JVM, leave(archive))
            kafka = EmbeddedKafka("classes", Path(folder), software, jvm=jvm)
            start_together([kafka])
            kafka.stop(STOP_DEADLINE_S)
        codes = [process.returncode for process in kafka.processes]
        return all(code is not None and code >= 0 for code in codes)

    software.classes.make(write)


def spark_classes(environment: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """Return where the archive of Spark's classes is, or will be; None without Spark or Java."""
    home, pyspark = environment.get("JAVA_HOME"), find_spec("pyspark")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if pyspark is None or pyspark.origin is None or java is None:
        return None
    try:
        # The same version installed again in the same place has other times: a JVM looks at these.
        installed_ns = Path(pyspark.origin).stat().st_mtime_ns
        of = f"{version('pyspark')} {pyspark.origin} {installed_ns}"
    except (PackageNotFoundError, OSError):
        return None
    folder = cache_folder(environment.get("MESH_CACHE")) / "ivy-spark"
    return ClassArchive(folder=folder, java=Path(java), of=of)


def archive_spark(progress: Progress = silent) -> None:
    """Make the archive of Spark's classes, unless it is there or cannot be made.

    Args:
        progress: Called with a short line when it takes time.
    """
    classes = spark_classes()
    if classes is None:
        return

    def write(archive: Path) -> bool:
        progress("preparing Spark's classes for later starts (once, some ten seconds)")
        with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
            process = spawn(
                [sys.executable, "-m", "streaming.job.classes", f"{QUIET} {leave(archive)}"],
                name="a first Spark",
                log=Path(folder, "spark.log"),
                env=os.environ,
            )
            try:
                return process.wait(SPARK_DEADLINE_S) and process.returncode == 0
            finally:
                process.kill()

    classes.make(write)


def with_spark_classes(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Return the environment of a process whose Spark maps the archive, if there is one."""
    classes = spark_classes(environment)
    archive = None if classes is None else classes.find()
    if archive is None:
        return environment
    given = environment.get("SPARK_SUBMIT_OPTS", "")
    if use(archive) in given:
        return environment
    return {**environment, "SPARK_SUBMIT_OPTS": f"{given} {QUIET} {use(archive)}".strip()}


def main() -> int:
    """Make both archives; without them all works, only slower."""

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    try:
        prepare_kafka(progress=tell)
    except StartError as error:
        tell(f"{error}; it is tried again when it is needed")
        return 0
    archive_spark(progress=tell)
    return 0


if __name__ == "__main__":
    sys.exit(main())
