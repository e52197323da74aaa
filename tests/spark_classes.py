"""Spark's classes as the JVM keeps them once loaded: a session starts with half the work.

`python -m tests.spark_classes` makes the archive of this Java and this PySpark, unless it is there;
every session that tests start finds it by SPARK_SUBMIT_OPTS. A JVM that it does not fit passes it over.
A session and its first job take 5.5 seconds of the processor with it, and 10 without.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mesh.errors import StartError
from mesh.local.jars import cache_folder

if TYPE_CHECKING:  # every run of tests looks for the archive: most need no Spark
    from pyspark.sql import SparkSession

WRITTEN_WITHIN_S = 120.0

QUIET = "-Xlog:disable"
"""Each class that no archive takes would be a line, and so each JVM that an archive does not fit."""


def options() -> str:
    """Return the Java options by which a JVM finds the archive, if there is one."""
    found = class_archive()
    return "" if found is None else f"{QUIET} -XX:SharedArchiveFile={found}"


def class_archive() -> Path | None:
    """Return the archive, if one was made and is there in full."""
    for found in _folder().glob(f"{_name()}-*.jsa"):
        if found.stem.rpartition("-")[2] == str(found.stat().st_size):
            return found
    return None


def _folder() -> Path:
    return cache_folder(os.environ.get("MESH_CACHE")) / "ivy-spark"


def _name() -> str:
    """Return what its name begins with: it is of one Java, and of jars in one place."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    made_ns = java.resolve().stat().st_mtime_ns if java.exists() else 0
    place = find_spec("pyspark")
    jars = "" if place is None else place.origin
    of = f"{java.resolve()} {made_ns} {version('pyspark')} {jars}"
    return f"classes-{hashlib.sha256(of.encode()).hexdigest()[:10]}"


def main() -> int:
    """Make the archive; without one all works, only slower."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{_name()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if class_archive() is not None:
            return 0
        partial = folder / f"{_name()}.{os.getpid()}"
        try:
            if _write(partial):
                for other in folder.glob("classes-*.jsa"):
                    other.unlink()  # of a former Java, or another checkout: they are large
                size = partial.stat().st_size
                partial.rename(folder / f"{_name()}-{size}.jsa")
        except StartError as error:
            sys.stderr.write(f"{error}\n")
        finally:
            partial.unlink(missing_ok=True)
    return 0


def _write(archive: Path) -> bool:
    """Have a JVM that has run a first job leave its classes; say whether it ended well."""
    from streaming.connectors.session import YOUNG_JVM, start_session

    cache = cache_folder(os.environ.get("MESH_CACHE"))
    jvm = f"{YOUNG_JVM} {QUIET} -XX:ArchiveClassesAtExit={archive}"
    session = start_session(cache, jvm=jvm, progress=print)
    _work(session)
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    return bool(gateway.proc.wait(WRITTEN_WITHIN_S) == 0)


def _work(session: SparkSession) -> None:
    """Do some of what the auditor does: queries over rows, made anew and joined, and JSON."""
    from pyspark.sql import functions as F

    rows = session.range(1_000).select("id", (F.col("id") % 7).alias("of"), F.lit(b"x").alias("v"))
    counts = rows.groupBy("of").agg(F.count("*").alias("n"), F.max("id").alias("last"))
    joined = rows.join(counts, "of").where(F.xxhash64("v", "id") != 0)
    joined.select(F.to_json(F.struct("of", "n", "last"))).distinct().collect()


if __name__ == "__main__":
    sys.exit(main())
