"""What is read again for a target is held in memory only as far as it is being written. K20."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.model.control import Pause
from mesh.model.inputs import Input
from mesh.wire.control import encode_pause
from mesh.wire.keys import SubjectPauseKey, subject_pause_key
from mesh.worker.second_writer import catching_up, held_target, held_targets
from mesh.worker.second_writer.catching_up import CHUNK, CatchUp
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import STUCK, is_held, numbers, refuse

INGRESS = "mesh.c.in.g"


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the most records that were in memory at the end of any read."""
    found, read = [0], CatchUp.read

    def watched(self: CatchUp, most: int = CHUNK) -> Iterator[Input]:
        yield from read(self, most)
        found[0] = max(found[0], sum(map(len, self._unsent.values())))

    monkeypatch.setattr(CatchUp, "read", watched)
    return found


def publish(mesh: SmallMesh, begin: int, end: int, text: str = "x", size: int = 0) -> None:
    """Publish numbers, of at least so many digits, at c itself."""
    for number in range(begin, end):
        value = b"%0*d" % (size, number)
        mesh.write(INGRESS, value, headers=[subject(text)], partition=number % 4)


@pytest.fixture
def held(mesh: SmallMesh, peak: list[int]) -> SmallMesh:
    mesh.subscribe("c", "t", ">")
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 0, 1)
    mesh.run(1_000)
    assert is_held(mesh, "c", STUCK)
    assert peak == [0]
    return mesh


def test_a_long_backlog_is_read_as_it_is_written(
    held: SmallMesh, peak: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a record that is refused for good is looked for, one at a time. Spec: R12."""
    monkeypatch.setattr(catching_up, "CHUNK", 50)
    held.kafka.topics[STUCK].message_bytes_max = 700
    publish(held, 1, 2, size=900)
    publish(held, 2, 1_000)
    held.run(90_000)
    assert not is_held(held, "c", STUCK)
    assert len(held.read(STUCK)) == 1_000
    assert 0 < peak[0] <= 50


def test_what_the_lane_has_not_read_is_not_read_ahead_without_end(
    held: SmallMesh, peak: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One source stands still before a paused subject, with much behind it; another has much."""
    monkeypatch.setattr(catching_up, "AHEAD", 20)
    monkeypatch.setattr(catching_up, "CHUNK", 10)
    key = subject_pause_key(SubjectPauseKey("c", "p/>"))
    held.write("mesh.config", encode_pause(Pause()), key=key)
    held.run(1_000)
    held.write(INGRESS, b"1", headers=[subject("p/1")], partition=0)
    for partition, numbers_ in ((0, range(2, 500)), (1, range(500, 1_000))):
        for number in numbers_:
            held.write(INGRESS, b"%d" % number, headers=[subject("x")], partition=partition)
    held.run(10_000)
    refuse(held, STUCK, is_refusing=False)
    held.run(20_000)
    assert numbers(held, STUCK) == [0, *range(500, 1_000)]
    held.write("mesh.config", None, key=key)
    held.run(20_000)
    assert numbers(held, STUCK) == list(range(1_000))
    assert 0 < peak[0] <= 50


def test_one_that_never_comes_as_far_as_its_lane_gives_way(
    held: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More comes in each turn than is written again: another held target has its turn all the same.

    Both go on from where they were, so nothing is written twice.
    """
    other = "mesh.c.ep.t"
    refuse(held, other, is_refusing=True)
    publish(held, 1, 5)
    held.run(1_000)
    assert is_held(held, "c", other)
    for topic in (STUCK, other):
        refuse(held, topic, is_refusing=False)
    monkeypatch.setattr(held_target, "CHUNK", 1)
    monkeypatch.setattr(held_targets, "SHARE_MS", 3_000)
    begin = 5
    for _ in range(100):
        publish(held, begin, begin + 20)
        begin += 20
        held.run(100)
    came = [len(held.read(topic)) for topic in (STUCK, other)]
    assert all(count > 5 for count in came)
    assert is_held(held, "c", STUCK) or is_held(held, "c", other)
    held.run(60_000)
    for topic in (STUCK, other):
        assert numbers(held, topic) == list(range(begin))
