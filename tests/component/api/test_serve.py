"""The server as a process: it says when it can be asked, and ends well when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from mesh.api.serve import ServeSettings, serve
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import StartError
from tests.component.in_memory_mesh import CHAIN
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]

SERVER = """
import mesh.api.serve as serving
from mesh.config.topology_file import topology_from_mapping
from tests.component.in_memory_mesh import CHAIN, Mesh

mesh = Mesh(topology_from_mapping(CHAIN))
serving._open = lambda _topology, names: {name: mesh.world.kafka[name] for name in names}
settings = serving.ServeSettings(host="127.0.0.1", port=0)
serving.serve(mesh.topology, settings, lambda address: print(address, flush=True))
print("let go", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_does(number: signal.Signals) -> None:
    """Though somebody follows the feed; exit code 0, once it has let go of Kafka."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    with urllib.request.urlopen(f"{address}api/v1/events", timeout=PATIENCE_S) as feed:
        assert feed.readline()
        server.send_signal(number)
        out, err = server.communicate(timeout=PATIENCE_S)
    assert (server.returncode, out, err) == (0, "let go\n", "")


def test_a_port_that_somebody_has_is_named() -> None:
    """One line, before anything is read."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = ServeSettings(host="127.0.0.1", port=port)
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}: .* in use"):
            serve(topology_from_mapping(CHAIN), settings, print)


POOLS = """
import ctypes, threading
from pathlib import Path
from mesh.api.serve import share_memory

share_memory()
libc = ctypes.CDLL(None)
together = threading.Barrier(9)


def take() -> None:
    libc.malloc(50_000)
    together.wait()
    together.wait()


for _ in range(8):
    threading.Thread(target=take, daemon=True).start()
together.wait()
places = [line.split("-")[0] for line in Path("/proc/self/maps").read_text().splitlines()]
print(sum(int(place, 16) % (64 << 20) == 0 for place in places))
together.wait()
"""


def test_threads_take_memory_from_few_pools() -> None:
    """glibc begins each of its pools at a multiple of 64 MB, and keeps what was free in it."""
    told = subprocess.run([sys.executable, "-c", POOLS], capture_output=True, text=True, check=True)
    assert int(told.stdout) <= 2


UNHEARD = """
import mesh.view.connection as connection
import mesh.api.serve as serving
from pathlib import Path
from mesh.cli.main import main
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.model.topology import with_addresses
from tests.component.in_memory_mesh import CHAIN, Mesh

mesh = Mesh(topology_from_mapping(CHAIN))
opens = lambda _topology, *_names, **_options: mesh.world.kafka
connection.open_kafka = serving.open_kafka = opens
addresses = {name: f"{name}.test:9092" for name in mesh.topology.kafka}
write_topology(with_addresses(mesh.topology, addresses), Path("mesh.yaml"))
main(["api", "-f", "mesh.yaml", "--listen", "127.0.0.1:0"])
"""


def test_a_server_whose_address_nobody_can_be_told_ends_and_says_so(tmp_path: Path) -> None:
    """It would serve where nobody looks for it: one line says what, where and what to do."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", UNHEARD],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    told = "standard output cannot be written: No space left on device; send it elsewhere [OUTPUT]"
    assert (ended.returncode, ended.stderr.splitlines()[-1:]) == (1, [told])
