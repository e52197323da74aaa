"""What comes without anything happening costs an idle node no turn; what matters waits for none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from mesh.lab.world import VirtualClock
from mesh.model.control import DOWN_AFTER_MS
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Reader, Record, TopicPartition
from mesh.wire.control import decode_heartbeat, encode_heartbeat
from mesh.wire.keys import heartbeat_key, link_key
from mesh.worker.process.errands import LOOK_S
from tests.component.worker.conftest import SmallMesh, subject

NAMES = TopicNames()
APART_MS = 10
TURN_S = 0.1


@dataclass(slots=True)
class Arriving:
    """Returns one record after the other, as far as they come within the wait."""

    clock: VirtualClock
    coming: list[Record]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    wakes: bool = False

    def wake(self) -> None: ...

    def read(self, timeout_s: float) -> Sequence[Record]:
        self.clock.ms += min(APART_MS, round(1000 * timeout_s))
        return [self.coming.pop(0)] if self.coming else []

    def add(self, kafka: str, reader: Reader) -> None: ...

    def watch(self, kafka: str, place: TopicPartition) -> None: ...

    def unwatch(self, place: TopicPartition) -> None: ...

    def forget(self, places: Sequence[TopicPartition]) -> None: ...

    def close(self) -> None: ...


def newest(mesh: SmallMesh, topic: str, begin: bytes) -> Record:
    """Return the last record of a topic whose key begins so."""
    return [one for one in mesh.read(topic) if (one.key() or b"").startswith(begin)][-1]


def left_after_a_turn(mesh: SmallMesh, coming: Sequence[Record]) -> int:
    """Return how many records have not come when a turn of b is over."""
    [worker] = [one for one in mesh.world.workers.values() if one.node == "b"]
    arriving = Arriving(mesh.world.clock, list(coming))
    worker.intake = arriving
    worker.turn(TURN_S)
    return len(arriving.coming)


def beat_of(mesh: SmallMesh, node: str) -> Record:
    """Return the next beat of a node, with nothing new in it."""
    last = newest(mesh, NAMES.control(node), heartbeat_key())
    beat = decode_heartbeat(last.value() or b"")
    value = encode_heartbeat(replace(beat, beat=beat.beat + 1))
    at = (last.topic(), 0, last.offset() + 1)
    return MemoryRecord(*at, last.key(), value, None, last.timestamp())


def routine(mesh: SmallMesh) -> Sequence[Record]:
    """Return what b reads of its neighbours in a second in which nothing happens."""
    links = [newest(mesh, NAMES.to_control(node, "b"), link_key()) for node in "ac"]
    return [*(beat_of(mesh, node) for node in "ac"), *links]


def test_beats_of_neighbours_share_a_turn(mesh: SmallMesh) -> None:
    """A hub with many links would do little else than take turns for them."""
    assert left_after_a_turn(mesh, routine(mesh)) == 0


@pytest.mark.parametrize("what", ["mark", "message"])
def test_a_turn_begins_with_whatever_else_comes(mesh: SmallMesh, what: str) -> None:
    """Interest and messages wait for no beat."""
    if what == "mark":
        news = newest(mesh, NAMES.control("a"), b"mark ")
    else:
        topic = NAMES.ingress("b", MessageClass.GUARANTEED)
        mesh.write(topic, b"x", key=b"k", headers=[subject("x")])
        news = newest(mesh, topic, b"k")
    before, after = routine(mesh), routine(mesh)
    assert left_after_a_turn(mesh, [*before, news, *after]) == len(after)


def test_a_turn_begins_with_a_beat_that_the_node_acts_on(mesh: SmallMesh) -> None:
    """Here it says that a neighbour has come back."""
    back = beat_of(mesh, "a")
    mesh.world.kill("a")
    mesh.run(DOWN_AFTER_MS + 1_000)
    after = [beat_of(mesh, "c")]
    assert left_after_a_turn(mesh, [back, *after]) == len(after)


def test_a_node_that_does_not_serve_yet_waits_for_nothing_more(mesh: SmallMesh) -> None:
    """A beat may be the last record before the end of a neighbour's topic."""
    [worker] = [one for one in mesh.world.workers.values() if one.node == "b"]
    assert worker.machine is not None
    worker.machine.is_ready = False
    after = [beat_of(mesh, "c")]
    assert left_after_a_turn(mesh, [beat_of(mesh, "a"), *after]) == len(after)


def test_nobody_looks_every_moment_whether_a_beat_is_written(mesh: SmallMesh) -> None:
    """Slow brokers take most of a second for it; its end wakes a loop that waits."""
    [worker] = [one for one in mesh.world.workers.values() if one.node == "b"]
    assert worker._leadership.wake == worker.intake.wake
    worker._leadership._pending.is_any = True
    assert worker.patience(TURN_S) == LOOK_S
    worker.intake = Arriving(mesh.world.clock, [], wakes=True)
    assert worker.patience(TURN_S) == TURN_S
