"""One Kafka broker: a folder, two ports and a Java process."""

from __future__ import annotations

import base64
import os
import re
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mesh.local.class_archive import use
from mesh.local.jars import KafkaSoftware
from mesh.local.processes import Process, spawn

# C1 only and the serial collector: half the CPU of the defaults while a broker is young (measured:
# 3.6 against 5.8 CPU-s for the second 15,000 transactional records), a fifth more once it is old.
YOUNG_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For tests and demos, where brokers live for minutes."""
STEADY_JVM = ("-XX:+UseSerialGC",)
"""For measurements of minutes and more."""

_SMALL_JVM = (
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.nio.maxCachedBufferSize=262144",
    "-Djava.awt.headless=true",
)
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{setting}"
    for setting in (
        "showDateTime=true",
        "dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
        "log.org.apache.kafka.common.config=warn",  # else every start prints all settings
        "log.kafka.server.KafkaConfig=warn",
    )
)
_META = "meta.properties"
_FIRST = "bootstrap.checkpoint"
"""What Kafka's metadata begin with: the same in each folder that one version formats."""
_METADATA = "__cluster_metadata-0"
_CLEAN = ".kafka_cleanshutdown"
"""What a broker that stops in good order leaves behind, and removes when it starts."""


def new_id() -> str:
    """Return a new identity as Kafka writes them, one that no program takes for an option."""
    drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return f"A{drawn[1:]}" if drawn.startswith("-") else drawn


class BrokerJvm:
    """A broker's files and, while it runs, its process. Decides nothing about when to start."""

    def __init__(
        self, name: str, folder: Path, software: KafkaSoftware, jvm: Sequence[str], heap_mb: int
    ) -> None:
        self.name = name
        self.folder = folder
        self.process: Process | None = None
        self._software = software
        self._jvm = tuple(jvm)
        self._heap_mb = heap_mb

    @property
    def data(self) -> Path:
        """Return the folder of the logs."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """Return the file that the broker logs to."""
        return self.folder / "broker.log"

    @property
    def settings(self) -> Path:
        """Return the settings file."""
        return self.folder / "server.properties"

    def kafka_cluster_id(self) -> str | None:
        """Return the identity that the data was formatted with, or None without data."""
        try:
            text = (self.data / _META).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        found = re.search(r"^cluster\.id=(\S+)$", text, re.MULTILINE)
        return found.group(1) if found else None

    def was_killed(self) -> bool:
        """Return whether it has run on its data before, and not stopped in good order."""
        return (self.data / _METADATA).is_dir() and not (self.data / _CLEAN).is_file()

    def begin_format(self, kafka_cluster_id: str) -> Process:
        """Start Kafka's own storage tool on the settings file."""
        self.data.mkdir(parents=True, exist_ok=True)
        return self._java(
            ["kafka.tools.StorageTool", "format", "-t", kafka_cluster_id, "-c", str(self.settings)],
            name=f"the storage tool of {self.name}",
            log=self.folder / "format.log",
            heap_mb=64,
        )

    def format_as_before(self, kafka_cluster_id: str, node_id: int) -> bool:
        """Write what the storage tool would, which takes as long as half of a broker's start.

        Returns:
            Whether that could be done: it is known once `keep_format` has seen the tool's work.
        """
        known = self._software.jars / _FIRST
        if not known.is_file():
            return False
        self.data.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(known, self.data / _FIRST)
        told = {
            "version": "1",
            "cluster.id": kafka_cluster_id,
            "node.id": str(node_id),
            "directory.id": new_id(),
        }
        text = "".join(f"{key}={value}\n" for key, value in told.items())
        (self.data / _META).write_text(text, encoding="utf-8")  # last: with it the folder counts
        return True

    def keep_format(self) -> None:
        """Keep beside the jars what the storage tool has made, if that is not there yet."""
        known = self._software.jars / _FIRST
        if not known.is_file():
            with suppress(OSError):  # a folder of jars that is not ours: the tool runs each time
                draft = known.with_name(f"{_FIRST}.{os.getpid()}")
                shutil.copyfile(self.data / _FIRST, draft)
                draft.rename(known)

    def begin(self, properties: str) -> None:
        """Start the broker with these settings; it serves some seconds later."""
        self.write_settings(properties)
        self.process = self._java(
            ["kafka.Kafka", str(self.settings)],
            name=self.name,
            log=self.log,
            heap_mb=self._heap_mb,
        )

    def write_settings(self, properties: str) -> None:
        """Write the settings file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(properties, encoding="utf-8")

    def log_size(self) -> int:
        """Return the log's length in bytes, to read from there later."""
        return self.log.stat().st_size if self.log.exists() else 0

    def errors_since(self, position: int) -> Sequence[str]:
        """Return the error lines that the broker logged since a position."""
        return error_lines(self.log, position)

    def _java(self, arguments: Sequence[str], *, name: str, log: Path, heap_mb: int) -> Process:
        options = [f"-Xmx{heap_mb}m", *self._jvm, *_SMALL_JVM, *_LOGGING]
        if archive := self._software.classes.find():
            options.append(use(archive))
        command = [str(self._software.java), *options, "-cp", self._software.classpath]
        # glibc would otherwise keep a heap per thread, which doubles the resident memory.
        env = {**os.environ, "MALLOC_ARENA_MAX": "2"}
        return spawn([*command, *arguments], name=name, log=log, env=env)


def error_lines(log: Path, position: int = 0) -> Sequence[str]:
    """Return the lines of a Java program's log, from a position, that report an error."""
    if not log.exists():
        return ()
    with log.open("rb") as text:
        text.seek(position)
        lines = text.read().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if " ERROR " in line or "Exception" in line]
