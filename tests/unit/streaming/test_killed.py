"""Killed between any two of its writes, the auditor leaves what it would have left anyway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from streaming.connectors.sink import SinkRecord
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import MicroBatch, TopicPartition
from tests.unit.streaming.test_recreated import (
    INGRESS,
    LEDGER,
    SMALL,
    TARGET,
    Bench,
    delivered,
    id_of,
    published,
)

KEYED = ("findings", "certificates", "hours")
"""Topics of which the newest record of each key counts."""

OF_A_RUN = ("at_ms", "run", "first_seen_ms", "last_seen_ms", "from_ms", "to_ms")
"""Fields that tell when something was written, and by whom."""

LOST = 4_100

END = 3 * 4_096 + 50

STEP = 4_000


class Killed(BaseException):
    """The process is no more."""


def digest(first: int, last: int, *, lost: int = -1) -> Digest:
    """Return of made-up hashes what adds up: their sums, and no exclusive or."""
    count, total = last - first + 1, (first + last) * (last - first + 1) // 2
    if first <= lost <= last:
        count, total = count - 1, total - lost
    return Digest(count, 0, total, 3 * total, 0)


def spans(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield a stretch of offsets block by block."""
    while first <= last:
        end = min(last, (first // 4096 + 1) * 4096 - 1)
        yield first, end
        first = end + 1


@cache
def batches() -> Sequence[tuple[MicroBatch, Mapping[TopicPartition, int]]]:
    """Return what is read, and up to where; deliveries of a batch come with the next one."""
    found, before = [], 0
    for begin in (*range(0, END, STEP), END):
        end = min(END, begin + STEP)
        of = [*spans(begin, end - 1)]
        came = [*spans(before, begin - 1)]
        batch = MicroBatch(
            ingress=[published(*one)._replace(digest=digest(*one)) for one in of],
            deliveries=[
                delivered(*one, id_of(1))._replace(
                    digest=digest(*one, lost=LOST), record_first=one[0], record_last=one[1]
                )
                for one in came
            ],
        )
        read = {INGRESS: end, TARGET: begin, LEDGER: 1, **dict.fromkeys(SMALL.values(), 1)}
        found.append((batch, read))
        before = begin
    return found


@dataclass
class Effects:
    """Counts what leaves the process, and kills it after one of these."""

    kill: int | None = None
    count: int = 0

    def perform(self, effect: Callable[[], object]) -> None:
        effect()
        self.count += 1
        if self.count == self.kill:
            raise Killed


class Saved(Snapshots):
    """Saves in two steps, as files are written: a draft first."""

    effects: Effects

    def save(self, batch: int, state: State) -> None:
        def draft() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{batch}.json.draft").write_bytes(b"half of it")

        self.effects.perform(draft)
        self.effects.perform(lambda: Snapshots.save(self, batch, state))


@dataclass
class Life:
    """An auditor that is killed and started again, Spark's checkpoint, and what was written.

    Attributes:
        folder: For its state.
        committed: Batches that Spark has noted as done.
    """

    folder: Path
    written: list[SinkRecord] = field(default_factory=list)
    committed: int = 0
    now_s: float = 1000.0

    def run(self, effects: Effects) -> None:
        """Read on from where Spark is, to the end; or die."""
        bench = Bench(self.folder)
        bench.now_s = self.now_s
        auditor = bench.auditor
        saved = Saved(self.folder)
        saved.effects = effects  # a class of slots, and this one is not
        auditor.snapshots = auditor.publisher.snapshots = saved
        write = lambda outputs: effects.perform(lambda: self.written.extend(outputs))  # noqa: E731
        auditor.write = auditor.publisher.write = write
        try:
            for number, (batch, read) in enumerate(batches()):
                if number < self.committed:
                    continue
                bench.read = dict(read)
                if auditor.is_news("k1", number):
                    told = bench.control(id_of(1), read[INGRESS])
                    small, ledgers = told.small, told.ledgers if number == 0 else []
                    whole = MicroBatch(batch.ingress, batch.deliveries, [], small, ledgers)
                    auditor.absorb(whole, "k1", number)
                effects.perform(lambda done=number + 1: setattr(self, "committed", done))
                auditor.kafka_clusters.read["k1"] = bench.now_s
                bench.wait(3)
            for _ in range(14):
                bench.wait(1)
                auditor.kafka_clusters.read["k1"] = bench.now_s - 0.5
            auditor.judge(is_last=True)
        finally:
            self.now_s = bench.now_s

    def left(self) -> Mapping[str, object]:
        """Return the newest record of each key, but for what tells the time."""
        found: dict[str, object] = {}
        for one in self.written:
            table = one.topic.removeprefix("mesh.audit.")
            if table in KEYED:
                key = f"{table} {one.key.rpartition(' ')[0] if table == 'hours' else one.key}"
                value = {} if one.value is None else json.loads(one.value)
                found[key] = {name: of for name, of in value.items() if name not in OF_A_RUN}
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, object], int]:
    """What a life without a kill leaves, and how many effects it has."""
    effects, life = Effects(), Life(tmp_path_factory.mktemp("whole"))
    life.run(effects)
    return life.left(), effects.count


def test_a_life_has_certificates_a_loss_and_closed_blocks(whole) -> None:
    left, count = whole
    certificates = [one for key, one in left.items() if key.startswith("certificates")]
    assert [one["equal"] for one in certificates] == [True, False, True, True]
    assert sum(one["delivered"] for one in certificates if one["equal"]) == END - 4096
    [finding] = [one for key, one in left.items() if one and key.startswith("findings")]
    assert (finding["kind"], finding["count"]) == ("missing", 1)
    [hours] = [one for key, one in left.items() if key.startswith("hours")]
    assert hours["certificates"] >= 1
    assert count > 30


def test_wherever_it_is_killed_each_certificate_is_there_once_and_complete(
    whole, tmp_path: Path
) -> None:
    left, count = whole
    for kill in range(1, count + 1):
        life = Life(tmp_path / str(kill))
        with pytest.raises(Killed):
            life.run(Effects(kill))
        life.run(Effects())
        assert life.left() == left, f"killed after effect {kill}"


def test_it_comes_to_the_end_though_it_is_killed_again_and_again(whole, tmp_path: Path) -> None:
    left, _ = whole
    life, lives = Life(tmp_path), 0
    for kill in range(1, 1_000):
        try:
            life.run(Effects(kill))
        except Killed:
            lives += 1
        else:
            break
    assert lives > 5
    assert life.left() == left
