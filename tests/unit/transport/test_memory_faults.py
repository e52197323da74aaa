"""The fault hooks that only the in-memory Kafka cluster has."""

from __future__ import annotations

import pytest

from mesh.errors import TransportError, TransportFencedError, TransportUnavailableError
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition, TopicSpec

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)


@pytest.fixture
def kafka() -> MemoryKafka:
    made = MemoryKafka("m", now_ms=lambda: 7)
    made.admin().create([TopicSpec(name="t", partitions=2), TopicSpec(name="u", partitions=1)])
    return made


def write(kafka: MemoryKafka, *values: bytes, place: TopicPartition = T0) -> None:
    writer = kafka.writer("w")
    for value in values:
        writer.produce(place.topic, value, partition=place.partition)
    assert writer.flush() == 0


def test_a_blocked_topic_yields_nothing_to_that_client_until_healed(kafka: MemoryKafka) -> None:
    """Others read on, other topics too, and nothing is lost by the cut."""
    reader, other = kafka.reader("r"), kafka.reader("other")
    for one in (reader, other):
        one.assign({T0: 0, U0: 0})
    kafka.blocked.add(("r", "t"))
    write(kafka, b"a")
    write(kafka, b"b", place=U0)
    assert [record.value() for record in reader.read(0, 10)] == [b"b"]
    assert len(other.read(0, 10)) == 2
    assert reader.read(0, 10) == []
    kafka.blocked.clear()
    assert [record.value() for record in reader.read(0, 10)] == [b"a"]
    assert reader.lost() == []


def test_without_brokers_nothing_can_be_made_or_read(kafka: MemoryKafka) -> None:
    """All calls that need a broker say so; reads are empty and go on later."""
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    write(kafka, b"a")
    kafka.available = False
    assert reader.read(0, 10) == []
    assert not reader.reachable()
    for call in (
        lambda: kafka.reader("x"),
        lambda: kafka.writer("x", "id"),
        lambda: kafka.membership("m", "g", "t"),
        kafka.admin().cluster_id,
        lambda: kafka.admin().ends([T0]),
        lambda: kafka.admin().describe(["t"]),
    ):
        with pytest.raises(TransportUnavailableError):
            call()
    kafka.available = True
    assert reader.reachable()
    assert len(reader.read(0, 10)) == 1


def test_a_commit_without_brokers_commits_nothing(kafka: MemoryKafka) -> None:
    """Whether they left before or after the records were handed over."""
    writer = kafka.writer("w", "id")
    for leaves_early in (True, False):
        writer.begin()
        kafka.available = not leaves_early
        writer.produce("t", b"x", partition=0)
        kafka.available = False
        with pytest.raises(TransportUnavailableError):
            writer.commit()
        kafka.available = True
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    assert reader.read(0, 10) == []
    assert reader.position(T0) == kafka.admin().ends([T0])[T0]


def test_records_handed_over_without_brokers_fail_at_flush(kafka: MemoryKafka) -> None:
    """Counted once, and none of them comes later."""
    writer = kafka.writer("w")
    kafka.available = False
    writer.produce("t", b"x", partition=0)
    kafka.available = True
    assert writer.flush() == 1
    assert writer.flush() == 0
    assert kafka.admin().ends([T0]) == {T0: 0}


def test_a_killed_writers_transaction_blocks_until_it_is_ended(kafka: MemoryKafka) -> None:
    """Closing ends nothing, as after a kill; the brokers' time-out does."""
    writer = kafka.writer("w", "id")
    writer.begin()
    writer.produce("t", b"lost", partition=0)
    writer.close()
    write(kafka, b"behind")
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    assert reader.read(0, 10) == []
    kafka.end_transactions("id")
    assert [record.value() for record in reader.read(0, 10)] == [b"behind"]
    with pytest.raises(TransportFencedError):
        writer.commit()


def test_a_crashed_member_loses_its_lanes_and_may_come_back(kafka: MemoryKafka) -> None:
    """It believes in them until it polls, as a paused process does."""
    zombie, heir = kafka.membership("a", "g", "t"), kafka.membership("b", "g", "t")
    for member in (zombie, heir, zombie, heir):
        member.poll()
    assert (zombie.lanes(), heir.lanes()) == (frozenset({0}), frozenset({1}))
    zombie.crash()
    heir.poll()
    assert heir.lanes() == {0, 1}
    assert zombie.lanes() == {0}
    zombie.poll()
    assert zombie.lanes() == frozenset()
    heir.poll()
    zombie.poll()
    assert zombie.lanes() | heir.lanes() == {0, 1}
    assert len(zombie.lanes()) == len(heir.lanes()) == 1


def test_deleting_beyond_the_end_deletes_nothing_at_all(kafka: MemoryKafka) -> None:
    """One impossible partition keeps the others as they are."""
    write(kafka, b"a", b"b")
    with pytest.raises(TransportError):
        kafka.admin().delete_before({T0: 1, T1: 5})
    assert kafka.admin().starts([T0]) == {T0: 0}


def test_topic_ids_are_the_same_in_every_run() -> None:
    """Simulations compare traces: names and order of creation alone decide."""
    runs = []
    for _ in range(2):
        kafka = MemoryKafka("same")
        kafka.admin().create([TopicSpec(name="t", partitions=1)])
        runs.append(kafka.admin().describe(["t"])["t"].topic_id)
    assert runs[0] == runs[1]
    other = MemoryKafka("other")
    other.admin().create([TopicSpec(name="t", partitions=1)])
    assert other.admin().describe(["t"])["t"].topic_id != runs[0]


def test_a_recreated_topic_loses_a_position_beyond_it(kafka: MemoryKafka) -> None:
    """The namesake is shorter: the old position is reported, not read on from."""
    write(kafka, b"a", b"b")
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    assert len(reader.read(0, 10)) == 2
    kafka.delete_topic("t")
    assert reader.read(0, 10) == []
    kafka.admin().create([TopicSpec(name="t", partitions=2)])
    assert reader.read(0, 10) == []
    assert reader.lost() == [T0]
    assert reader.lost() == []


def test_partitions_take_turns_where_the_last_read_stopped(kafka: MemoryKafka) -> None:
    """With the smallest limit they alternate: nobody starves, every run is alike."""
    write(kafka, b"a", b"b", b"c")
    write(kafka, b"x", b"y", place=T1)
    reader = kafka.reader("r")
    reader.assign({T1: 0, T0: 0})
    found = [reader.read(0, 1)[0].value() for _ in range(5)]
    assert found == [b"a", b"x", b"b", b"y", b"c"]
