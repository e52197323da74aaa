"""Assignments, positions and limits of readers. Spec: K15, R6."""

from __future__ import annotations

import pytest

from mesh.transport.port import BEGINNING, Reader, TopicPartition, TopicSpec, Writer
from mesh.transport.reading import read_logs
from mesh.worker.process.recall import Recall
from tests.contract.conftest import Stand, values


def _fill(writer: Writer, place: TopicPartition, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        writer.produce(place.topic, b"%d" % number, partition=place.partition)
    assert writer.flush() == 0


def _numbers(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_reading_starts_where_asked(stand: Stand) -> None:
    """At an offset, at the beginning, or at the end: there nothing comes before something new."""
    place = TopicPartition(stand.topic(), 0)
    writer = stand.kafka.writer("w")
    _fill(writer, place, 5)
    assert values(stand.take(stand.reader(place, start=3), 2)) == _numbers(3, 4)
    assert values(stand.take(stand.reader(place), 5)) == _numbers(0, 1, 2, 3, 4)
    at_end = stand.reader(place, start=5)
    assert stand.quiet(at_end) == []
    _fill(writer, place, 1, start=5)
    assert values(stand.take(at_end, 1)) == _numbers(5)


def test_logs_are_read_from_where_they_begin_to_where_they_end(stand: Stand) -> None:
    """Nobody asks where that is: one that was never written, or is empty by now, ends at once."""
    topic = stand.topic(4)
    part, emptied, whole, fresh = places = [TopicPartition(topic, number) for number in range(4)]
    writer = stand.kafka.writer("w")
    for place in (part, emptied, whole):
        _fill(writer, place, 5)
    stand.kafka.admin().delete_before({part: 3, emptied: 5})
    found = list(read_logs(stand.kafka, places))
    assert {
        place: values([one for one in found if one.partition() == place.partition])
        for place in places
    } == {
        part: _numbers(3, 4),
        emptied: [],
        whole: _numbers(0, 1, 2, 3, 4),
        fresh: [],
    }


def test_read_returns_at_most_its_limit_and_loses_nothing(stand: Stand) -> None:
    """The limit is over all partitions; the rest comes with the next reads, in order."""
    topic = stand.topic(3)
    places = [TopicPartition(topic, index) for index in range(3)]
    writer = stand.kafka.writer("w")
    for place in places:
        _fill(writer, place, 20)
    reader = stand.reader(*places)
    found: dict[int, list[bytes | None]] = {index: [] for index in range(3)}
    sizes: list[int] = []

    def is_read() -> bool:
        batch = reader.read(0.2, 7)
        sizes.append(len(batch))
        for record in batch:
            found[record.partition()].append(record.value())
        return sum(sizes) >= 60

    stand.wait(is_read)
    assert max(sizes) == 7
    assert list(found.values()) == [_numbers(*range(20))] * 3
    assert not reader.read(0, 0)


def test_partitions_take_turns(stand: Stand) -> None:
    """A full partition does not hide a small one."""
    topic = stand.topic(2)
    full, small = TopicPartition(topic, 0), TopicPartition(topic, 1)
    writer = stand.kafka.writer("w")
    _fill(writer, full, 30_000)
    _fill(writer, small, 1)
    reader = stand.reader(full, small)
    seen: list[int] = []

    def is_met() -> bool:
        seen.extend(record.partition() for record in reader.read(0.2, 1_000))
        return 1 in seen

    stand.wait(is_met)


def test_assigning_again_moves_there(stand: Stand) -> None:
    """Backwards and forwards; other partitions are not touched."""
    topic = stand.topic(2)
    moved, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    writer = stand.kafka.writer("w")
    _fill(writer, moved, 5)
    _fill(writer, other, 2)
    reader = stand.reader(moved, other)
    assert len(stand.take(reader, 7)) == 7
    reader.assign({moved: 1})
    assert values(stand.take(reader, 4)) == _numbers(1, 2, 3, 4)
    reader.assign({moved: 4})
    assert values(stand.take(reader, 1)) == _numbers(4)
    assert stand.quiet(reader) == []


def test_assignments_add_up_and_end_one_by_one(stand: Stand) -> None:
    """What is unassigned brings nothing new; assigning it again brings it back."""
    topic = stand.topic(2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    writer = stand.kafka.writer("w")
    reader = stand.reader(one)
    reader.assign({two: BEGINNING})
    _fill(writer, one, 1)
    _fill(writer, two, 1)
    assert len(stand.take(reader, 2)) == 2
    reader.unassign([one, TopicPartition("contract.never-assigned", 0)])
    stand.quiet(reader)
    _fill(writer, one, 1, start=1)
    _fill(writer, two, 1, start=1)
    assert [record.partition() for record in stand.take(reader, 1)] == [1]
    assert stand.quiet(reader) == []
    reader.assign({one: 1})
    assert [record.partition() for record in stand.take(reader, 1)] == [0]


def test_a_topic_that_comes_later_is_read_then(stand: Stand) -> None:
    """An assigned topic that does not exist is no error; once it does, it is read."""
    name = f"contract.{stand.mark}.later"
    place = TopicPartition(name, 0)
    reader = stand.reader(place)
    assert stand.quiet(reader) == []
    assert reader.lost() == []
    stand.kafka.admin().create([TopicSpec(name=name, partitions=1)])
    _fill(stand.kafka.writer("w"), place, 3)
    assert values(stand.take(reader, 3)) == _numbers(0, 1, 2)


def test_positions_tell_how_far_reading_is(stand: Stand) -> None:
    """Beginning before it is assigned, then never too high, exact at the end."""
    place = TopicPartition(stand.topic(), 0)
    reader = stand.kafka.reader("r")
    assert reader.position(place) == BEGINNING
    _fill(stand.kafka.writer("w"), place, 5)
    reader.assign({place: 2})
    assert reader.position(place) == 2
    read = 2

    def is_read() -> bool:
        nonlocal read
        batch = reader.read(0.2, 1)
        read = batch[-1].offset() + 1 if batch else read
        assert reader.position(place) <= read
        return reader.position(place) == 5

    stand.wait(is_read)
    reader.assign({place: 1})
    assert reader.position(place) == 1
    reader.unassign([place])
    assert reader.position(place) == BEGINNING


def test_a_position_below_the_log_is_lost_once_and_never_jumped(stand: Stand) -> None:
    """Deleted records are reported, once; nothing is read before the caller decides."""
    place = TopicPartition(stand.topic(), 0)
    _fill(stand.kafka.writer("w"), place, 10)
    admin = stand.kafka.admin()
    admin.delete_before({place: 6})
    assert admin.starts([place]) == {place: 6}
    assert admin.ends([place]) == {place: 10}
    reader = stand.reader(place, start=2)
    lost: list[TopicPartition] = []

    def is_lost() -> bool:
        assert not reader.read(0.2, 100)
        lost.extend(reader.lost())
        return bool(lost)

    stand.wait(is_lost)
    assert stand.quiet(reader) == []
    assert lost + list(reader.lost()) == [place]
    reader.assign({place: admin.starts([place])[place]})
    assert values(stand.take(reader, 4)) == _numbers(6, 7, 8, 9)
    assert values(stand.take(stand.reader(place), 4)) == _numbers(6, 7, 8, 9)


def test_a_position_beyond_the_log_is_lost_too(stand: Stand) -> None:
    """As after a truncation: the log is shorter than what was read before."""
    place = TopicPartition(stand.topic(), 0)
    _fill(stand.kafka.writer("w"), place, 2)
    reader = stand.reader(place, start=50)
    lost: list[TopicPartition] = []

    def is_lost() -> bool:
        assert not reader.read(0.2, 100)
        lost.extend(reader.lost())
        return bool(lost)

    stand.wait(is_lost)
    assert lost == [place]


def test_reachable_says_whether_brokers_answer(stand: Stand) -> None:
    """True soon after the first question."""
    reader = stand.reader(TopicPartition(stand.topic(), 0))
    stand.wait(reader.reachable)
    reader.close()
    assert not reader.read(0, 10)


def test_a_read_tells_how_many_changes_it_knows_of(stand: Stand) -> None:
    """So records of a former assignment can be distinguished from those of the present one."""
    place = TopicPartition(stand.topic(), 0)
    _fill(stand.kafka.writer("w"), place, 2)
    reader = stand.reader(place)
    assert reader.noted == 1
    assert values(stand.take(reader, 2)) == _numbers(0, 1)
    assert reader.heeded == 1
    reader.unassign([place])
    reader.assign({place: 1})
    assert reader.noted == 3
    assert values(stand.take(reader, 1)) == _numbers(1)
    assert reader.heeded == 3


def test_a_partition_that_was_recalled_is_fetched_no_more(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader lets go at once, though it may never be read again; what came early is kept."""
    known, other = TopicPartition(stand.topic(), 0), TopicPartition(stand.topic(), 0)
    _fill(stand.kafka.writer("w"), known, 2)
    _fill(stand.kafka.writer("w"), other, 3)
    reader: Reader = stand.kafka.reader("contract-reader")
    monkeypatch.setattr(stand.kafka, "reader", lambda *_, **__: reader)
    recall = Recall(stand.kafka, [known, other], stand.now_ms)
    for _ in range(2):
        assert values(recall.records(known)) == _numbers(0, 1)
        assert reader.heeded == reader.noted
    assert values(recall.decided(other)) == _numbers(0, 1, 2)
    assert reader.heeded == reader.noted
    recall.close()


def test_what_waits_behind_a_position_is_told(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Falls to nothing at the end of a log, markers of transactions included."""
    monkeypatch.setattr("mesh.transport.kafka.reader.BEHIND_S", 0.0)
    place = TopicPartition(stand.topic(), 0)
    writer = stand.kafka.writer("t", f"{stand.mark}-behind")
    writer.begin()
    _fill_in_transaction(writer, place, 400)
    writer.commit()
    reader = stand.reader(place)

    def behind_after(limit: int) -> int:
        """Read so many; return how many were left when some had come, else nothing."""
        return reader.behind().get(place, 0) if reader.read(0.1, limit) else 0

    left: list[int] = []
    stand.wait(lambda: left.append(behind_after(1)) or left[-1])
    assert 0 < left[-1] <= 400
    stand.wait(lambda: reader.read(0.1, 100) is None or not reader.behind().get(place, 0))


def _fill_in_transaction(writer: Writer, place: TopicPartition, count: int) -> None:
    for number in range(count):
        writer.produce(place.topic, b"%d" % number, partition=place.partition)


def test_a_reader_that_learns_topics_anew_reads_on_where_it_was(stand: Stand) -> None:
    """Nothing comes twice and nothing is left out, whatever is assigned meanwhile. Spec: R6."""
    topic = stand.topic(2)
    places = [TopicPartition(topic, number) for number in range(2)]
    writer = stand.kafka.writer("w")
    _fill(writer, places[0], 3)
    reader = stand.reader(places[0])
    assert values(stand.take(reader, 3)) == _numbers(0, 1, 2)
    reader.renew()
    reader.assign({places[1]: BEGINNING})
    _fill(writer, places[0], 2, start=3)
    _fill(writer, places[1], 1, start=9)
    assert sorted(one.value() or b"" for one in stand.take(reader, 3)) == _numbers(3, 4, 9)
    assert stand.quiet(reader) == []
