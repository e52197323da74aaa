"""MirrorMaker 2 from Apache's own jars: as it comes, tuned, and exactly-once.

Spec: performance.md 8
"""

from __future__ import annotations

from collections.abc import Mapping
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

NEEDED = {
    "{near}->{far}.enabled": "true",
    "{far}->{near}.enabled": "false",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "{near}.consumer.isolation.level": "read_committed",
}
"""One broker, and a load that appears by a commit: what every variant needs here."""

TUNED = {
    "tasks.max": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "refresh.groups.enabled": "false",
    "{near}.consumer.max.poll.records": "5000",
    "{far}.producer.linger.ms": "5",
    "{far}.producer.batch.size": "1000000",
}
EXACT = {
    **TUNED,
    "{far}.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
VARIANTS: Mapping[str, Mapping[str, str]] = {"mm2": {}, "mm2-tuned": TUNED, "mm2-eos": EXACT}
"""Settings beyond those that it needs here, by the contender's name."""


def find(progress: Progress) -> KafkaSoftware:
    """Return the jars, fetching them on first use."""
    return find_kafka(JARS, progress=progress)


def topics(variant: str) -> tuple[str, str]:
    """Return source and target of a variant; its own naming makes the target of the source."""
    source = f"bench.{variant}"
    return source, f"{_ends(variant)[0]}.{source}"


def _ends(variant: str) -> tuple[str, str]:
    """Return what it calls the two ends: the names of its groups and topics are made of them."""
    word = variant.replace("-", "")
    return f"{word}near", f"{word}far"


def start(variant: str, software: KafkaSoftware, bootstrap: str, directory: Path) -> Process:
    """Start it between two names of one Kafka cluster; it copies some seconds later."""
    directory.mkdir(parents=True, exist_ok=True)
    near, far = _ends(variant)
    source, _ = topics(variant)
    settings = {
        "clusters": f"{near}, {far}",
        f"{near}.bootstrap.servers": bootstrap,
        f"{far}.bootstrap.servers": bootstrap,
        f"{near}->{far}.topics": source.replace(".", "\\\\."),
        **NEEDED,
        **VARIANTS[variant],
    }
    lines = [f"{key.format(near=near, far=far)}={value}" for key, value in settings.items()]
    file = directory / f"{variant}.properties"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [str(software.java), "-Xmx1g", "-XX:+UseSerialGC", "-cp", software.classpath]
    return spawn(
        [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)],
        name=variant,
        log=directory / f"{variant}.log",
    )
