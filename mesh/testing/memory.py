"""A mesh in memory, for unit tests: the real nodes and client library, on Kafka that is not there.

Time passes while a client waits and at no other moment, so nothing takes long and every run of a
seed is the same, unless threads use it: which of them waits first is chance. No record outlives
the object.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import structlog

from mesh.client import MeshClient
from mesh.errors import ClosedError, wrong_input
from mesh.lab.world import World
from mesh.testing.under_test import MeshUnderTest, TopologyLike
from mesh.transport.node_topics import node_topics
from mesh.trees.settings import Settings as TreeSettings

READY_MS = 60_000


def log_by_python() -> None:
    """Have nodes log by Python's logging, unless somebody has said how structlog is to do it.

    They live in the process of the test, which may look at what its own program prints.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


class InMemoryMesh(MeshUnderTest):
    """See `MeshUnderTest`.

    Args:
        topology: What to run.
        seed: Decides the order in which nodes take their turns.
    """

    def __init__(self, topology: TopologyLike, *, seed: int = 1) -> None:
        super().__init__(topology)
        self._world = World(self.topology, seed=seed, trees=TreeSettings())
        # Held by whoever lets nodes live: a node takes one turn at a time, whichever threads wait.
        self._turns = threading.RLock()

    def _start(self) -> None:
        log_by_python()
        for node, declared in self.topology.nodes.items():
            self._world.kafka[declared.kafka].admin().create(node_topics(self.topology, node))
            self._world.start(node)
        self._wait_ready(list(self.topology.nodes))

    def _address(self, kafka: str) -> str:
        message = f"{kafka} is in memory and has no address; `EmbeddedMesh` has"
        raise wrong_input("kafka", message, code="NO_ADDRESS")

    def _wait_ready(self, nodes: Sequence[str]) -> None:
        workers = self._world.workers
        done = lambda: all(n in workers and workers[n].is_ready for n in nodes)  # noqa: E731
        with self._turns:
            is_ready = self._world.run_until(done, READY_MS)
        if not is_ready:
            raise TimeoutError(f"not ready within {READY_MS / 1000:g} s: {', '.join(nodes)}")

    def pass_time(self, seconds: float) -> None:
        """Let the mesh live for a while: what is on its way arrives."""
        self._check_runs()
        self._live(seconds)

    def _live(self, seconds: float) -> None:
        with self._turns:
            until = self._world.clock.ms + max(1, int(seconds * 1000))
            while self._world.clock.ms < until:
                self._world.advance()
                for client in self._clients:  # as a thread does in production
                    with suppress(ClosedError):
                        client.renew_leases()

    def _open(self, node: str) -> MeshClient:
        clock, kafka = self._world.clock, self._world.kafka
        return MeshClient(self.topology, node, kafka, now_ms=clock.now_ms, pause=self._live)

    def _cut(self, node: str, neighbours: Sequence[str]) -> None:
        with self._turns:
            self._world.cut(node, neighbours)

    def _kill(self, node: str) -> None:
        """End a node between two turns."""
        with self._turns:
            self._world.kill(node)

    def _restart(self, node: str) -> None:
        """Start a node that was killed; returns when it serves."""
        with self._turns:
            self._world.start(node)
            self._wait_ready([node])

    def _end(self) -> None:
        with self._turns:
            for node in self.topology.nodes:
                self._world.stop(node)
