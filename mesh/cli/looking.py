"""A look at a whole mesh through its control topics, for commands that show it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mesh.cli.running import reachable
from mesh.cli.target import check_addresses, quiet_client_library, say, target_of

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.in_force import InForce
    from mesh.transport.kafka import RealKafka
    from mesh.view.mesh_view import MeshView


class Heard(StrEnum):
    """Whose heartbeats a command needs."""

    NOBODY = "nobody"
    ANYBODY = "anybody"
    """One fresh beat on each Kafka cluster tells which other beats are fresh: quick."""
    EACH = "each"
    """Who is up is up now."""


@dataclass(slots=True)
class Look:
    """What is seen of a mesh.

    Attributes:
        topology: What is in force, else what the file says, with every address that is known.
        plain: The topology as the file says it, without addresses.
        found: What is in force; None where nobody has written that.
        kafka: Clients of all its Kafka clusters.
        view: Its control topics, read to their ends.
        beats: Which nodes are up, as far as `heard` asked for it.
    """

    topology: Topology
    plain: Topology
    found: InForce | None
    kafka: Mapping[str, RealKafka]
    view: MeshView
    beats: Mapping[str, bool]


THREADS_MAX = 16
"""How many Kafka clusters are read side by side."""


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
    heard: Heard = Heard.EACH,
) -> Iterator[Look]:
    """Look at the mesh that a command speaks to, by what is in force there.

    Kafka clusters that do not answer are named.

    Args:
        file: Option of the command.
        bootstrap: Option of the command.
        context: Option of the command.
        needs_kafka: Whether there is nothing to tell without a single Kafka cluster.
        heard: Whose heartbeats are waited for.

    Raises:
        ConfigError: There is no mesh, or an option is wrong.
        TransportUnavailableError: Not one Kafka cluster answers.

    Spec: K27.
    """
    from mesh.errors import TransportUnavailableError
    from mesh.model.topology import with_addresses
    from mesh.operate.status import observe
    from mesh.view.connection import open_kafka
    from mesh.view.mesh_view import MeshView

    plain, addresses = target_of(file, bootstrap, context, knows_all=False)
    topology = with_addresses(plain, addresses)
    quiet_client_library()
    with ExitStack() as opened:
        kafka = dict(open_kafka(topology, client_prefix="mesh-cli"))
        opened.callback(_close, kafka)
        pool = opened.enter_context(ThreadPoolExecutor(max_workers=THREADS_MAX))
        view = MeshView(topology, kafka, now_ms, name="view", executor=pool)
        opened.callback(view.close)
        view.refresh()
        found = _in_force(view, needs_kafka=needs_kafka)
        if found is not None:
            known, topology = topology, reachable(found.topology, topology, addresses)
            fresh = [name for name in topology.kafka if name not in kafka]
            kafka |= open_kafka(topology, fresh, client_prefix="mesh-cli") if fresh else {}
            if places_of(topology) != places_of(known):
                view = MeshView(topology, kafka, now_ms, name="view", executor=pool)
                opened.callback(view.close)
                view.refresh()
        check_addresses(bootstrap, topology)
        beats = dict.fromkeys(topology.nodes, False)
        if heard is not Heard.NOBODY:
            beats |= observe(view, now_ms, pause, hears_each=heard is Heard.EACH)
        if needs_kafka and view.unreachable and len(view.unreachable) == len(kafka):
            raise TransportUnavailableError(next(iter(view.unreachable.values())))
        for fault in view.unreachable.values() if needs_kafka else ():
            say(f"warning: {fault}")
        yield Look(topology, plain, found, kafka, view, beats)


def _close(kafka: Mapping[str, RealKafka]) -> None:
    for cluster in kafka.values():
        cluster.close()


def places_of(topology: Topology) -> object:
    """Return what decides which topics are read where to see a mesh."""
    nodes = {
        node: (one.kafka, frozenset(topology.neighbours(node)))
        for node, one in topology.nodes.items()
    }
    return topology.prefix, nodes


def _in_force(view: MeshView, *, needs_kafka: bool) -> InForce | None:
    """Return what is in force as a view shows it.

    Raises:
        ConfigError: It is not known to this version.
        ProtocolError: It was written by a newer one.
    """
    from mesh.errors import ConfigError, ProtocolError
    from mesh.operate.in_force import highest_of, records_seen

    try:
        return highest_of(records_seen(view))
    except (ConfigError, ProtocolError) as error:
        if needs_kafka:
            raise
        say(f"warning: the topology file stands for what is in force: {error}")
        return None


def look_again(seen: Look) -> Look:
    """Return the same look with who beats now."""
    from mesh.operate.status import observe

    return replace(seen, beats=observe(seen.view, now_ms, pause))
