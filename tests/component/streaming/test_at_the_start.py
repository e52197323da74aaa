"""An auditor that begins late on a healthy mesh: its first batches hold everything at once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.component.streaming.plain_bench import PlainBench, PlainTrial
from tests.streaming.drawn import copy_of
from tests.streaming.planted import PARTITIONS, Plant
from tests.streaming.trial import Account

NO_ROOM = (
    "excuses.HELD_MAX",
    "needless_copies.HELD_MAX",
    "strangers.UNNAMED_MAX",
    "unplaced_deliveries.LATE_MAX",
    "unplaced_deliveries.PARKED_MAX",
    "unwanted_deliveries.HELD_MAX",
)
"""What a healthy mesh needs no room for, however large it is and in whatever order it is read."""


def test_what_is_named_by_a_kafka_cluster_that_is_taken_later_takes_no_room(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources of a larger mesh are more than may wait to be named: nothing was proven."""
    monkeypatch.setattr("streaming.audits.unplaced_deliveries.PARKED_MAX", 0)
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    for partition in range(PARTITIONS):
        plant.carry(3, ["c/s1"], partition=partition)
    bench = PlainBench(None, plant, tmp_path, kafkas=("k2", "k1"))
    assert bench.settle() == []
    certificates = [one for (_, whose), one in bench.certificates.items() if whose == "c/s1"]
    assert [(one.equal, one.sure) for one in certificates] == [(True, True)] * PARTITIONS


def read_bit_by_bit(bench: PlainBench, random: Random, steps: int) -> None:
    """Read some of each topic at a time, of a Kafka cluster after another, then all that is left.

    Args:
        bench: With an auditor that has read nothing.
        random: Decides how much of what is read when, and how long that takes.
        steps: How often no more than a part of it is read.
    """
    bench.auditor.offsets_max = 1  # it lags
    logs = {place: len(log) for place, log in bench.plant.logs.items()}

    def rest() -> None:
        bench.clock_s += random.choice([0.5, 3, 70])

    for _ in range(steps):
        ends = {
            place: (at := bench.taken.get(place, 0)) + int((end - at) * random.choice([0, 0.3, 1]))
            for place, end in logs.items()
        }
        bench.take_to(ends, random.sample(bench.kafkas, len(bench.kafkas)), rest)
    bench.auditor.offsets_max = 1_000_000
    bench.take()
    bench.wait(16)


@pytest.mark.parametrize("seed", ["late/0", "late/1", "late/2"])
def test_a_healthy_mesh_needs_no_room_for_doubts_in_whatever_order_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    trial = PlainTrial(None, tmp_path, seed, Account())
    drawn = trial.drawn
    drawn.subscribe()
    drawn.publish(3)
    drawn.rest()
    drawn.leave()
    late = next(iter(drawn.clients.values()))
    assert not late.wait(late.subscribe("late", ">"))
    drawn.publish(3)
    drawn.rest()
    plant = Plant()
    ids = copy_of(drawn.mesh, plant)
    drawn.mesh.close()
    for limit in NO_ROOM:
        monkeypatch.setattr(f"streaming.audits.{limit}", 0)
    for steps in (0, 1, 4, 8):
        bench = trial._bench(f"{steps}", plant, ids)
        read_bit_by_bit(bench, Random(f"{seed}/{steps}"), steps)
        assert bench.auditor.state.register.findings == {}
        assert bench.auditor.state.certifier.waiting == []
