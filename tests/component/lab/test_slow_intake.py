"""Slow links: records come late, in order, and positions do not run ahead of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from mesh.model.topics import TopicNames
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Record, TopicPartition
from mesh.worker.process.injected_faults import (
    InjectedFaults,
    SlowIntake,
    SlowLink,
    WallClock,
    read_injected_faults,
)
from mesh.worker.process.intake import MayWait, none_may_wait

SLOW, FAST = "mesh.b.to.a.g", "mesh.c.to.a.g"


class Scripted:
    """An intake that returns what it is told to."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.coming: list[Record] = []
        self.timeouts: list[float] = []

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        self.timeouts.append(timeout_s)
        found, self.coming = self.coming, []
        for one in found:
            self.positions[TopicPartition(one.topic(), one.partition())] = one.offset() + 1
        return found

    def watch(self, kafka: str, place: TopicPartition) -> None: ...

    def unwatch(self, place: TopicPartition) -> None: ...

    def forget(self, places: Sequence[TopicPartition]) -> None: ...

    def close(self) -> None: ...


class Bench:
    def __init__(self, *chances: float) -> None:
        self.now = 1_000
        self.inner = Scripted()
        drawn = iter(chances)
        self.intake = SlowIntake(self.inner, lambda: self.now, lambda: next(drawn))

    def slow(self, *links: SlowLink) -> None:
        self.intake.slow(links, "a", TopicNames())

    def read(self, *records: tuple[str, int]) -> list[tuple[str, int]]:
        self.inner.coming = [
            MemoryRecord(topic, 0, offset, None, b"", None, (1, 0)) for topic, offset in records
        ]
        return [(one.topic(), one.offset()) for one in self.intake.read(0.1)]


def test_without_faults_everything_passes() -> None:
    bench = Bench()
    assert bench.read((SLOW, 0), (FAST, 0)) == [(SLOW, 0), (FAST, 0)]
    assert bench.intake.positions is bench.inner.positions


def test_only_the_slow_neighbour_comes_late_and_in_order() -> None:
    bench = Bench(1.0, 1.0)
    bench.slow(SlowLink("b", 200, 0.1))
    assert bench.read((SLOW, 0), (FAST, 0), (SLOW, 1)) == [(FAST, 0)]
    place = TopicPartition(SLOW, 0)
    assert bench.intake.positions[place] == 0
    bench.now += 150
    assert bench.read((SLOW, 2)) == []
    bench.now += 50
    assert bench.read() == [(SLOW, 0), (SLOW, 1)]
    assert bench.intake.positions[place] == 2
    bench.now += 150
    assert bench.read() == [(SLOW, 2)]
    assert bench.intake.positions == {place: 3, TopicPartition(FAST, 0): 1}


def test_a_lost_fetch_comes_again_and_nothing_overtakes_it() -> None:
    bench = Bench(0.0, 0.0, 1.0, 1.0)
    bench.slow(SlowLink("b", 20, 0.5))
    assert bench.read((SLOW, 0)) == []
    bench.now += 100
    assert bench.read((SLOW, 1)) == []
    bench.now += 119
    assert bench.read() == []
    bench.now += 1
    assert bench.read() == [(SLOW, 0), (SLOW, 1)]


def test_what_is_held_comes_in_order_after_the_link_has_healed() -> None:
    bench = Bench(1.0)
    bench.slow(SlowLink("b", 100, 0.0))
    bench.read((SLOW, 0))
    bench.slow()
    assert bench.read((SLOW, 1)) == []
    bench.now += 100
    assert bench.read() == [(SLOW, 0), (SLOW, 1)]
    assert bench.read((SLOW, 2)) == [(SLOW, 2)]


def test_what_is_forgotten_never_comes() -> None:
    bench = Bench(1.0)
    bench.slow(SlowLink("b", 100, 0.0))
    bench.read((SLOW, 0))
    bench.intake.forget([TopicPartition(SLOW, 0)])
    bench.now += 100
    assert bench.read() == []


def test_positions_go_on_when_the_last_that_was_held_is_forgotten() -> None:
    bench = Bench(1.0)
    bench.slow(SlowLink("b", 100, 0.0))
    bench.read((SLOW, 0))
    bench.slow()
    bench.intake.forget([TopicPartition(SLOW, 0)])
    assert bench.read((SLOW, 1)) == [(SLOW, 1)]
    assert bench.intake.positions == {TopicPartition(SLOW, 0): 2}


def test_a_wait_ends_when_something_is_due() -> None:
    bench = Bench(1.0)
    bench.slow(SlowLink("b", 30, 0.0))
    bench.read((SLOW, 0))
    bench.now += 10
    bench.read()
    assert bench.inner.timeouts == [0.1, 0.02]


@pytest.mark.parametrize(
    "topic", ["mesh.b.control", "mesh.b.to.a.c", "mesh.b.to.a.d", "mesh.b.to.a.t"]
)
def test_control_and_direct_are_slow_too(topic: str) -> None:
    bench = Bench(1.0)
    bench.slow(SlowLink("b", 30, 0.0))
    assert bench.read((topic, 0)) == []


def test_the_text_of_injected_faults_says_the_same() -> None:
    faults = InjectedFaults(("b",), (SlowLink("c", 20, 0.1),), 3_600.0)
    assert read_injected_faults(faults.written()) == faults
    for text in ["", "[1]", "{}", '{"cuts": [], "slow": [{"x": 1}], "clock_s": 0}']:
        with pytest.raises(ValueError):
            read_injected_faults(text)


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not() -> None:
    clock = WallClock()
    try:
        before, steady = time.time(), time.monotonic()
        clock.shift(3_600)
        assert 3_590 < time.time() - before < 3_700
        assert 3_590 < time.time_ns() / 1e9 - before < 3_700
        assert time.monotonic() - steady < 60
        clock.shift(0)
        assert abs(time.time() - before) < 60
    finally:
        clock.shift(0)
