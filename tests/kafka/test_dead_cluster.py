"""A Kafka cluster that is dead is named, and what the others hold is shown all the same.

How soon is a figure, of a command: `python -m tests.bench.commands`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from tests.bench.commands import run_until_named, stopped
from tests.patience import PATIENCE_S, WAITING

pytestmark = pytest.mark.kafka

LINES = {
    "status": "near",
    "links": "near->far",
    "interest": "near",
    "explain x/1 --from near": "near",
    "route near far": "near",
    "queue list": "no queues where Kafka answers",
    "endpoint list": "far",
    "zone show Z": "near: ",
    "wait near --timeout 1": "known everywhere",
    "dlq far": "",
}
"""Command line -> what it shows of the living rest."""


@pytest.fixture(scope="module")
def mesh(
    kafka_clusters: Callable[[int], Sequence[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str]]:
    """Two nodes on two Kafka clusters; yields their file and where the second one is."""
    left, right = kafka_clusters(2)
    topology = topology_from_mapping(
        {
            "prefix": f"t{uuid.uuid4().hex[:8]}.",
            "kafka": {"left": {"bootstrap.servers": left}, "right": {"bootstrap.servers": right}},
            "nodes": {"near": {"kafka": "left"}, "far": {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["near", "far"]]}},
        },
        name="pair",
    )
    folder = tmp_path_factory.mktemp("dead")
    file = folder / "mesh.yaml"
    write_topology(topology, file)
    fleet = Fleet.start(topology, file, folder)
    try:
        for node in topology.nodes:
            fleet.start_node(node)
        command = [sys.executable, "-m", "mesh", "doctor", *WAITING, "-f", str(file)]
        subprocess.run([*command, "--category", "links"], check=True, timeout=PATIENCE_S)
        yield file, right
    finally:
        fleet.stop()


def test_one_that_hangs_is_named_and_the_rest_is_shown(mesh: tuple[Path, str]) -> None:
    """Its process stands still: connections are taken, and nothing is ever answered."""
    file, right = mesh
    with stopped([listening(right)]):
        judge(file, list(LINES))


def test_one_whose_port_is_closed_is_named_too(mesh: tuple[Path, str]) -> None:
    """Nobody listens where it should be."""
    file, _ = mesh
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = f"right=127.0.0.1:{bound.getsockname()[1]}"
        judge(file, ["status", "links", "explain x/1 --from near"], "--bootstrap", nowhere)


def judge(file: Path, lines: Sequence[str], *more: str) -> None:
    """Run commands; each names the dead Kafka cluster once, and shows the living rest."""
    for line in lines:
        told = run_until_named("Kafka cluster right", *line.split(), "-f", str(file), *more)
        assert told.err.count("Kafka cluster right") == 1, (line, told)
        assert LINES[line] in told.out, (line, told)


def listening(servers: str) -> int:
    """Return the process that listens at an address."""
    port = int(servers.rsplit(":", 1)[1])
    return next(
        one.pid
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid
    )
