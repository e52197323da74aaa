"""What publishers of a storm say they were told: never more than they know."""

from __future__ import annotations

import pytest

from mesh.errors import (
    TransportDeniedError,
    TransportError,
    TransportFencedError,
    TransportUnavailableError,
    TransportUnknownError,
)
from mesh.lab.checker.history import PublishOutcome
from mesh.lab.load import ARREARS_MS, Publisher, SilenceWatch
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.transport.port import TopicPartition, TopicSpec

TOPIC = "mesh.a.in.g"


class Raises(MemoryFaults):
    """A call of one kind ends in an error."""

    def __init__(self, call: Call, error: TransportError) -> None:
        self._call, self._error = call, error

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is self._call:
            raise self._error
        return None


class Bench:
    def __init__(self, *, transactional: bool = False) -> None:
        self.now = 1_000
        self.kafka = MemoryKafka("k", now_ms=lambda: self.now)
        self.kafka.admin().create([TopicSpec(name=TOPIC, partitions=2)])
        self.publisher = Publisher(
            name="p",
            node="a",
            topic=TOPIC,
            partitions=2,
            kafka=self.kafka,
            rate=10,
            guaranteed=True,
            transactional_id="t" if transactional else None,
            now_ms=lambda: self.now,
            seed=1,
        )

    def outcomes(self, ms: int = 1_000) -> list[PublishOutcome]:
        before = len(self.publisher.published)
        self.now += ms
        self.publisher.publish_due()
        return [one.outcome for one in self.publisher.published[before:]]

    def records(self) -> list[bytes]:
        reader = self.kafka.reader("test")
        reader.assign({TopicPartition(TOPIC, number): 0 for number in range(2)})
        return sorted(record.value() for record in reader.read(0, 1_000))


def test_it_writes_what_is_due_and_remembers_it_as_written() -> None:
    bench = Bench()
    assert bench.outcomes() == [PublishOutcome.OK] * 11
    published = bench.publisher.published
    assert [one.sequence for one in published] == list(range(11))
    assert bench.records() == sorted(one.payload.encode() for one in published)
    assert bench.outcomes(99) == []
    assert bench.outcomes(1) == [PublishOutcome.OK]
    by_key = {one.key: one.partition for one in published if one.key}
    assert all(by_key[one.key] == one.partition for one in published if one.key)


def test_while_nobody_answers_nothing_is_known_or_nothing_is_written() -> None:
    bench = Bench()
    bench.kafka.available = False
    assert bench.outcomes() == []
    bench.kafka.available = True
    assert bench.outcomes(100)[0] is PublishOutcome.OK
    bench.kafka.available = False
    assert set(bench.outcomes()) == {PublishOutcome.UNKNOWN}
    bench.kafka.available = True
    assert len(bench.outcomes(10 * ARREARS_MS)) == 11


def test_transactions_are_whole_and_some_are_aborted() -> None:
    bench = Bench(transactional=True)
    for _ in range(30):
        bench.outcomes()
    published = bench.publisher.published
    groups: dict[int | None, list[PublishOutcome]] = {}
    for one in published:
        groups.setdefault(one.transaction, []).append(one.outcome)
    assert {len(group) for group in groups.values()} == {3}
    assert all(len(set(group)) == 1 for group in groups.values())
    assert {outcome for group in groups.values() for outcome in group} == {
        PublishOutcome.OK,
        PublishOutcome.FAILED,
    }
    accepted = [one.payload.encode() for one in published if one.outcome is PublishOutcome.OK]
    assert bench.records() == sorted(accepted)
    assert 200 < len(published) < 400


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransportUnknownError("nobody can say"), PublishOutcome.UNKNOWN),
        (TransportFencedError("a successor"), PublishOutcome.UNKNOWN),
        (TransportDeniedError("too large"), PublishOutcome.FAILED),
        (TransportUnavailableError("nothing was committed"), PublishOutcome.FAILED),
    ],
)
def test_a_commit_that_raises(
    error: TransportError, outcome: PublishOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(transactional=True)
    bench.kafka.faults = Raises(Call.COMMIT, error)
    monkeypatch.setattr(bench.publisher._random, "random", lambda: 1.0)
    assert set(bench.outcomes(100)) == {outcome}


def test_an_abort_that_raises_was_never_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(transactional=True)
    bench.kafka.faults = Raises(Call.ABORT, TransportUnknownError("nobody can say"))
    monkeypatch.setattr(bench.publisher._random, "random", lambda: 0.0)
    assert set(bench.outcomes(100)) == {PublishOutcome.FAILED}


def test_the_watch_knows_the_longest_silence() -> None:
    bench = Bench()
    bench.kafka.admin().create([TopicSpec(name="quiet", partitions=1)])
    watch = SilenceWatch(bench.kafka, {TOPIC: 2}, lambda: bench.now)
    for ms in (100, 700, 300):
        bench.now += ms
        watch.look()
        bench.outcomes(0)
        watch.look()
    assert watch.longest_ms == 700
    bench.now += 900
    watch.look()
    assert watch.longest_ms == 900
