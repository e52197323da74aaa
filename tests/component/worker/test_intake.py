"""What was fetched for a former assignment is forgotten, and nothing else. Spec: R7, K18."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Record, TopicPartition
from mesh.worker.process import intake as intake_module
from mesh.worker.process.injected_faults import SlowIntake
from mesh.worker.process.intake import PolledIntake, ThreadedIntake

PLACE = TopicPartition("t", 0)
LONG_S = 10.0


def record(offset: int) -> Record:
    return MemoryRecord("t", 0, offset, None, b"", None, (1, 0))


@dataclass(slots=True)
class Waiting:
    """A reader whose reads wait until the test says what they find."""

    noted: int = 0
    heeded: int = 0
    finds: queue.Queue[Sequence[Record]] = field(default_factory=queue.Queue)
    at: int = 0
    reads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        del positions
        self.noted += 1

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        del partitions
        self.noted += 1

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        del timeout_s, limit
        self.reads.release()
        return self.finds.get(timeout=LONG_S)

    def position(self, place: TopicPartition) -> int:
        assert place == PLACE
        return self.at

    def lost(self) -> Sequence[TopicPartition]:
        return ()

    def reachable(self) -> bool:
        return True

    def close(self) -> None: ...

    def await_read(self) -> None:
        assert self.reads.acquire(timeout=LONG_S)

    def find(self, *offsets: int, heeded: int) -> None:
        """End the present read, with records that know of so many changes."""
        self.heeded = heeded
        self.finds.put([record(offset) for offset in offsets])
        self.await_read()  # what it found is in the queue


@pytest.fixture
def reader() -> Waiting:
    return Waiting()


@pytest.fixture
def intake(reader: Waiting) -> Iterator[ThreadedIntake]:
    found = ThreadedIntake({"k": reader})
    reader.await_read()
    yield found
    reader.finds.put(())
    found.close()


def taken(intake: ThreadedIntake) -> Sequence[int]:
    return [one.offset() for one in intake.read(LONG_S)]


def test_what_was_fetched_before_is_forgotten(reader: Waiting, intake: ThreadedIntake) -> None:
    reader.assign({PLACE: 0})
    reader.find(0, 1, heeded=1)
    reader.unassign([PLACE])
    intake.forget([PLACE])
    reader.assign({PLACE: 0})
    reader.find(0, heeded=3)
    assert taken(intake) == []
    assert taken(intake) == [0]


def test_how_far_it_was_read_is_forgotten_too(reader: Waiting, intake: ThreadedIntake) -> None:
    """Who looks whether anything is on its way would take for read what comes again. Spec: K28."""
    slow = SlowIntake(intake, lambda: 0, lambda: 0.0)
    slow.watch("k", PLACE)
    reader.assign({PLACE: 0})
    reader.at = 2
    reader.find(0, 1, heeded=1)
    assert len(slow.read(LONG_S)) == 2
    assert slow.positions == {PLACE: 2}
    reader.unassign([PLACE])
    slow.forget([PLACE])
    reader.assign({PLACE: 1})
    assert slow.positions == {}
    reader.find(heeded=1)
    slow.read(LONG_S)
    assert slow.positions == {}  # as of before
    reader.at = 1
    reader.find(heeded=3)
    slow.read(LONG_S)
    assert slow.positions == {PLACE: 1}


def test_a_polled_position_is_forgotten_as_well() -> None:
    """Spec: K28."""
    reader = Waiting(at=2)
    intake = PolledIntake({"k": reader})
    intake.watch("k", PLACE)
    reader.finds.put([record(0), record(1)])
    assert len(intake.read(0)) == 2
    assert intake.positions == {PLACE: 2}
    intake.forget([PLACE])
    assert intake.positions == {}


def test_a_waiting_read_may_heed_what_comes_after_the_forgetting(
    reader: Waiting, intake: ThreadedIntake
) -> None:
    """A lane that is taken again at once: its records come by the read that waited all along."""
    reader.assign({PLACE: 0})
    reader.unassign([PLACE])
    intake.forget([PLACE])
    reader.assign({PLACE: 0})
    reader.find(0, 1, heeded=3)
    assert taken(intake) == [0, 1]


def test_a_read_that_has_not_heeded_the_end_yet_is_too_old(
    reader: Waiting, intake: ThreadedIntake
) -> None:
    reader.assign({PLACE: 0})
    reader.unassign([PLACE])
    intake.forget([PLACE])
    reader.find(0, heeded=1)
    assert taken(intake) == []


def test_other_partitions_lose_nothing(reader: Waiting, intake: ThreadedIntake) -> None:
    reader.assign({PLACE: 0})
    other = TopicPartition("u", 0)
    reader.unassign([other])
    intake.forget([other])
    reader.find(0, heeded=1)
    assert taken(intake) == [0]


def test_records_for_which_nobody_waits_are_gathered_until_one_comes_that_is_awaited(
    reader: Waiting, intake: ThreadedIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has one turn for many heartbeats, and a message never waits behind them."""
    monkeypatch.setattr(intake_module, "GATHER_S", LONG_S)
    for offset in range(3):
        reader.find(offset, heeded=0)
    found = intake.read(LONG_S, lambda one: one.offset() != 1)
    assert [one.offset() for one in found] == [0, 1]
    assert taken(intake) == [2]


def test_what_may_wait_waits_no_longer_than_that_nor_than_the_reader(
    reader: Waiting, intake: ThreadedIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gather_s, timeout_s in [(0.0, LONG_S), (LONG_S, 0.0)]:
        monkeypatch.setattr(intake_module, "GATHER_S", gather_s)
        reader.find(0, heeded=0)
        began_s = time.monotonic()
        assert len(intake.read(timeout_s, lambda _: True)) == 1
        assert time.monotonic() - began_s < LONG_S / 2


def test_a_fetch_without_records_ends_the_wait(reader: Waiting, intake: ThreadedIntake) -> None:
    """It says how far a partition was read, and somebody waits for that."""
    intake.watch("k", PLACE)
    reader.at = 1
    reader.find(heeded=0)
    began_s = time.monotonic()
    assert intake.read(LONG_S, lambda _: True) == []
    assert intake.positions == {PLACE: 1}
    assert time.monotonic() - began_s < LONG_S / 2
