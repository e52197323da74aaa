"""What ends by itself is started again, each time a little later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.local.brokers import KafkaClusters
from mesh.local.fleet import Fleet
from mesh.local.processes import Process, spawn
from mesh.local.supervisor import BACKOFF_S, STEADY_S, Supervisor
from mesh.model.topology import Topology
from tests.patience import PATIENCE_S


@dataclass
class Bench:
    """A supervisor under a clock that the test moves, with a program that ends at once."""

    folder: Path
    now_s: float = 100.0
    lines: list[str] = field(default_factory=list)
    starts: int = 0
    process: Process | None = None

    def __post_init__(self) -> None:
        topology = Topology(name="t", kafka={}, nodes={}, zones={})
        fleet = Fleet(topology, self.folder / "f.yaml", self.folder, {}, KafkaClusters({}))
        self.supervisor = Supervisor(fleet, self.lines.append, lambda: self.now_s)

    def start(self, program: str = "false") -> None:
        self.starts += 1
        self.process = spawn([program], name="it", log=self.folder / "it.log")
        self.process.wait(PATIENCE_S)

    def present(self) -> list[Process]:
        assert self.process is not None
        return [self.process]

    def keep(self, restart: Callable[[], None] | None = None) -> None:
        self.start()
        self.supervisor.keep("it", self.present, restart or self.start)

    def pass_(self, seconds: float) -> int:
        """Let time pass in small steps; return how often the program was started meanwhile."""
        before, end_s = self.starts, self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.25
            self.supervisor.tend()
        return self.starts - before


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_ends_is_started_again_after_its_back_off(bench: Bench) -> None:
    bench.keep()
    bench.supervisor.tend()
    assert bench.starts == 1
    log = bench.folder / "it.log"
    assert bench.lines == [f"it ended with code 1; starting it again in 0.5 s; log: {log}"]
    assert bench.pass_(BACKOFF_S.first) == 1
    assert bench.lines[1] == "it runs again"


def test_back_off_doubles_up_to_its_limit(bench: Bench) -> None:
    bench.keep()
    assert bench.pass_(200) == 11  # after 0.5, 1, 2, 4, 8, 16 and five times 30 s
    assert bench.pass_(10 * BACKOFF_S.most) in range(9, 12)


def test_who_ran_for_long_is_started_again_soon(bench: Bench) -> None:
    bench.keep()
    bench.pass_(50)
    bench.start("true")
    bench.now_s += STEADY_S
    bench.supervisor.tend()
    bench.lines.clear()
    bench.now_s += STEADY_S
    bench.supervisor.tend()
    assert bench.pass_(2 * BACKOFF_S.first) >= 1


def test_a_start_that_fails_is_told_and_tried_again(bench: Bench) -> None:
    tries: list[float] = []

    def refuse() -> None:
        tries.append(bench.now_s)
        raise StartError("port 9092 is in use")

    bench.keep(refuse)
    bench.pass_(5)
    assert len(tries) >= 2
    assert "port 9092 is in use" in bench.lines
    assert bench.supervisor.restarts == 0


def test_who_waits_gives_up_when_no_more_nodes_serve(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long all of them take: thirty nodes on a slow machine take minutes."""
    bench.start()
    assert bench.process is not None
    fleet = bench.supervisor.fleet
    fleet.workers |= {node: [bench.process] for node in ("a", "b", "c")}
    begins = {"a": 150.0, "b": 240.0, "c": 340.0}
    ready = {node: bench.folder / f"{node}.ready" for node in begins}
    monkeypatch.setattr(Fleet, "ready_file", lambda _fleet, node, _worker=0: ready[node])

    class Stopping:
        def wait(self, seconds: float) -> None:
            bench.now_s += seconds
            for node, begins_s in begins.items():
                if bench.now_s >= begins_s:
                    ready[node].touch()

    bench.supervisor.wait_serving(Stopping(), 120)  # type: ignore[arg-type] # all that it asks
    for file in ready.values():
        file.unlink()
    bench.now_s = 100.0
    with pytest.raises(StartError, match="c did not begin to serve, and nobody else did for 95 s"):
        bench.supervisor.wait_serving(Stopping(), 95)  # type: ignore[arg-type] # likewise
