"""What the measurement of the auditor makes of a run, and what it is fed with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mesh.wire.deliveries import decode_delivery
from mesh.wire.frames import decode_header, decode_value
from tests.bench import audit_load
from tests.bench.audit import Figures, Found, Point, main
from tests.bench.audit_load import FRAME, Written
from tests.streaming.planted import PARTITIONS

FIGURES = Figures(
    records=1_000,
    counted_per_s=500_000,
    counted_cpu=2.0,
    per_s=250_000,
    driver_cpu=2.5,
    jvm_cpu=20.0,
    cpu=11.0,
    drained_s=4.0,
    resident_mb=1_800,
    state_bytes=60,
    save_s=0.01,
    foreign=0.0,
)


def test_rates_are_held_against_counting_and_points_against_each_other() -> None:
    points = {
        Point(1, 10): FIGURES,
        Point(4_096, 10): replace(FIGURES, cpu=22.0, driver_cpu=9.0),
        Point(4_096, 200): replace(FIGURES, cpu=30.0, per_s=100_000),
    }
    goals = {goal.name: goal.is_met for goal in Found(1_000, points).goals()}
    assert [name for name, is_met in goals.items() if not is_met] == [
        "4096:10, Python, CPU-s/M",
        "4096:200, rate to counting",
        "CPU of 4,096 subjects to 1",
    ]
    assert "1:10       " in "\n".join(Found(1_000, points).rows())


def test_what_was_not_measured_is_not_met() -> None:
    goals = Found(1_000, {Point(64, 10): FIGURES}).goals()
    assert [goal.name for goal in goals if goal.is_met is None] == [
        "CPU of 4,096 subjects to 1",
        "CPU of 200 endpoints to 10",
    ]


@pytest.mark.parametrize("point", ["64", "64:x", "0:1", "1:0"])
def test_a_point_that_is_none_is_one_line(point: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--points", point])
    assert ended.value.code == 2
    assert point in capsys.readouterr().err.splitlines()[-1]


class Nowhere:
    """Takes what is poured."""

    def __init__(self) -> None:
        self.producers: dict[str, object] = {}

    def create(self, *_: str, **__: object) -> None:
        """Make no topic."""

    def pour(self) -> None:
        """Write nothing."""


def test_each_message_has_a_frame_and_one_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects take turns over the endpoints, and what is told of the messages is all of them."""
    monkeypatch.setattr(audit_load, "Pour", lambda *_: Nowhere())
    monkeypatch.setattr(Written, "_pour", lambda _: None)
    written = Written("", "mesh.", subjects=64, endpoints=10)
    written.write(4 * FRAME + 1)
    logs = written.plant.logs
    published = [len(logs["mesh.a.in.g", partition]) for partition in range(PARTITIONS)]
    assert published == [2 * FRAME, 2 * FRAME]
    assert written.messages == sum(published)
    came: Counter[tuple[int, int]] = Counter()
    for (topic, partition), log in logs.items():
        if ".ep." in topic:
            for record in log:
                told = decode_delivery(dict(record.headers)["mesh"])
                assert told.source.partition == partition
                came[partition, told.offset] += 1
    assert set(came.values()) == {1}
    assert len(came) == written.messages
    frame = logs["mesh.a.to.b.g", 0][0]
    header = decode_header(frame.key)
    assert len(header.origin.subjects) == 64
    assert len(decode_value(frame.value, header)) == FRAME
