"""Apache Kafka's jars: fetched once from Maven Central into a cache, never half.

The work is done by the Ivy that PySpark ships. A set of jars is one folder; it appears under its
final name by a rename, after everything is there, so whoever sees it may use it. One lock per
cache keeps two processes from doing the same work; whatever a killed one left behind is swept by
the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from mesh.errors import StartError, missing_package
from mesh.local.class_archive import ClassArchive
from mesh.local.java import find_java
from mesh.local.processes import Process, spawn

# Not 4.3: its brokers may lose the commit marker of a transaction when they restart after kill -9
# (KAFKA-20734), and whoever reads committed records waits for ever. Seen in 2 of 5 kills with
# 4.3.0, in none with 4.2; tests/kafka/test_embedded.py watches over it.
KAFKA_VERSION = "4.2.1"
_SLF4J_VERSION = "1.7.36"  # the API version that Kafka brings; without a binding nothing is logged
_FETCH_DEADLINE_S = 900.0
_POLL_S = 0.2
_LISTING = "jars.txt"

Progress = Callable[[str], None]


def silent(_message: str) -> None:
    """Ignore a progress message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """A set of Maven artifacts (with all they need) that is fetched and used together."""

    name: str
    artifacts: tuple[tuple[str, str, str], ...]

    def ivy_file(self) -> str:
        """Return the set as an Ivy module, also the content that its folder's name is made of."""
        lines = [
            f'    <dependency org="{group}" name="{artifact}" rev="{version}"'
            ' conf="default->default,runtime"/>'
            for group, artifact, version in self.artifacts
        ]
        return "\n".join(
            [
                '<ivy-module version="2.0">',
                f'  <info organisation="trellis" module="{self.name}"/>',
                '  <configurations><conf name="default"/></configurations>',
                "  <dependencies>",
                *lines,
                "  </dependencies>",
                "</ivy-module>\n",
            ]
        )

    def folder_name(self) -> str:
        """Return a name that changes with the content."""
        return f"{self.name}-{hashlib.sha256(self.ivy_file().encode()).hexdigest()[:10]}"


BROKER_JARS = JarSet(
    name=f"kafka-{KAFKA_VERSION}",
    artifacts=(
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", _SLF4J_VERSION),
    ),
)
"""A broker and its storage tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSoftware:
    """What it takes to run a class of Kafka: a Java and a folder of jars."""

    java: Path
    jars: Path

    @property
    def classpath(self) -> str:
        """Return the class path for ``java -cp``."""
        return str(self.jars / "*")

    @property
    def classes(self) -> ClassArchive:
        """Return where the archive of these jars' classes is, or will be."""
        return ClassArchive(folder=self.jars, java=self.java)


def find_kafka(
    jar_set: JarSet = BROKER_JARS,
    *,
    cache: Path | None = None,
    java_home: str | None = None,
    progress: Progress = silent,
) -> KafkaSoftware:
    """Return Java and the jars, fetching the jars on first use.

    Args:
        jar_set: Which jars.
        cache: Cache folder; None is `cache_folder()`.
        java_home: As `find_java`.
        progress: Called with short lines about what is going on.

    Raises:
        StartError: No Java, no Ivy, or the jars cannot be fetched.

    Spec: DESIGN.md 10
    """
    java = find_java(java_home)
    root = cache or cache_folder()
    target = root / "jars" / jar_set.folder_name()
    if not _is_complete(target):
        with _locked(root, progress):
            if not _is_complete(target):  # somebody else may have been quicker
                _fetch(jar_set, target, root, java, progress)
    return KafkaSoftware(java=java, jars=target)


def cache_folder(override: str | None = None) -> Path:
    """Return the cache folder: `override` (what MESH_CACHE says) or the platform's own place."""
    return Path(override) if override else Path(platformdirs.user_cache_dir("trellis-mesh"))


def ivy_jar() -> Path:
    """Return the Ivy that the installed PySpark ships, without importing PySpark.

    Raises:
        StartError: PySpark is not installed, or ships no Ivy.
    """
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = sorted(jar for folder in folders for jar in Path(folder, "jars").glob("ivy-*.jar"))
    if not found:
        raise missing_package(
            "Kafka's jars are fetched by PySpark's Ivy, which is not installed", "audit"
        )
    return found[-1]


@contextmanager
def _locked(root: Path, progress: Progress) -> Iterator[None]:
    """Hold the cache's lock, which the kernel releases even if we are killed."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / "lock").open("w")
    except OSError as error:
        raise StartError(
            f"cannot write the cache folder {root} ({error.strerror}): set MESH_CACHE to one that "
            "can be written"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that fetches the jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jar_set: JarSet, target: Path, root: Path, java: Path, progress: Progress) -> None:
    """Let Ivy fetch into a folder beside the target and rename it; the lock is held."""
    progress(f"fetching {jar_set.name} from Maven Central (once, under a minute)")
    started_s = time.monotonic()
    work = target.with_name(f"{target.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)  # damaged, else it would have been used
    work.mkdir(parents=True)
    try:
        if not _run_ivy(jar_set, work, root, java, progress):
            # A damaged Ivy home fails the same way for ever: once more with a new one.
            shutil.rmtree(root / "ivy", ignore_errors=True)
            if not _run_ivy(jar_set, work, root, java, progress):
                raise StartError(
                    f"could not fetch Kafka's jars from Maven Central: is it reachable? "
                    f"Details: {root / 'ivy.log'}"
                )
        listing = [f"{jar.stat().st_size} {jar.name}" for jar in sorted(work.glob("*.jar"))]
        (work / _LISTING).write_text("\n".join(listing) + "\n", encoding="utf-8")
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"fetched {len(listing)} jars in {time.monotonic() - started_s:.0f} s")


def _run_ivy(jar_set: JarSet, work: Path, root: Path, java: Path, progress: Progress) -> bool:
    """Run Ivy once; return whether it brought every jar."""
    module = work / "ivy.xml"
    module.write_text(jar_set.ivy_file(), encoding="utf-8")
    home, log = root / "ivy", root / "ivy.log"
    log.write_bytes(b"")
    pattern = str(work / "[artifact]-[revision].[ext]")
    command = [str(java), f"-Divy.home={home}", f"-Divy.default.ivy.user.dir={home}"]
    command += ["-jar", str(ivy_jar()), "-cache", str(home / "cache"), "-ivy", str(module)]
    command += ["-types", "jar", "bundle", "-retrieve", pattern]
    process = spawn(command, name="Ivy", log=log)
    try:
        _follow(process, progress)
    finally:
        process.kill()
    return process.returncode == 0 and any(work.glob("*.jar"))


def _follow(process: Process, progress: Progress) -> None:
    """Wait for Ivy within the deadline and report how far it is."""
    end_s = time.monotonic() + _FETCH_DEADLINE_S
    reported = 0
    while not process.wait(_POLL_S) and time.monotonic() < end_s:
        fetched = process.log.read_text(encoding="utf-8", errors="replace").count("[SUCCESSFUL ]")
        if fetched >= reported + 10:
            reported = fetched
            progress(f"fetched {fetched} jars so far")


def _is_complete(folder: Path) -> bool:
    """Return whether every jar of the folder's listing is there in full."""
    try:
        listing = (folder / _LISTING).read_text(encoding="utf-8").splitlines()
        sizes = [line.split(" ", 1) for line in listing]
        return bool(sizes) and all(
            (folder / name).stat().st_size == int(size) for size, name in sizes
        )
    except (OSError, ValueError):
        return False
