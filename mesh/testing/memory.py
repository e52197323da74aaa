"""A mesh in memory, for unit tests: the real nodes and client library, on Kafka that is not there.

Time passes while a client waits and at no other moment, so nothing takes long and every run of a
seed is the same, unless threads use it: which of them waits first is chance. No record outlives
the object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import structlog

from mesh.client import MeshClient
from mesh.client.outbound import check_number
from mesh.errors import ClosedError, StartError, wrong_input
from mesh.lab.world import World
from mesh.testing.turns import Turns, in_turn
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
        # A node takes one turn at a time, and a client's call is one, whichever threads there are.
        self._turns = Turns()

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

        def late() -> list[str]:
            return [node for node in nodes if node not in workers or not workers[node].is_ready]

        with self._turns:
            is_ready = self._world.run_until(lambda: not late(), READY_MS)
        if not is_ready:
            names = ", ".join(late())
            raise StartError(
                f"{names}: not ready within {READY_MS / 1000:g} s; what nodes log says why"
            )

    def pass_time(self, seconds: float) -> None:
        """Let the mesh live for a while: what is on its way arrives.

        Raises:
            StartError: The mesh does not run.
            TypeError: It is text, or anything else that is no number.
            ValueError: It is nan, negative, or without end.
        """
        self._check_runs()
        check_number("seconds", seconds, "a number")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a mesh cannot live for {seconds:g} s; write seconds")
        self._live(seconds)

    def _live(self, seconds: float) -> None:
        until = self._world.clock.ms + max(1, int(seconds * 1000))
        while self._world.clock.ms < until:
            with self._turns:
                self._world.advance()
            # As a thread does in production; no turn is held while another thread renews.
            for client in self._clients:
                with suppress(ClosedError):
                    client.renew_leases()

    def _open(self, node: str) -> MeshClient:
        clock, turns = self._world.clock, self._turns
        kafka = {name: in_turn(one, turns) for name, one in self._world.kafka.items()}
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
