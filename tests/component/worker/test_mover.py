"""A mover by itself: what it was given before it lost a partition is another's. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from mesh.config.topology_file import topology_from_mapping
from mesh.core.local_links import LocalLink
from mesh.lane.lane import Lane
from mesh.model.topics import TopicNames
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Consumer, Passed, Record, TopicPartition, Writer
from mesh.worker.process.commits import CommitsAtOnce
from mesh.worker.queue_moves.mover import CHUNK, Mover

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


class Log:
    """A membership with one partition, in which transactions end behind each message."""

    ticket = object()

    def __init__(self) -> None:
        self.position = 0
        self.paused: Sequence[TopicPartition] = ()

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        if self.paused:
            return []
        begin, self.position = self.position, self.position + 2 * limit
        return [
            MemoryRecord(TOPIC, 0, offset, None, b"", None, (1, 0))
            for offset in range(begin, self.position, 2)
        ]

    def owned(self) -> Mapping[TopicPartition, Passed]:
        return {TopicPartition(TOPIC, 0): PASSED}

    def pause(self, places: Sequence[TopicPartition]) -> None:
        self.paused = places


class Nowhere:
    """Writes transactions, and keeps nothing."""

    def begin(self) -> None: ...

    def produce_all(self, *rows: object) -> None: ...

    def send_offsets(self, passed: Mapping[TopicPartition, Passed], ticket: object) -> None: ...

    def commit(self) -> None: ...


def test_no_more_is_read_than_may_overtake_what_stays() -> None:
    """The offset behind the last one that had room is a transaction's end, which is no message."""
    log = Log()
    topology = topology_from_mapping({"kafka": {"k": None}, "nodes": {"a": {}}})
    lane = SimpleNamespace(
        topology=topology,
        names=TopicNames("mesh."),
        node="a",
        number=0,
        lanes=1,
        progress=SimpleNamespace(epoch=1),
        hear_movers=lambda sent: None,
    )
    mover = Mover(
        cast("Lane", lane), "q", cast("Consumer", log), cast("Writer", Nowhere()), bytes(16)
    )
    link = cast("LocalLink", SimpleNamespace(neighbour="b"))
    mover.rest()
    for part in mover._parts.values():
        part.know()
    for _ in range(20):
        mover.begin_to_move(link, "b", CHUNK, CommitsAtOnce(), lambda _: False)
        mover.end_move()
    assert mover.keeps_some
    assert len(mover._early) < 2 * CHUNK
