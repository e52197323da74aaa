"""A worker process outlives Kafka's troubles, at its start and afterwards. Spec: DESIGN 6."""

from __future__ import annotations

import errno
import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import InvariantError, TransportDeniedError, TransportError
from mesh.model.effects import Effect
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input, Ticked
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import Headers, Reader
from mesh.wire.keys import subscription_key
from mesh.worker.main import LONG_MS, RETRY_S, Machinery, WorkerProcess
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.intake import PolledIntake
from mesh.worker.worker import Worker
from tests.component.worker.conftest import CHAIN, subject
from tests.said import Said

TURNS_MAX = 5_000


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


class ClosableKafka(MemoryKafka):
    """A Kafka cluster in memory of which is known whether its clients were closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class ClosableIntake(PolledIntake):
    """Reads in turn, and is known to be closed."""

    is_open = True

    def close(self) -> None:
        super().close()
        self.is_open = False


class WatchedWorker(Worker):
    """A worker of which somebody hears before each turn, and before it ends."""

    before_turn: Callable[[], None]
    before_close: Callable[[], None]

    def turn(self, timeout_s: float) -> bool:
        del timeout_s
        self.before_turn()
        return super().turn(0)

    def close(self) -> None:
        self.before_close()
        super().close()


class Bench:
    """A process of node a on an in-memory Kafka cluster.

    Attributes:
        kafka: The Kafka cluster; `fresh` serves those who know the new secret.
        clock: Time; each turn takes `turn_ms`.
        intakes, workers: All that were made.
        turns: Which turns of the process end in a word: fail, deny, wait or stop.
        as_made: Called before a worker is made.
        before_turn, before_close: Called by workers.
    """

    def __init__(self, ready_file: Path, topology: Topology) -> None:
        self.clock = WaitingClock()
        self.kafka = ClosableKafka("k", now_ms=self.clock.now_ms)
        self.fresh = ClosableKafka("k", now_ms=self.clock.now_ms)
        self.intakes: list[ClosableIntake] = []
        self.workers: list[Worker] = []
        self.turns: Mapping[int, str] = {}
        self.turn_ms = 20
        self.as_made: Callable[[], None] = lambda: None
        self.before_turn: Callable[[int], None] = lambda turn: None
        self.before_close: Callable[[], None] = lambda: None
        self._count = itertools.count(1)
        machinery = Machinery(
            self.clock, self._kafka, self._intake, SteppedErrands, self._worker, lambda: None
        )
        self.process = WorkerProcess(topology, "a", {}, ready_file=ready_file, machinery=machinery)

    @property
    def open_intakes(self) -> list[ClosableIntake]:
        return [one for one in self.intakes if one.is_open]

    def _kafka(self, _name: str, options: Mapping[str, str], **_more: object) -> MemoryKafka:
        return self.fresh if options.get("sasl.password") == "fresh" else self.kafka

    def _intake(self, readers: dict[str, Reader]) -> ClosableIntake:
        self.intakes.append(ClosableIntake(readers))
        return self.intakes[-1]

    def _worker(self, *args: object, **more: object) -> Worker:
        self.as_made()
        made = WatchedWorker(*args, **more)
        made.before_turn, made.before_close = self._turn, self.before_close
        self.workers.append(made)
        return made

    def _turn(self) -> None:
        turn = next(self._count)
        assert turn < TURNS_MAX, "nobody stopped it"
        self.before_turn(turn)
        word = self.turns.get(turn, "")
        if word == "fail":
            raise TransportError("Kafka is in trouble")
        if word == "deny":
            raise TransportDeniedError("no right")
        if word == "wait":
            self.clock.ms += 2 * LONG_MS
        if word == "stop":
            signal.raise_signal(signal.SIGTERM)
        self.clock.ms += self.turn_ms


def write(
    bench: Bench, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = ()
) -> None:
    """Write a record as a client does."""
    writer = bench.kafka.writer("client")
    writer.produce(topic, value, key, 0, headers=headers)
    assert writer.flush() == 0


@pytest.fixture
def signals() -> Iterator[None]:
    """Leave no handler of a process behind."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def bench(signals: None, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "ready", topology_from_mapping(CHAIN))


def test_a_start_without_brokers_is_tried_until_they_answer(said: Said, bench: Bench) -> None:
    """Each try is a second after the last, and leaves nothing open. Spec: DESIGN 6."""
    bench.kafka.available = False

    def then(waits: int) -> None:
        bench.kafka.available = waits == 3

    bench.clock.then = then
    bench.turns = {40: "stop"}
    bench.process.run()
    assert bench.clock.waits == [RETRY_S] * 3
    told = said.of("kafka.unreachable")
    assert [one["log_level"] for one in told] == ["warning"] * 3
    assert all("Kafka cluster k" in one["fault"] for one in told)
    assert len(bench.workers) == 1
    assert bench.open_intakes == []


