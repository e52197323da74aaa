"""Which process of the suite runs what: no core is idle while tests wait, and none at the end.

Most tests on real brokers and browsers wait; those of simulated meshes and of Spark compute. The
first process takes all that starts Spark and then, with the last one, what computes, longest first;
both are nicer than the others. These take what waits, longest first: two meshes on real brokers at
a time, which come before all else. Where both ends meet, each helps the other.
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
    "tests/kafka/test_scenarios.py",
    "tests/kafka/test_bench_smoke.py",
    "tests/kafka/test_storm.py",
    "tests/kafka/",
    "tests/contract/",
    "tests/browser/",
)
"""What waits more than it computes, longest first; but of the two storms one begins when the other
is over: together, beside Spark, brokers had no turn in time."""

ALONE = (
    "tests/kafka/test_apart.py",
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
"""With fewer nobody is spared for what computes."""

NICER = 3
"""By so much: a broker or a worker that has something to do comes first, and gets twice as
much of a core that is wanted by both."""


NICER_THAN_OTHERS = "nicer_than_others"
"""What a process is told at its start."""


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
    """Return whether a process is one of the two that compute."""
    return count >= PROCESSES_MIN and worker in ("gw0", f"gw{count - 1}")


def tell(node: WorkerController) -> None:
    """Tell a process that is about to start whether it is to make way."""
    where_files_stay_whole = node.config.getvalue("dist") == "loadfile"
    is_nicer = computes(node.gateway.id, node.workerinput["workercount"])
    node.workerinput[NICER_THAN_OTHERS] = where_files_stay_whole and is_nicer


def make_way(config: pytest.Config) -> None:
    """In a process that computes: leave the cores to others that want them."""
    if getattr(config, "workerinput", {}).get(NICER_THAN_OTHERS):
        os.nice(NICER)


class FromBothEnds(LoadFileScheduling):
    """File by file, and all that starts Spark in one process: two at once starve on two cores."""

    @property
    def nodes(self) -> list[WorkerController]:
        """The processes by their names, whichever is ready first: the first is to take Spark."""
        return sorted(super().nodes, key=lambda node: node.gateway.id)

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(DOCKER):
            return "docker"
        if nodeid.startswith(SPARK):
            return "spark"
        return nodeid if nodeid.startswith(ALONE) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_first = node.gateway.id == "gw0" and not self.assigned_work[node]
        if computes(node.gateway.id, self.numnodes) and not is_first:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more when it runs its last test, and not before: others may be sooner."""
        is_busy = self._pending_of(self.assigned_work[node]) > 1
        if self.workqueue and is_busy:
            return
        super()._reschedule(node)
