"""Kafka's classes as the JVM keeps them once loaded: brokers start in half the time and CPU.

Java's own class data sharing does the work: a broker that is stopped at once leaves an archive
beside the jars, and every broker from then on maps it instead of reading and checking ten thousand
classes. A JVM refuses an archive that does not fit, and loads classes as ever.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mesh.errors import StartError
from mesh.local.broker_jvm import YOUNG_JVM
from mesh.local.embedded import EmbeddedKafka, start_together
from mesh.local.jars import KafkaSoftware, Progress, cache_folder, find_kafka, silent

STOP_DEADLINE_S = 60.0
"""The archive is written while the broker stops."""


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
    archive_classes(software, progress)
    return software


def archive_classes(software: KafkaSoftware, progress: Progress = silent) -> None:
    """Make the archive of this Java and these jars, unless it is there.

    Without one everything works, only slower: nothing is raised where none can be made.

    Args:
        software: Java and jars.
        progress: Called with a short line when it takes time.
    """
    with suppress(OSError, StartError):
        if software.class_archive is not None:
            return
        with (software.jars / f"{software.archive_name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if software.class_archive is None:  # somebody else may have been quicker
                progress("preparing Kafka's classes (once, some seconds)")
                _make(software)


def _make(software: KafkaSoftware) -> None:
    partial = software.jars / f"{software.archive_name}.{os.getpid()}"
    jvm = (*YOUNG_JVM, f"-XX:ArchiveClassesAtExit={partial}")
    try:
        with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
            kafka = EmbeddedKafka("classes", Path(folder), software, jvm=jvm)
            start_together([kafka])
            kafka.stop(STOP_DEADLINE_S)
        if any(process.returncode is None or process.returncode < 0 for process in kafka.processes):
            return  # half an archive, which would crash who maps it, as one cut short later would
        size = partial.stat().st_size
        partial.rename(software.jars / f"{software.archive_name}-{size}.jsa")
    finally:
        partial.unlink(missing_ok=True)
