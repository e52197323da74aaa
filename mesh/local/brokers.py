"""Embedded Kafka clusters by name: what the lab, the demo and the tests start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from mesh.local.broker_jvm import STEADY_JVM, YOUNG_JVM
from mesh.local.broker_settings import Outside
from mesh.local.embedded import STOP_DEADLINE_S, EmbeddedKafka, start_together
from mesh.local.jars import KafkaSoftware, Progress, find_kafka, silent
from mesh.local.processes import stop_all
from mesh.model.counted import counted

__all__ = ["STEADY_JVM", "YOUNG_JVM", "EmbeddedKafka", "KafkaClusters", "start_brokers"]


class KafkaClusters(dict[str, EmbeddedKafka]):
    """Several Kafka clusters by name; a context manager that always stops them all."""

    def __enter__(self) -> Self:
        """Return itself: they already run."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Stop them, whatever happened."""
        self.stop()

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop all side by side."""
        stop_all([process for one in self.values() for process in one.processes], deadline_s)


def start_brokers(
    names: Mapping[str, int] | Sequence[str],
    directory: Path,
    *,
    software: KafkaSoftware | None = None,
    settings: Mapping[str, str] | None = None,
    jvm: Sequence[str] = YOUNG_JVM,
    outside: Mapping[str, Outside] | None = None,
    progress: Progress = silent,
) -> KafkaClusters:
    """Start several Kafka clusters side by side and wait until all serve.

    Args:
        names: Their names, or names with the number of brokers of each.
        directory: Each gets the folder of its name in it; data found there are used.
        software: Java and jars; None finds or fetches them.
        settings: Broker settings of all, which win over ours.
        jvm: Java options, `YOUNG_JVM` or `STEADY_JVM`.
        outside: Ways in from other machines, by name.
        progress: Called with short lines about what is going on.

    Raises:
        StartError: One of them could not start; none is left running.

    Spec: DESIGN.md 10
    """
    sizes = names if isinstance(names, Mapping) else dict.fromkeys(names, 1)
    found = software or find_kafka(progress=progress)
    clusters = KafkaClusters(
        {
            name: EmbeddedKafka(
                name,
                directory / name,
                found,
                brokers=size,
                settings=settings,
                jvm=jvm,
                outside=(outside or {}).get(name),
            )
            for name, size in sizes.items()
        }
    )
    started_s = time.monotonic()
    progress(f"starting {counted(len(clusters), 'Kafka cluster')}: {', '.join(clusters)}")
    start_together(list(clusters.values()))
    serve = "serves" if len(clusters) == 1 else "serve"
    took_s = time.monotonic() - started_s
    progress(f"{counted(len(clusters), 'Kafka cluster')} {serve} after {took_s:.1f} s")
    return clusters