def test_a_worker_that_cannot_be_made_leaves_nothing_open(bench: Bench) -> None:
    """Brokers that leave while it is made: what it reads with is closed before the next try."""

    def leave_once() -> None:
        bench.kafka.available = bool(bench.clock.waits)

    def then(waits: int) -> None:
        assert waits == 1
        assert bench.open_intakes == []
        bench.kafka.available = True

    bench.as_made, bench.clock.then = leave_once, then
    bench.turns = {40: "stop"}
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


def test_troubles_end_a_worker_and_another_starts(said: Said, bench: Bench) -> None:
    """The process goes on, and is ready again. Spec: DESIGN 6."""
    ready = bench.process.ready_file
    assert ready is not None
    seen: list[bool] = []
    bench.clock.then = lambda _: seen.append(ready.exists())
    bench.before_close = lambda: seen.append(ready.exists())
    bench.turns = {60: "fail", 150: "stop"}
    bench.process.run()
    assert bench.clock.waits == [RETRY_S]
    assert len(bench.workers) == 2
    troubles = {"log_level": "warning", "fault": "Kafka is in trouble"}
    assert said.of("worker.restarts") == [troubles]
    assert seen[-1], "the second worker became ready"
    assert not ready.exists()
    assert bench.open_intakes == []


def test_a_contradiction_beside_the_lanes_ends_the_process_and_a_successor_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing more is done by that state, and the next process builds it again. Spec: R17."""
    names, decide, contradictions = TopicNames(), NodeMachine.step, []

    def step(machine: NodeMachine, input_: Input) -> list[Effect]:
        if contradictions and isinstance(input_, Ticked):
            raise contradictions.pop()
        return decide(machine, input_)

    def before_turn(turn: int) -> None:
        if turn == 100:
            write(bench, names.clients("a"), b"{}", key=subscription_key("e", ">"))
        if turn == 200:
            ingress = names.ingress("a", MessageClass.GUARANTEED)
            write(bench, ingress, b"v", headers=[subject("x")])
            contradictions.append(InvariantError("two rounds at once"))

    monkeypatch.setattr(NodeMachine, "step", step)
    ready = bench.process.ready_file
    assert ready is not None
    seen: list[bool] = []
    bench.before_turn, bench.turns = before_turn, {1_000: "stop"}
    bench.before_close = lambda: seen.append(ready.exists())
    with pytest.raises(InvariantError, match="two rounds at once"):
        bench.process.run()
    assert len(bench.workers) == 1
    assert not ready.exists()
    bench.process.run()
    assert (len(bench.workers), seen) == (2, [True])
    logs = bench.kafka.topics[names.endpoint("a", "e")].logs
    delivered = [one.value() for log in logs for one in log.entries if one is not None]
    assert delivered == [b"v"]


def test_a_ready_file_that_cannot_be_written_ends_nobody(
    said: Said, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full, or its mount be gone for a while; it is written once that is over."""
    ready, is_full, write = bench.process.ready_file, True, Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        if is_full and path == ready:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    seen: list[bool] = []

    def before_turn(turn: int) -> None:
        nonlocal is_full
        is_full = turn < 100
        if turn in (100, 149):
            seen.append(ready.exists())

    bench.before_turn = before_turn
    bench.turns = {150: "stop"}
    bench.process.run()
    assert len(bench.workers) == 1
    assert seen == [False, True]
    [told] = said.of("ready_file.failed")
    assert "No space left" in told["fault"]


def test_a_turn_that_waited_for_brokers_is_told(said: Said, bench: Bench) -> None:
    """All lanes stood still meanwhile."""
    bench.turns = {3: "wait", 5: "stop"}
    bench.process.run()
    [told] = said.of("turn.long")
    assert told["log_level"] == "warning"
    assert LONG_MS <= told["ms"] <= 3 * LONG_MS


def test_a_refusal_ends_the_process(bench: Bench) -> None:
    """Trying again would not help; everything is released first."""
    bench.turns = {5: "deny"}
    with pytest.raises(TransportDeniedError):
        bench.process.run()
    assert bench.clock.waits == []
    assert bench.open_intakes == []


def test_new_credentials_end_a_worker_in_good_order(
    signals: None,
    tmp_path: Path,
) -> None:
    """Another worker starts with the new clients at once; the former ones are closed."""
    secret = tmp_path / "secret"
    secret.write_text("old")
    secret.chmod(0o600)
    options = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": f"${{file:{secret}}}",
    }
    bench = Bench(tmp_path / "ready", topology_from_mapping({**CHAIN, "kafka": {"k": options}}))
    bench.turn_ms = 1_000  # a changed secret is taken within a minute

    def before_turn(turn: int) -> None:
        if turn == 20:
            secret.write_text("fresh")
        if len(bench.workers) == 2:
            signal.raise_signal(signal.SIGTERM)

    bench.before_turn = before_turn
    bench.process.run()
    topic = "mesh.a.control"
    assert len(bench.workers) == 2
    assert bench.clock.waits == []
    assert topic in bench.kafka.admin().describe([topic])
    assert topic in bench.fresh.admin().describe([topic]), "the second worker's are the new ones"
    assert bench.kafka.is_closed
    assert not bench.fresh.is_closed
    assert bench.open_intakes == []
