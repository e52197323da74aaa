"""A mover by itself: what it was given before it lost a partition is another's. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from mesh.lane.lane import Lane
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Consumer, Passed, Record, TopicPartition
from mesh.worker.queue_moves.mover import Mover

TOPIC = "mesh.a.ep.q"


class Group:
    """A membership that is given one partition after the other, with a record of each."""

    def __init__(self) -> None:
        self.partition = -1

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        self.partition += 1
        return [MemoryRecord(TOPIC, self.partition, 0, None, b"", None, (1, 0))]

    def owned(self) -> Mapping[TopicPartition, Passed]:
        return {TopicPartition(TOPIC, self.partition): PASSED}

    def pause(self, places: Sequence[TopicPartition]) -> None: ...


PASSED = Passed(0, "")


def test_what_is_given_to_another_meanwhile_is_not_moved() -> None:
    """Else it would be moved by both."""
    consumer = cast("Consumer", Group())
    mover = Mover(cast("Lane", None), "q", consumer, MemoryKafka("k").writer("w"), b"")
    for partition in range(3):
        mover.rest()
        assert [one.partition() for one in mover._early] == [partition]
