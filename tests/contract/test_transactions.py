"""Transactions: what is seen, when, and by whom it may be ended. Spec: K12, K16."""

from __future__ import annotations

import pytest

from mesh.errors import TransportFencedError
from mesh.transport.port import TopicPartition
from tests.contract.conftest import Stand, values


def test_a_commit_shows_all_of_it_at_once(stand: Stand) -> None:
    """Before the commit nothing is seen, afterwards everything, over all partitions."""
    topic = stand.topic(2)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    writer = stand.kafka.writer("w", f"id.{topic}")
    reader = stand.reader(*places)
    writer.begin()
    writer.produce(topic, b"a", partition=0)
    writer.produce(topic, b"b", partition=1)
    writer.flush()
    assert stand.quiet(reader) == []
    writer.commit()
    assert sorted(map(str, values(stand.take(reader, 2)))) == ["b'a'", "b'b'"]


def test_an_aborted_record_is_never_seen(stand: Stand) -> None:
    """An abort hides its records, takes their offsets; the next one goes on. Spec: K-1, K-4."""
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    writer = stand.kafka.writer("w", f"id.{topic}")
    for value, is_kept in ((b"a", True), (b"b", False), (b"c", True)):
        writer.begin()
        writer.produce(topic, value, partition=0)
        if is_kept:
            writer.commit()
        else:
            writer.flush()
            writer.abort()
    found = stand.drain(stand.reader(place), place)
    assert [(record.offset(), record.value()) for record in found] == [(0, b"a"), (4, b"c")]


def test_markers_take_offsets(stand: Stand) -> None:
    """The end comes to lie above the last record by its marker; a position passes it.

    The brokers write the marker soon after the commit has returned, not before.
    """
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(topic, b"a", partition=0)
    writer.produce(topic, b"b", partition=0)
    writer.commit()
    stand.wait(lambda: stand.kafka.admin().ends([place]) == {place: 3})
    writer.begin()
    writer.produce(topic, b"aborted", partition=0)
    writer.flush()
    writer.abort()
    stand.wait(lambda: stand.kafka.admin().ends([place]) == {place: 5})
    reader = stand.reader(place)
    assert values(stand.drain(reader, place)) == [b"a", b"b"]
    assert reader.position(place) == 5


def test_an_empty_transaction_leaves_no_trace(stand: Stand) -> None:
    """Neither commit nor abort of nothing writes a marker; abort without one does nothing."""
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.commit()
    writer.begin()
    writer.abort()
    writer.abort()
    assert stand.kafka.admin().ends([place]) == {place: 0}


def test_an_open_transaction_hides_what_follows_it(stand: Stand) -> None:
    """Readers stop at the last stable offset, the high watermark goes on; other partitions too."""
    topic = stand.topic(2)
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(topic, b"open", partition=0)
    writer.flush()
    plain = stand.kafka.writer("plain")
    plain.produce(topic, b"behind", partition=0)
    plain.produce(topic, b"free", partition=1)
    assert plain.flush() == 0
    assert stand.kafka.admin().ends([held]) == {held: 2}
    reader = stand.reader(held, free)
    assert values(stand.take(reader, 1)) == [b"free"]
    assert stand.quiet(reader) == []
    assert reader.position(held) <= 0
    writer.commit()
    assert values(stand.take(reader, 2)) == [b"open", b"behind"]


def test_two_open_transactions_hide_from_the_older(stand: Stand) -> None:
    """The end of the younger shows nothing while the older is open."""
    topic = stand.topic()
    older, younger = (stand.kafka.writer("w", f"id.{topic}.{name}") for name in ("o", "y"))
    for writer, value in ((older, b"old"), (younger, b"young")):
        writer.begin()
        writer.produce(topic, value, partition=0)
        writer.flush()
    younger.commit()
    reader = stand.reader(TopicPartition(topic, 0))
    assert stand.quiet(reader) == []
    older.commit()
    assert values(stand.take(reader, 2)) == [b"old", b"young"]


def test_a_successor_ends_what_its_predecessor_left_open(stand: Stand) -> None:
    """Taking the id aborts the open transaction: readers go on, the old records are unseen. Spec: R2."""
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    old = stand.kafka.writer("old", f"id.{topic}")
    old.begin()
    old.produce(topic, b"old", partition=0)
    old.flush()
    new = stand.kafka.writer("new", f"id.{topic}")
    new.begin()
    new.produce(topic, b"new", partition=0)
    new.commit()
    assert values(stand.drain(stand.reader(place), place)) == [b"new"]


def test_a_fenced_writer_can_do_nothing_any_more(stand: Stand) -> None:
    """Commit raises, so does everything after it; nothing of it is ever seen. Spec: K-7, R2."""
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    old = stand.kafka.writer("old", f"id.{topic}")
    old.begin()
    old.produce(topic, b"before", partition=0)
    old.flush()
    new = stand.kafka.writer("new", f"id.{topic}")
    with pytest.raises(TransportFencedError):
        old.commit()
    for call in (old.begin, old.commit, old.abort):
        with pytest.raises(TransportFencedError):
            call()
    with pytest.raises(TransportFencedError):
        old.produce(topic, b"later", partition=0)
    old.close()
    new.begin()
    new.produce(topic, b"new", partition=0)
    new.commit()
    assert values(stand.drain(stand.reader(place), place)) == [b"new"]


def test_a_fenced_writer_may_learn_it_at_its_next_transaction(stand: Stand) -> None:
    """Fenced between transactions: at begin or, at the latest, at commit."""
    topic = stand.topic()
    place = TopicPartition(topic, 0)
    old = stand.kafka.writer("old", f"id.{topic}")
    new = stand.kafka.writer("new", f"id.{topic}")
    with pytest.raises(TransportFencedError):
        _write(old, topic)
    new.begin()
    new.produce(topic, b"new", partition=0)
    new.commit()
    assert values(stand.drain(stand.reader(place), place)) == [b"new"]


def _write(writer: object, topic: str) -> None:
    writer.begin()  # type: ignore[attr-defined]
    writer.produce(topic, b"zombie", partition=0)  # type: ignore[attr-defined]
    writer.commit()  # type: ignore[attr-defined]


def test_who_asks_is_told_where_the_records_of_transactions_are_when_they_end(stand: Stand) -> None:
    """Offsets only rise, over the markers between them too. Spec: K16."""
    topic = stand.topic()
    writer = stand.kafka.writer("w", f"id.{topic}", tells=True)
    offsets: list[int] = []
    for _ in range(2):
        writer.begin()
        for _ in range(2):
            writer.produce(
                topic, b"v", b"k", 0, on_delivery=lambda _at, offset, _: offsets.append(offset)
            )
        writer.commit()
    assert offsets == [0, 1, 3, 4]
