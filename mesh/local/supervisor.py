"""Keeps the processes of a mesh running: whatever ends by itself is started again.

Spec: DESIGN 8, DESIGN 10.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mesh.errors import StartError
from mesh.local.embedded import EmbeddedKafka
from mesh.local.fleet import Fleet
from mesh.local.jars import Progress, silent
from mesh.local.processes import Process
from mesh.local.stopping import Stopping
from mesh.model.patience import Patience

BACKOFF_S = Patience(0.5, 30.0)
STEADY_S = 60.0
"""Who ran for so long before it ended is started again at once, as if for the first time."""
TEND_S = 0.25
"""How often processes are looked at."""


@dataclass(slots=True)
class Kept:
    """A process, or a group of them, that should run.

    Attributes:
        name: For messages.
        processes: The present ones.
        restart: Starts those again that ended; must not wait for them to serve.
        backoff_s: Wait before the next start.
        started_s: When it was last started, on the monotonic clock.
        due_s: When it is to be started again, or None while it runs.
    """

    name: str
    processes: Callable[[], Sequence[Process]]
    restart: Callable[[], None]
    backoff_s: float = BACKOFF_S.first
    started_s: float = 0.0
    due_s: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Starts the workers of a fleet and keeps them, and its embedded brokers, running.

    Attributes:
        fleet: Brokers that run; no node does yet.
        progress: Called with a line for every start and end.
        now_s: Monotonic clock.
        restarts: How often something was started again.
    """

    fleet: Fleet
    progress: Progress = silent
    now_s: Callable[[], float] = time.monotonic
    restarts: int = 0
    _kept: list[Kept] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep the brokers from the beginning."""
        for name, kafka in self.fleet.brokers.items():
            self.keep(f"Kafka cluster {name}", partial(_processes_of, kafka), kafka.begin)

    def keep(
        self,
        name: str,
        processes: Callable[[], Sequence[Process]],
        restart: Callable[[], None],
    ) -> None:
        """Keep something running from now on."""
        self._kept.append(Kept(name, processes, restart, started_s=self.now_s()))

    def start_nodes(self, nodes: Sequence[str], workers: int = 1) -> None:
        """Start the workers of nodes; returns when they run, not when they serve."""
        for node in nodes:
            self.fleet.start_node(node, workers)
            for index in range(workers):
                self.keep(
                    f"worker {index} of {node}",
                    partial(self._worker, node, index),
                    partial(self.fleet.start_worker, node, index),
                )

    def _worker(self, node: str, index: int) -> Sequence[Process]:
        return [self.fleet.workers[node][index]]

    def serving(self) -> Sequence[str]:
        """Return the nodes that serve: at least one of their workers says so."""
        return [
            node
            for node, workers in self.fleet.workers.items()
            if any(self.fleet.ready_file(node, index).exists() for index in range(len(workers)))
        ]

    def wait_serving(self, stopping: Stopping, patience_s: float) -> None:
        """Wait until every started node serves, and tend the processes meanwhile.

        Args:
            stopping: Tells when to stop.
            patience_s: For how long no further node may begin to serve: how long all of them take
                hangs on their number and on the machine.

        Raises:
            StartError: A node does not serve in time; names it and its log.
            StoppedError: The work should stop.
        """
        fewest, end_s = len(self.fleet.workers) + 1, 0.0
        while missing := [node for node in self.fleet.workers if node not in self.serving()]:
            if len(missing) < fewest:
                fewest, end_s = len(missing), self.now_s() + patience_s
            if self.now_s() > end_s:
                raise StartError(
                    f"{', '.join(missing)} did not begin to serve, and nobody else did for "
                    f"{patience_s:g} s; logs: {self.log_of(missing[0])}"
                )
            self.tend()
            stopping.wait(TEND_S)

    def log_of(self, node: str) -> Path:
        """Return the log of a node's first worker."""
        return self.fleet.workers[node][0].log

    def tend(self) -> None:
        """Start again whatever has ended, each after its own back-off."""
        now_s = self.now_s()
        for kept in self._kept:
            ended = [process for process in kept.processes() if not process.is_alive()]
            if not ended:
                continue
            if kept.due_s is None:
                self._plan(kept, ended[0], now_s)
            if kept.due_s is not None and now_s >= kept.due_s:
                self._restart(kept, now_s)

    def _plan(self, kept: Kept, process: Process, now_s: float) -> None:
        if now_s - kept.started_s >= STEADY_S:
            kept.backoff_s = BACKOFF_S.first
        kept.due_s = now_s + kept.backoff_s
        self.progress(
            f"{kept.name} ended {_how(process.returncode)}; starting it again in "
            f"{kept.backoff_s:g} s; log: {process.log}"
        )
        kept.backoff_s = BACKOFF_S.after(kept.backoff_s)

    def _restart(self, kept: Kept, now_s: float) -> None:
        kept.started_s = now_s
        kept.due_s = None
        try:
            kept.restart()
        except StartError as error:
            self.progress(str(error))
            return
        self.restarts += 1
        self.progress(f"{kept.name} runs again")


def _processes_of(kafka: EmbeddedKafka) -> Sequence[Process]:
    return kafka.processes


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by signal {-code}"
    return f"with code {code}"
