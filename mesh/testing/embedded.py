"""A mesh on real Kafka without Docker: brokers from jars, a process per node. Wants Java 17."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from mesh.client import MeshClient, connect
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.local.fleet import Fleet
from mesh.local.jars import Progress, silent
from mesh.local.software import prepare_kafka
from mesh.local.stopping import Stopping
from mesh.local.supervisor import Supervisor
from mesh.model.topology import without_options
from mesh.testing.under_test import MeshUnderTest, TopologyLike

SERVE_S = 120.0
LOG_LINES = 40


class EmbeddedMesh(MeshUnderTest):
    """See `MeshUnderTest`.

    Args:
        topology: What to run; Kafka clusters without an address are embedded.
        progress: Told what is going on.
    """

    def __init__(self, topology: TopologyLike, *, progress: Progress = silent) -> None:
        super().__init__(topology)
        # Whatever Kafka a file names, a test has nothing to do with that one.
        self.topology = without_options(self.topology)
        self._progress = progress
        self._folder: Path | None = None
        self._fleet: Fleet | None = None

    @property
    def fleet(self) -> Fleet:
        """Its brokers and processes.

        Raises:
            StartError: It does not run.
        """
        if self._fleet is None:
            raise StartError("this mesh is not started: use it in a `with`")
        return self._fleet

    def _start(self) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="mesh-testing-"))
        file = folder / "mesh.yaml"
        write_topology(self.topology, file)
        software = prepare_kafka(progress=self._progress)
        self._fleet = Fleet.start(
            self.topology, file, folder, software=software, progress=self._progress
        )
        self._serve(list(self.topology.nodes))

    def _serve(self, nodes: Sequence[str]) -> None:
        supervisor = Supervisor(self.fleet, self._progress)
        supervisor.start_nodes(list(nodes), 1)
        try:
            supervisor.wait_serving(Stopping(), SERVE_S)
        except StartError as error:  # the logs that it names go with the mesh
            late = [one for one in self.fleet.workers if one not in supervisor.serving()]
            tails = [self.fleet.workers[one][0].log_tail(LOG_LINES) for one in late[:1]]
            raise StartError("\n".join([str(error), *tails])) from error

    def _address(self, kafka: str) -> str:
        return self.fleet.addresses[kafka]

    def _open(self, node: str) -> MeshClient:
        return connect(self.fleet.topology, node)

    def _cut(self, node: str, neighbours: Sequence[str]) -> None:
        self.fleet.cut(node, neighbours)

    def _kill(self, node: str) -> None:
        """SIGKILL a node."""
        self.fleet.kill_node(node)

    def _restart(self, node: str) -> None:
        """Start a node that was killed; returns when it serves."""
        self._serve([node])

    def _end(self) -> None:
        fleet, self._fleet = self._fleet, None
        with ExitStack() as rest:
            if self._folder is not None:
                rest.callback(shutil.rmtree, self._folder, ignore_errors=True)
            if fleet is not None:
                fleet.stop()
