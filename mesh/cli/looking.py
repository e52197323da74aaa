"""A look at a whole mesh through its control topics, for commands that show it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mesh.cli.running import running_mesh
from mesh.cli.target import quiet_client_library, say

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.transport.kafka import RealKafka
    from mesh.view.mesh_view import MeshView


@dataclass(slots=True)
class Look:
    """What is seen of a mesh.

    Attributes:
        topology: The mesh.
        kafka: Clients of all its Kafka clusters.
        view: Its control topics, read to their ends.
        beats: Which nodes beat while we looked.
    """

    topology: Topology
    kafka: Mapping[str, RealKafka]
    view: MeshView
    beats: Mapping[str, bool]


def now_ms() -> int:
    """Return monotonic time."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return this machine's clock, ms since 1970: for people, never for order."""
    return time.time_ns() // 1_000_000


def pause(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)


@contextmanager
def look(
    file: Path | None,
    bootstrap: list[str] | None,
    context: str | None,
    *,
    needs_kafka: bool = True,
) -> Iterator[Look]:
    """Look at the mesh that a command speaks to, by what is in force there.

    Kafka clusters that do not answer are named.

    Args:
        file: Option of the command.
        bootstrap: Option of the command.
        context: Option of the command.
        needs_kafka: Whether there is nothing to tell without a single Kafka cluster.

    Raises:
        ConfigError: There is no mesh, or an option is wrong.
        TransportUnavailableError: Not one Kafka cluster answers.

    Spec: K27.
    """
    at = running_mesh(file, bootstrap, context, needs_kafka=needs_kafka)
    with look_at(at.topology, needs_kafka=needs_kafka) as seen:
        yield seen


@contextmanager
def look_at(topology: Topology, *, needs_kafka: bool = True) -> Iterator[Look]:
    """Look at a mesh. Kafka clusters that do not answer are named.

    Args:
        topology: The mesh, with every address that is known.
        needs_kafka: Whether there is nothing to tell without a single Kafka cluster.

    Raises:
        ConfigError: A Kafka cluster has no address.
        TransportUnavailableError: Not one Kafka cluster answers.
    """
    from mesh.errors import TransportUnavailableError
    from mesh.operate.status import observe
    from mesh.view.connection import open_kafka
    from mesh.view.mesh_view import MeshView

    quiet_client_library()
    kafka = open_kafka(topology, client_prefix="mesh-cli")
    view = MeshView(topology, kafka, now_ms, name="view")
    try:
        beats = observe(view, now_ms, pause)
        if needs_kafka and view.unreachable and len(view.unreachable) == len(kafka):
            raise TransportUnavailableError(next(iter(view.unreachable.values())))
        for fault in view.unreachable.values() if needs_kafka else ():
            say(f"warning: {fault}")
        yield Look(topology, kafka, view, beats)
    finally:
        view.close()
        for cluster in kafka.values():
            cluster.close()


def look_again(seen: Look) -> Look:
    """Return the same look with who beats now."""
    from mesh.operate.status import observe

    return replace(seen, beats=observe(seen.view, now_ms, pause))
