"""Which process of the suite runs what: no core is idle while tests wait, and none at the end.

Most tests on real brokers and browsers wait; those of simulated meshes compute. The last process
takes what computes, longest first, and is nicer than the others; these take what waits, longest
first, and then help the last one from its end.
"""

from __future__ import annotations

import os

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK = ("tests/e2e/", "tests/streaming/")
DOCKER = ("tests/e2e/test_containers.py", "tests/e2e/test_machines.py")
"""These share the engine that the first of them starts."""

WAITING = (
    "tests/e2e/",
    "tests/streaming/",
    "tests/kafka/test_strangers.py",
    "tests/kafka/test_storm.py",
    "tests/kafka/test_scenarios.py",
    "tests/kafka/test_bench_smoke.py",
    "tests/kafka/",
    "tests/contract/",
    "tests/browser/",
)
"""What waits more than it computes, longest first."""

ALONE = (
    "tests/kafka/test_apart.py",
    "tests/kafka/test_scenarios.py",
    "tests/kafka/test_stops.py",
    "tests/kafka/test_storm.py",
)
"""Files whose tests share nothing but the process's brokers: any process may take any of them."""

COMPUTING = (
    "tests/sim/swarm/test_swarm.py",
    "tests/mutations/",
    "tests/sim/",
    "tests/component/",
    "tests/scenarios/",
    "tests/property/",
)
"""What computes longest, longest first; all that is named nowhere follows."""

PROCESSES_MIN = 3
"""With fewer nobody can be spared for what computes."""

NICER = 5
"""By so much: a turn of a broker or a worker comes first, and what computes gets a third at least."""


def place(nodeid: str) -> tuple[int, int]:
    """Return where a test stands between those that wait longest and those that compute longest."""
    for rank, beginning in enumerate(WAITING):
        if nodeid.startswith(beginning):
            return (0, rank)
    for rank, beginning in enumerate(COMPUTING):
        if nodeid.startswith(beginning):
            return (2, -rank)
    return (1, 0)


def computes(worker: str, count: int) -> bool:
    """Say whether a process is the one that computes."""
    return count >= PROCESSES_MIN and worker == f"gw{count - 1}"


def make_way(config: pytest.Config) -> None:
    """In the process that computes: leave the cores to others that want them."""
    told = getattr(config, "workerinput", None)
    if (
        told
        and config.getvalue("dist") == "loadfile"
        and computes(told["workerid"], told["workercount"])
    ):
        os.nice(NICER)


class FromBothEnds(LoadFileScheduling):
    """File by file, and all that starts Spark in one process: two at once starve on two cores."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(DOCKER):
            return "docker"
        if nodeid.startswith(SPARK):
            return "spark"
        return nodeid if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if computes(node.gateway.id, self.numnodes):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more when it runs its last test, and not before: others may be sooner."""
        is_busy = self._pending_of(self.assigned_work[node]) > 1
        if self.workqueue and is_busy:
            return
        super()._reschedule(node)
