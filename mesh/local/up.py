"""A whole mesh on this machine, kept running until asked to stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mesh.config.context import VARIABLE, Context, select_local
from mesh.errors import ConfigError
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.software import prepare_kafka
from mesh.local.stopping import StoppedError, Stopping
from mesh.local.supervisor import TEND_S, Supervisor
from mesh.model.counted import counted
from mesh.model.topology import Topology

PATIENCE_S = 120.0
"""For how long no further node may begin to serve, unless somebody says otherwise."""


def run_up(
    topology: Topology,
    file: Path,
    folder: Path,
    *,
    addresses: Mapping[str, str],
    software: KafkaSoftware | None,
    workers: int,
    patience_s: float,
    duration_s: float,
    stopping: Stopping,
    progress: Progress,
) -> int:
    """Start brokers where needed and every node, keep them running, stop them in order.

    Args:
        topology: A legal one.
        file: Its file, absolute.
        folder: For data and logs.
        addresses: Of Kafka clusters that run already.
        software: Java and jars, needed if any Kafka cluster is embedded.
        workers: Processes per node.
        patience_s: For how long no further node may begin to serve before it gives up.
        duration_s: How long to run; 0 until asked to stop.
        stopping: Tells when to stop.
        progress: Called with lines about what is going on.

    Returns:
        Exit code 0: the mesh served and was stopped on purpose.

    Raises:
        StartError: Something could not be started.
        TransportUnavailableError: A given Kafka cluster does not answer.
        StoppedError: Asked to stop before the mesh served.
    """
    fleet = Fleet.start(
        topology,
        file,
        folder,
        addresses=addresses,
        software=software,
        progress=stoppable(progress, stopping),
    )
    try:
        supervisor = Supervisor(fleet, progress)
        nodes = list(topology.nodes)
        progress(f"starting {counted(len(nodes), 'node')}")
        supervisor.start_nodes(nodes, workers)
        supervisor.wait_serving(stopping, patience_s)
        _tell(fleet, progress)
        _serve(supervisor, duration_s, stopping)
    finally:
        fleet.stop()
    progress("stopped; no process is left")
    return 0


def software_for(
    topology: Topology,
    addresses: Mapping[str, str],
    environment: Mapping[str, str],
    progress: Progress,
) -> KafkaSoftware | None:
    """Return Java and Kafka's jars, or None if no Kafka cluster is to be embedded.

    Args:
        topology: The mesh.
        addresses: Of Kafka clusters that run already.
        environment: `MESH_CACHE` and `JAVA_HOME` count.
        progress: Called with lines about what is going on.

    Raises:
        StartError: They cannot be had.
    """
    if all(name in addresses or not one.is_embedded for name, one in topology.kafka.items()):
        return None
    return prepare_kafka(environment, progress)


def stoppable(progress: Progress, stopping: Stopping) -> Progress:
    """Return a progress that ends the work, if it should stop, wherever it says something."""

    def say(message: str) -> None:
        stopping.check()
        progress(message)

    return say


def select_mesh(fleet: Fleet, progress: Progress) -> None:
    """Make a running mesh the selected context; a context that cannot be kept stops nobody."""
    wanted = fleet.topology.name
    try:
        name = select_local(Context(wanted, fleet.file, dict(fleet.addresses)))
    except ConfigError as error:
        progress(f"no context was selected: {error}")
        return
    if name != wanted:
        whose = "was added by you, or its mesh still runs"
        progress(f"context {wanted} stays, because it {whose}; this mesh is {name}")
    if (other := os.environ.get(VARIABLE, "")) not in ("", name):
        progress(f"context {name} is selected, but {VARIABLE} says {other} and wins")
    else:
        progress(f"context {name} is selected: other commands speak to this mesh now")


def _tell(fleet: Fleet, progress: Progress) -> None:
    count = len(fleet.workers)
    progress(f"all {count} nodes serve" if count > 1 else "the one node serves")
    for name in fleet.topology.kafka:
        address = fleet.topology.kafka[name].options["bootstrap.servers"]
        progress(f"Kafka cluster {name}: {address}")
    select_mesh(fleet, progress)
    progress(f"logs: {fleet.directory / 'log'}; Ctrl-C stops everything")


def _serve(
    supervisor: Supervisor,
    duration_s: float,
    stopping: Stopping,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Tend the processes until the time is over or somebody says stop."""
    end_s = now_s() + duration_s
    try:
        while not duration_s or now_s() < end_s:
            supervisor.tend()
            stopping.wait(TEND_S)
    except StoppedError:
        return  # the usual end of a mesh that serves
