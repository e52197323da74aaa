"""What a batch alone shows is told before anything is read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from streaming.tables.rows import MicroBatch, StrayRow
from tests.unit.streaming.test_recreated import TARGET, Bench, Reader, delivered, id_of


class Slow(Reader):
    """Notes what had been told when it is asked; it may fail then as nobody has thought of."""

    told: Sequence[str] = ()
    written: Sequence = ()
    is_broken = False

    def deliveries(self, doubts, begins) -> list[list]:
        self.told = [one.key for one in self.written if one.topic == "mesh.audit.findings"]
        if self.is_broken:
            raise ValueError("nobody has thought of this")
        return super().deliveries(doubts, begins)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    reader = Slow(made.auditor.topology, made.auditor.kafka_clusters)
    reader.written = made.written
    made.auditor.rereader = reader  # type: ignore[assignment]
    made.take(made.control(id_of(1), 0))
    return made


def doubtful() -> MicroBatch:
    """Return a record that is no delivery, and a delivery that is to be read again."""
    late = delivered(0, 4, id_of(1))._replace(late=1)
    return MicroBatch(deliveries=[late], strays=[StrayRow(TARGET, 1, 9, 9)])


def test_a_record_that_is_none_does_not_wait_for_what_is_doubted_beside_it(bench: Bench) -> None:
    bench.take(doubtful())
    assert len(bench.auditor.rereader.told) == 1
    assert bench.auditor.state.delivery_doubts == []


def test_a_batch_that_cannot_be_judged_comes_again_though_something_of_it_is_told(
    bench: Bench,
) -> None:
    """Else it could not be read in parts: its state would be the one from which to go on."""
    reader = bench.auditor.rereader
    reader.is_broken = True
    with pytest.raises(ValueError, match="nobody has thought"):
        bench.take(doubtful())
    bench.auditor.restore()
    assert bench.auditor.is_news("k1", 1)
    reader.is_broken = False
    bench.take(doubtful())
    keys = [one.key for one in bench.written if one.topic == "mesh.audit.findings"]
    assert len(keys) == 2
    assert len({*keys}) == 1
