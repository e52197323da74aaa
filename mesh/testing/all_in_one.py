"""A whole small mesh in one container: Kafka clusters, nodes and page, for tests in any language.

    docker run -p 8080:8080 -p 9092:9092 -p 9093:9093 trellis-mesh:dev

Its Kafka clusters are at ports 9092, 9093 and so on, in the order of the topology file; the page at
8080, where `/readyz` answers once all nodes serve. The environment says the rest:

- `MESH_TOPOLOGY`: the topology file; by default the one beside the recipes of the images.
- `MESH_ADVERTISED`: `NAME=HOST:PORT,...`, where clients find a Kafka cluster, if not at localhost
  and the same port: brokers tell clients where they are, so whoever maps ports must say it.
- `MESH_TOKEN`: what the page wants to be shown; by default `mesh`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import NoReturn

from mesh.config.kafka_options import bootstrap_fault
from mesh.config.legal import load_legal_topology
from mesh.config.nearest import nearest
from mesh.config.topology_writer import write_topology
from mesh.errors import ConfigError, MeshError, wrong_input
from mesh.local.broker_settings import Outside
from mesh.local.dashboard import spawn_dashboard
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.java import find_java
from mesh.local.processes import Process
from mesh.local.stopping import Stopping, run_stoppable, work_folder
from mesh.local.supervisor import TEND_S, Supervisor
from mesh.local.up import PATIENCE_S, stoppable
from mesh.model.topology import Topology, without_options

JARS = Path("/opt/kafka/jars")
KAFKA_PORT, PAGE_PORT = 9092, 8080
TOKEN = "mesh"  # noqa: S105 - of a mesh that lives as long as a test


def advertised(text: str, topology: Topology, first_port: int) -> Mapping[str, Outside]:
    """Return how clients on other machines reach each Kafka cluster.

    Args:
        text: `NAME=HOST:PORT,...`; who is not named is at localhost, at the port in the container.
        topology: The mesh.
        first_port: Of its first Kafka cluster in the container.

    Raises:
        ConfigError: The text has another form, or names a Kafka cluster that is none.
    """
    given: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, address = part.partition("=")
        if "://" in address or bootstrap_fault(address) is not None:
            what = f"{part[:80]!r} is not NAME=HOST:PORT, with a port from 1 to 65535"
            raise wrong_input("MESH_ADVERTISED", what)
        if name not in topology.kafka:
            text = f"no Kafka cluster is called {name[:80]!r}{nearest(name, list(topology.kafka))}"
            raise wrong_input("MESH_ADVERTISED", text)
        given[name] = address.strip()
    return {
        name: Outside(port=port, advertised=given.get(name, f"localhost:{port}"))
        for port, name in enumerate(topology.kafka, start=first_port)
    }


def serve(
    topology: Topology,
    folder: Path,
    *,
    software: KafkaSoftware,
    outside: Mapping[str, Outside],
    page_port: int,
    stopping: Stopping,
    progress: Progress,
) -> NoReturn:
    """Start all of it, keep it running until told to stop, and end it in order.

    Args:
        topology: A legal one; addresses that it names are not used.
        folder: For data and logs.
        software: Java and Kafka's jars.
        outside: How clients reach its Kafka clusters.
        page_port: Of the page, on all addresses.
        stopping: Tells when to stop.
        progress: Called with what is going on, in short lines.

    Raises:
        StartError: Something could not be started.
        StoppedError: Told to stop.
    """
    kafka = {name: replace(one, brokers=1) for name, one in topology.kafka.items()}
    small = without_options(replace(topology, kafka=kafka))
    file = folder / "mesh.yaml"
    write_topology(small, file)
    fleet = Fleet.start(
        small,
        file,
        folder,
        software=software,
        outside=outside,
        progress=stoppable(progress, stopping),
    )
    pages: list[Process] = []
    try:
        supervisor = Supervisor(fleet, progress)
        supervisor.start_nodes(list(small.nodes))
        supervisor.wait_serving(stopping, PATIENCE_S)
        hosts = sorted({_host_of(one.advertised) for one in outside.values()})
        page = partial(_open_page, pages, fleet, f":{page_port}", hosts)
        page()
        supervisor.keep("the page", lambda: pages, page)
        progress(f"all {len(small.nodes)} nodes serve")
        while True:
            supervisor.tend()
            stopping.wait(TEND_S)
    finally:
        for one in pages:
            one.stop()
        fleet.stop()


def _open_page(pages: list[Process], fleet: Fleet, listen: str, hosts: list[str]) -> None:
    pages[:] = [spawn_dashboard(fleet, listen, hosts)[0]]


def main() -> int:
    """Run what the environment says; return the exit code."""
    progress, environment = _say, os.environ
    environment["MESH_TOKEN"] = environment.get("MESH_TOKEN") or TOKEN
    recipes = files("mesh.testing") / "images"
    try:
        with as_file(recipes / "mesh.yaml") as own:
            topology = load_legal_topology(Path(environment.get("MESH_TOPOLOGY") or own))
        outside = advertised(environment.get("MESH_ADVERTISED", ""), topology, KAFKA_PORT)
        software = KafkaSoftware(java=find_java(environment.get("JAVA_HOME")), jars=JARS)

        def work(stopping: Stopping) -> int:
            with work_folder(None, "mesh", stopping, progress) as folder:
                return serve(
                    topology,
                    folder,
                    software=software,
                    outside=outside,
                    page_port=PAGE_PORT,
                    stopping=stopping,
                    progress=progress,
                )

        return run_stoppable(work, progress=progress)
    except ConfigError as error:
        for problem in error.problems:
            progress(f"error: {problem.line()}")
        return 2
    except MeshError as error:
        progress(f"error: {' '.join(str(error).split())}")
        return 1


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
