"""A worker process outlives Kafka's troubles, at its start and afterwards. Spec: DESIGN 6."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportDeniedError, TransportError
from mesh.transport.memory import MemoryKafka
from mesh.worker import main
from mesh.worker.main import RETRY_S, WorkerProcess
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.intake import PolledIntake
from mesh.worker.worker import Worker
from tests.component.worker.conftest import CHAIN, Said


@dataclass
class WaitingClock:
    """Time that passes while somebody waits; something may happen then."""

    then: Callable[[int], None] = lambda waits: None
    ms: int = 1_000
    waits: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.ms

    def wait(self, seconds: float) -> None:
        self.ms += int(seconds * 1_000)
        self.waits.append(seconds)
        self.then(len(self.waits))


@dataclass
class Bench:
    """A process of node a on an in-memory Kafka cluster.

    Attributes:
        intakes: All that were made; `open_intakes` are not closed.
        workers: All that were made.
    """

    kafka: MemoryKafka
    clock: WaitingClock
    process: WorkerProcess
    intakes: list[PolledIntake] = field(default_factory=list)
    open_intakes: list[PolledIntake] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bench]:
    clock = WaitingClock()
    kafka = MemoryKafka("k", now_ms=clock.now_ms)
    process = WorkerProcess(topology_from_mapping(CHAIN), "a", {}, ready_file=tmp_path / "ready")
    made = Bench(kafka, clock, process)

    def intake(readers: Mapping[str, object]) -> PolledIntake:
        one = PolledIntake(readers)
        close = one.close
        made.intakes.append(one)
        made.open_intakes.append(one)

        class Watched(PolledIntake):
            def close(self) -> None:
                made.open_intakes.remove(one)
                close()

        return Watched(readers)

    def worker(*args: object, **more: object) -> Worker:
        one = Worker(*args, **more)
        made.workers.append(one)
        return one

    monkeypatch.setattr(WorkerProcess, "_clusters", lambda _: {"k": kafka})
    monkeypatch.setattr(main, "ThreadedIntake", intake)
    monkeypatch.setattr(main, "MonotonicClock", lambda: clock)
    monkeypatch.setattr(main, "ThreadedErrands", SteppedErrands)
    monkeypatch.setattr(main, "Worker", worker)
    monkeypatch.setattr(main, "refuse_aliases", lambda _: None)
    monkeypatch.setattr(main.gc, "freeze", lambda: None)
    monkeypatch.setattr(main.gc, "set_threshold", lambda *_: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def stop_after(bench: Bench, monkeypatch: pytest.MonkeyPatch, turns: Mapping[int, str]) -> None:
    """Have turns of the process end in a word: fail, deny, wait or stop."""
    turn, count = Worker.turn, iter(range(1, 1_000))

    def counted(worker: Worker, timeout_s: float) -> bool:
        del timeout_s
        word = turns.get(next(count), "")
        if word == "fail":
            raise TransportError("Kafka is in trouble")
        if word == "deny":
            raise TransportDeniedError("no right")
        if word == "wait":
            bench.clock.ms += 2 * main.LONG_MS
        if word == "stop":
            signal.raise_signal(signal.SIGTERM)
        bench.clock.ms += 20
        return turn(worker, 0)

    monkeypatch.setattr(Worker, "turn", counted)


def test_a_start_without_brokers_is_tried_until_they_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try is a second after the last, and leaves nothing open. Spec: DESIGN 6."""
    bench.kafka.available = False

    def then(waits: int) -> None:
        bench.kafka.available = waits == 3

    bench.clock.then = then
    stop_after(bench, monkeypatch, {40: "stop"})
    bench.process.run()
    assert bench.clock.waits == [RETRY_S] * 3
    assert len(bench.workers) == 1
    assert bench.open_intakes == []


def test_a_worker_that_cannot_be_made_leaves_nothing_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that leave while it is made: what it reads with is closed before the next try."""
    make = main.Worker

    def leaves(*args: object, **more: object) -> Worker:
        bench.kafka.available = bool(bench.clock.waits)
        return make(*args, **more)

    def then(waits: int) -> None:
        assert waits == 1
        assert bench.open_intakes == []
        bench.kafka.available = True

    monkeypatch.setattr(main, "Worker", leaves)
    bench.clock.then = then
    stop_after(bench, monkeypatch, {40: "stop"})
    bench.process.run()
    assert len(bench.intakes) == 2
    assert len(bench.workers) == 1
    assert bench.open_intakes == []


def test_a_signal_ends_the_trying(bench: Bench) -> None:
    """Nobody must kill a process that waits for its brokers."""
    bench.kafka.available = False
    bench.clock.then = lambda waits: signal.raise_signal(signal.SIGTERM) if waits == 2 else None
    bench.process.run()
    assert bench.clock.waits == [RETRY_S] * 2
    assert bench.open_intakes == []


def test_troubles_end_a_worker_and_another_starts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on, and is ready again. Spec: DESIGN 6."""
    ready = bench.process.ready_file
    assert ready is not None
    seen: list[bool] = []
    bench.clock.then = lambda _: seen.append(ready.exists())
    stop_after(bench, monkeypatch, {60: "fail", 150: "stop"})
    close = Worker.close

    def closed(worker: Worker) -> None:
        seen.append(ready.exists())
        close(worker)

    monkeypatch.setattr(Worker, "close", closed)
    bench.process.run()
    assert bench.clock.waits == [RETRY_S]
    assert len(bench.workers) == 2
    assert seen[-1], "the second worker became ready"
    assert not ready.exists()
    assert bench.open_intakes == []


def test_a_turn_that_waited_for_brokers_is_told(
    said: Said, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lanes stood still meanwhile."""
    stop_after(bench, monkeypatch, {3: "wait", 5: "stop"})
    bench.process.run()
    [told] = said.of("turn.long")
    assert told["log_level"] == "warning"
    assert main.LONG_MS <= told["ms"] <= 3 * main.LONG_MS


def test_a_refusal_ends_the_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again would not help; everything is released first."""
    stop_after(bench, monkeypatch, {5: "deny"})
    with pytest.raises(TransportDeniedError):
        bench.process.run()
    assert bench.clock.waits == []
    assert bench.open_intakes == []


def test_new_credentials_end_a_worker_in_good_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker starts with the new clients at once; the former ones are closed."""
    fresh = MemoryKafka("k", now_ms=bench.clock.now_ms)
    answers: list[Mapping[str, MemoryKafka] | None] = [*[None] * 20, {"k": fresh}]
    polled: list[MemoryKafka] = []
    closed: list[MemoryKafka] = []
    reader = MemoryKafka.reader

    def read(kafka: MemoryKafka, *args: object, **more: object) -> object:
        polled.append(kafka)
        return reader(kafka, *args, **more)

    monkeypatch.setattr(MemoryKafka, "reader", read)

    def close(kafka: MemoryKafka) -> None:
        closed.append(kafka)

    monkeypatch.setattr(MemoryKafka, "close", close)
    monkeypatch.setattr(main.Renewal, "poll", lambda _: answers.pop(0) if answers else None)
    stop_after(bench, monkeypatch, {60: "stop"})
    bench.process.run()
    assert len(bench.workers) == 2
    assert bench.clock.waits == []
    assert polled[0] is bench.kafka
    assert polled[-1] is fresh
    assert bench.kafka in closed
    assert fresh not in closed
    assert bench.open_intakes == []
