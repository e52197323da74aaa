"""What comes out of a topic is what went in, in order, to the byte. Spec: K5, K6, K7."""

from __future__ import annotations

import pytest

from mesh.errors import InvariantError, TransportDeniedError, TransportRecordError
from mesh.transport.port import BEGINNING, TopicPartition
from tests.contract.conftest import Stand, values


def test_records_of_a_partition_keep_their_order_and_partition(stand: Stand) -> None:
    """Order inside a partition is the order of handing over; partitions stay apart."""
    topic = stand.topic(2)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    writer = stand.kafka.writer("w")
    for number in range(2_000):
        writer.produce(topic, b"%d" % number, b"key", number % 2)
    assert writer.flush() == 0
    assert writer.pending() == 0
    reader = stand.reader(*places)
    records = stand.take(reader, 2_000)
    for place in places:
        mine = [record for record in records if record.partition() == place.partition]
        assert values(mine) == [b"%d" % number for number in range(place.partition, 2_000, 2)]
        assert [record.offset() for record in mine] == list(range(1_000))
        assert {record.topic() for record in mine} == {topic}
        assert {record.key() for record in mine} == {b"key"}


def test_headers_keep_order_duplicates_and_nulls(stand: Stand) -> None:
    """Headers travel untouched; without any there are none."""
    topic = stand.topic()
    headers = [("b", b"1"), ("a", None), ("b", b"2"), ("a", b""), ("ü", b"\x00\xff")]
    writer = stand.kafka.writer("w")
    writer.produce(topic, b"with", headers=headers)
    writer.produce(topic, b"without")
    writer.flush()
    found = stand.take(stand.reader(TopicPartition(topic, 0)), 2)
    assert found[0].headers() == headers
    assert not found[1].headers()


def test_null_and_empty_stay_apart(stand: Stand) -> None:
    """A tombstone is no empty value, a null key no empty key."""
    topic = stand.topic()
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (b"", b""),
        (b"k", None),
        (None, b"v"),
    ]
    writer = stand.kafka.writer("w")
    for key, value in pairs:
        writer.produce(topic, value, key, 0)
    writer.flush()
    found = stand.take(stand.reader(TopicPartition(topic, 0)), 4)
    assert [(record.key(), record.value()) for record in found] == pairs


def test_a_create_time_topic_keeps_the_writers_time(stand: Stand) -> None:
    """The time stamp is the one handed over, or now."""
    topic = stand.topic()
    writer = stand.kafka.writer("w")
    before = stand.now_ms()
    writer.produce(topic, b"old", timestamp=1_234_567)
    writer.produce(topic, b"now")
    writer.flush()
    old, now = stand.take(stand.reader(TopicPartition(topic, 0)), 2)
    assert old.timestamp() == (1, 1_234_567)
    assert now.timestamp()[0] == 1
    assert before <= now.timestamp()[1] <= stand.now_ms()


def test_an_append_time_topic_ignores_the_writers_time(stand: Stand) -> None:
    """The time stamp is the broker's, whatever the writer says."""
    topic = stand.topic(message_timestamp_type="LogAppendTime")
    before = stand.now_ms()
    writer = stand.kafka.writer("w")
    writer.produce(topic, b"x", timestamp=1_234_567)
    writer.flush()
    (record,) = stand.take(stand.reader(TopicPartition(topic, 0)), 1)
    kind, stamp = record.timestamp()
    assert kind == 2
    assert before <= stamp <= stand.now_ms()


def test_who_gathers_gets_a_single_record_too(stand: Stand) -> None:
    """Later than others, and not when there is more."""
    place = TopicPartition(stand.topic(), 0)
    reader = stand.kafka.reader("contract-gathering", gathers=True)
    reader.assign({place: BEGINNING})
    assert stand.quiet(reader) == []
    writer = stand.kafka.writer("contract-writer")
    writer.produce(place.topic, b"alone", None, 0)
    writer.flush()
    assert values(stand.take(reader, 1)) == [b"alone"]
    reader.close()


def test_one_key_has_one_partition(stand: Stand) -> None:
    """Without a partition the key decides, and always alike."""
    topic = stand.topic(4)
    writer = stand.kafka.writer("w")
    for number in range(40):
        writer.produce(topic, b"%d" % number, b"key-%d" % (number % 4))
    writer.flush()
    reader = stand.reader(*(TopicPartition(topic, index) for index in range(4)))
    homes = {(record.key(), record.partition()) for record in stand.take(reader, 40)}
    assert len(homes) == 4


