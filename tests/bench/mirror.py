"""MirrorMaker 2, tuned, from Apache's own jars.

Spec: performance.md 8
"""

from __future__ import annotations

from pathlib import Path

from mesh.local.jars import JarSet, KafkaSoftware, Progress, find_kafka
from mesh.local.processes import Process, spawn

VERSION = "4.3.0"
"""Its own, not the brokers': every client speaks with every broker."""

JARS = JarSet(
    name=f"kafka-mirror-{VERSION}",
    artifacts=(
        ("org.apache.kafka", "connect-mirror", VERSION),
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
)
SOURCE = "bench.mirror"
TARGET = f"near.{SOURCE}"
"""What its own naming makes of the source."""

SETTINGS = {
    "clusters": "near, far",
    "near->far.enabled": "true",
    "near->far.topics": SOURCE.replace(".", "\\\\."),
    "far->near.enabled": "false",
    "tasks.max": "1",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "refresh.groups.enabled": "false",
    "refresh.topics.interval.seconds": "5",
    "near.consumer.max.poll.records": "5000",
    "near.consumer.isolation.level": "read_committed",
    "far.producer.linger.ms": "5",
    "far.producer.batch.size": "1000000",
}


def find(progress: Progress) -> KafkaSoftware:
    """Return the jars, fetching them on first use."""
    return find_kafka(JARS, progress=progress)


def start(software: KafkaSoftware, bootstrap: str, directory: Path) -> Process:
    """Start it between two names of one Kafka cluster; it copies some seconds later."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "mm2.properties"
    both = {f"{name}.bootstrap.servers": bootstrap for name in ("near", "far")}
    lines = [f"{key}={value}" for key, value in {**both, **SETTINGS}.items()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [str(software.java), "-Xmx1g", "-XX:+UseSerialGC", "-cp", software.classpath]
    return spawn(
        [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)],
        name="MirrorMaker 2",
        log=directory / "mm2.log",
    )
