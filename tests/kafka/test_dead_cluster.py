"""A Kafka cluster that is dead is named soon, and what the others hold is shown all the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet

pytestmark = pytest.mark.kafka

NAMED_WITHIN_S = 2.5
"""From the start of a command to the line that names the Kafka cluster, where `mesh --help` takes
a tenth of a second; a busy machine is given as much more as its own help is later."""
REST_WITHIN_S = 2.0
"""From there to the end of the command."""
HELP_S = 0.1
SLOWER = 20
"""So much more than help has a command to import and to do, and to wait for its turn with."""

LINES = {
    "status": "near",
    "links": "near->far",
    "interest": "near",
    "explain x/1 --from near": "near",
    "route near far": "near",
    "queue list": "no queues where Kafka answers",
    "endpoint list": "far",
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
        command = [sys.executable, "-m", "mesh", "doctor", "--wait", "60", "-f", str(file)]
        subprocess.run([*command, "--category", "links"], check=True, timeout=120)
        yield file, right
    finally:
        fleet.stop()


def test_one_that_hangs_is_named_soon_and_the_rest_is_shown(mesh: tuple[Path, str]) -> None:
    """Its process stands still: connections are taken, and nothing is ever answered."""
    file, right = mesh
    with stopped(right):
        judge(file, LINES)


def test_one_whose_port_is_closed_is_named_soon_too(mesh: tuple[Path, str]) -> None:
    """Nobody listens where it should be."""
    file, _ = mesh
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = f"right=127.0.0.1:{bound.getsockname()[1]}"
        judge(file, ["status", "links", "explain x/1 --from near"], "--bootstrap", nowhere)


def judge(file: Path, lines: Sequence[str] | dict[str, str], *more: str) -> None:
    """Run commands and require that each names the dead Kafka cluster in time, once."""
    for line in lines:
        before_s = duration_of_help()
        named_s, ended_s, out, err = timed(*line.split(), "-f", str(file), *more)
        slow_s = max(before_s, duration_of_help()) - HELP_S
        named_within_s = NAMED_WITHIN_S + SLOWER * max(0.0, slow_s)
        assert named_s < named_within_s, (line, named_s, err)
        assert ended_s - named_s < named_within_s - NAMED_WITHIN_S + REST_WITHIN_S, (line, ended_s)
        assert LINES[line] in out, (line, out, err)
        assert err.count("Kafka cluster right") == 1, err


def timed(*arguments: str) -> tuple[float, float, str, str]:
    """Return when a command named the Kafka cluster and when it ended, and what it printed."""
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "mesh", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out: list[str] = []
        reading = threading.Thread(target=out.extend, args=(process.stdout,))
        reading.start()
        named_s, err = float("inf"), ""
        for line in process.stderr:
            err += line
            if "Kafka cluster right" in line:
                named_s = min(named_s, time.monotonic() - began_s)
        process.wait(60)
        reading.join(60)
    return named_s, time.monotonic() - began_s, "".join(out), err


def duration_of_help() -> float:
    """Return how long the least command takes on this machine, now."""
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-m", "mesh", "--help"], capture_output=True, check=True)
    return time.monotonic() - began_s


@contextmanager
def stopped(servers: str) -> Iterator[None]:
    """Have the broker at an address stand still."""
    port = int(servers.rsplit(":", 1)[1])
    pid = next(
        one.pid
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid
    )
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