def test_a_record_above_the_limit_fails_at_flush(stand: Stand) -> None:
    """Without a transaction the refused record is counted and the others are written."""
    topic = stand.topic(2, max_message_bytes="2000")
    writer = stand.kafka.writer("w")
    writer.produce(topic, b"x" * 5_000, partition=0)
    writer.produce(topic, b"small", partition=1)
    assert writer.flush() == 1
    assert writer.flush() == 0
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert values(stand.drain(stand.reader(*places), *places)) == [b"small"]


def test_a_flush_in_a_transaction_tells_that_records_were_refused(stand: Stand) -> None:
    """The commit says why, and that it concerns the record; a new writer goes on. Spec: R12."""
    topic = stand.topic(max_message_bytes="2000")
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(topic, b"small", partition=0)
    assert writer.flush() == 0
    writer.produce(topic, b"x" * 5_000, partition=0)
    assert writer.flush() > 0
    with pytest.raises(TransportRecordError) as refused:
        writer.commit()
    assert refused.value.topics == (topic,)
    writer.close()
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(topic, b"again", partition=0)
    assert writer.flush() == 0
    writer.commit()
    place = TopicPartition(topic, 0)
    assert values(stand.drain(stand.reader(place), place)) == [b"again"]


def test_a_record_with_a_time_beyond_64_bits_is_refused_for_what_it_is(stand: Stand) -> None:
    """Strangers' frames may hold one: nobody ends over it, and its transaction says so. R12."""
    topic = stand.topic()
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce_all(topic, 0, [(b"good", None, 1, None), (b"bad", None, 1 << 63, None)])
    with pytest.raises(TransportRecordError) as refused:
        writer.commit()
    assert refused.value.topics == (topic,)
    direct = stand.kafka.writer("d")
    direct.produce_all(topic, 0, [(b"good", None, 1, None), (b"bad", None, 1 << 63, None)])
    assert direct.flush() == 1


def test_a_record_above_the_limit_fails_the_transaction(stand: Stand) -> None:
    """The error names the topic, nothing is committed, and the writer goes on."""
    small = stand.topic(max_message_bytes="2000")
    other = stand.topic()
    place = TopicPartition(other, 0)
    writer = stand.kafka.writer("w", f"id.{other}")
    writer.begin()
    writer.produce(other, b"before", partition=0)
    writer.produce(small, b"x" * 5_000, partition=0)
    with pytest.raises(TransportDeniedError, match=small) as refusal:
        writer.commit()
    assert refusal.value.topics == (small,)
    writer.begin()
    writer.produce(other, b"after", partition=0)
    writer.commit()
    assert values(stand.drain(stand.reader(place), place)) == [b"after"]


def test_a_missing_topic_fails_the_transaction_by_name(stand: Stand) -> None:
    """Topics are never made by writing to them."""
    missing = f"contract.{stand.mark}.missing"
    writer = stand.kafka.writer("w", f"id.{missing}")
    writer.begin()
    writer.produce(missing, b"x", partition=0)
    with pytest.raises(TransportDeniedError, match=missing) as refusal:
        writer.commit()
    assert refusal.value.topics == (missing,)
    assert stand.kafka.admin().describe([missing]) == {}


def test_a_transactional_writer_writes_in_transactions_only(stand: Stand) -> None:
    """Misuse is our bug and says so. Spec: R17."""
    topic = stand.topic()
    writer = stand.kafka.writer("w", f"id.{topic}")
    with pytest.raises(InvariantError):
        writer.produce(topic, b"x")
    with pytest.raises(InvariantError):
        writer.commit()
    writer.begin()
    with pytest.raises(InvariantError):
        writer.begin()
    writer.abort()
    with pytest.raises(InvariantError):
        stand.kafka.writer("plain").begin()


def test_who_asks_is_told_of_each_record_where_it_is_or_why_not(stand: Stand) -> None:
    """Of a topic that is missing as well; those of a writer that was not asked are counted."""
    topic = stand.topic(2)
    reports: dict[str, list[tuple[int, int, str]]] = {"there": [], "nowhere": []}
    writer = stand.kafka.writer("w", tells=True)
    for number in range(3):
        writer.produce(
            topic, b"v", b"key", number % 2, on_delivery=lambda *what: reports["there"].append(what)
        )
    writer.produce("no-such-topic", b"v", on_delivery=lambda *what: reports["nowhere"].append(what))
    assert writer.flush() == 1
    assert sorted(reports["there"]) == [(0, 0, ""), (0, 1, ""), (1, 0, "")]
    [(partition, offset, why)] = reports["nowhere"]
    assert (partition, offset, bool(why)) == (-1, -1, True)
