"""Consumers share a topic by a group that clients of any making may be in. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mesh.errors import TransportError, TransportMovedError
from mesh.transport.kafka import health
from mesh.transport.port import (
    BEGINNING,
    Consumer,
    Passed,
    Record,
    Skipped,
    TopicPartition,
    TopicSpec,
)
from tests.contract.conftest import Stand, values


def _write(stand: Stand, topic: str, *payloads: bytes, partition: int = 0) -> None:
    writer = stand.kafka.writer("w")
    for payload in payloads:
        writer.produce(topic, payload, partition=partition)
    assert writer.flush() == 0
    writer.close()


def _take(stand: Stand, consumer: Consumer, count: int) -> Sequence[Record]:
    found: list[Record] = []

    def is_enough() -> bool:
        found.extend(consumer.read(0.2, 100))
        return len(found) >= count

    stand.wait(is_enough)
    return found


def _own(stand: Stand, consumers: Sequence[Consumer], sizes: Sequence[int]) -> None:
    def is_shared() -> bool:
        for consumer in consumers:
            consumer.read(0.05, 1)
        return sorted(len(one.owned()) for one in consumers) == sorted(sizes)

    stand.wait(is_shared)


def test_a_group_goes_on_where_it_was_and_keeps_remarks(stand: Stand) -> None:
    """The next member reads what was not passed, and sees what was written beside that."""
    topic = stand.topic()
    at = TopicPartition(topic, 0)
    _write(stand, topic, b"a", b"b", b"c")
    first = stand.kafka.consumer("first", f"group.{topic}", topic)
    assert values(_take(stand, first, 3)) == [b"a", b"b", b"c"]
    assert first.owned() == {at: Passed(BEGINNING)}
    first.commit({at: Passed(1, "twice: 2")})
    assert stand.kafka.admin().consumed([topic]) == {at: 1}
    first.close()
    second = stand.kafka.consumer("second", f"group.{topic}", topic)
    assert values(_take(stand, second, 2)) == [b"b", b"c"]
    assert second.owned() == {at: Passed(1, "twice: 2")}
    second.close()


def test_members_are_told_by_their_client_ids(stand: Stand) -> None:
    """Members are visible from the outside; one that left is a member no more."""
    topic = stand.topic(2)
    group = f"group.{topic}"
    admin = stand.kafka.admin()
    assert admin.group_members(group) == []
    members = [stand.kafka.consumer(name, group, topic) for name in ("one", "two")]
    _own(stand, members, [1, 1])
    assert sorted(name.rpartition("-")[2] for name in admin.group_members(group)) == ["one", "two"]
    members[0].close()
    _own(stand, members[1:], [2])
    assert [name.rpartition("-")[2] for name in admin.group_members(group)] == ["two"]
    members[1].close()


def test_who_lost_a_partition_moves_nothing_on(stand: Stand) -> None:
    """Neither by itself nor in a transaction, so no two members pass the same records."""
    topic, target = stand.topic(1), stand.topic(1)
    group, at = f"group.{topic}", TopicPartition(topic, 0)
    _write(stand, topic, b"a", b"b")
    late = stand.kafka.consumer("late", group, topic)
    _take(stand, late, 2)
    ticket = late.ticket
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(target, b"copy", partition=0)
    late.close()
    heir = stand.kafka.consumer("heir", group, topic)
    _own(stand, [heir], [1])
    with pytest.raises(TransportMovedError):
        writer.send_offsets({at: Passed(2)}, ticket)
    writer.abort()
    assert stand.kafka.admin().consumed([topic]) == {}
    assert stand.drain(stand.reader(TopicPartition(target, 0)), TopicPartition(target, 0)) == []
    heir.close()


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_moves_a_group_on_or_does_not(stand: Stand, is_committed: bool) -> None:
    """Copies and the group's offsets are one: both, or neither."""
    topic, target = stand.topic(1), stand.topic(1)
    group, at, to = f"group.{topic}", TopicPartition(topic, 0), TopicPartition(target, 0)
    _write(stand, topic, b"a", b"b")
    consumer = stand.kafka.consumer("mover", group, topic)
    _take(stand, consumer, 2)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(target, b"copy", partition=0)
    writer.send_offsets({at: Passed(1, "moved")}, consumer.ticket)
    (writer.commit if is_committed else writer.abort)()
    consumer.close()
    heir = stand.kafka.consumer("heir", group, topic)
    found = _take(stand, heir, 1 if is_committed else 2)
    assert values(found) == ([b"b"] if is_committed else [b"a", b"b"])
    assert heir.owned()[at] == (Passed(1, "moved") if is_committed else Passed(BEGINNING))
    assert values(stand.drain(stand.reader(to), to)) == ([b"copy"] if is_committed else [])
    heir.close()


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_group_remembers_under_which_leader_it_read(
    stand: Stand, *, in_transaction: bool
) -> None:
    """Who comes next can tell whether the log has lost its end since. Spec: R6."""
    topic = stand.topic(1)
    group, at = f"group.{topic}", TopicPartition(topic, 0)
    _write(stand, topic, b"a", b"b")
    consumer = stand.kafka.consumer("one", group, topic)
    [first, _] = _take(stand, consumer, 2)
    epoch = first.leader_epoch()
    assert epoch is not None
    passed = Passed(1, "kept", epoch)
    if in_transaction:
        writer = stand.kafka.writer("w", f"id.{topic}")
        writer.begin()
        writer.send_offsets({at: passed}, consumer.ticket)
        writer.commit()
    else:
        consumer.commit({at: passed})
    assert stand.kafka.admin().passed(group, [at]) == {at: passed}
    assert stand.kafka.admin().agrees_until(at, epoch, 5) == 2
    consumer.close()
    heir = stand.kafka.consumer("heir", group, topic)
    assert values(_take(stand, heir, 1)) == [b"b"]
    assert heir.owned() == {at: passed}
    heir.close()


def test_who_has_all_but_a_marker_goes_on_with_what_was_taken_up(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record's position comes behind a marker: that is no stall, and nobody joins again."""
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(health, "STALLED_S", 0.2)
    topic = stand.topic(1)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(topic, b"a", partition=0)
    writer.commit()
    consumer = stand.kafka.consumer("c", f"group.{topic}", topic)
    _take(stand, consumer, 1)
    taken_up = consumer.owned()[TopicPartition(topic, 0)]
    assert not any(consumer.read(0.2, 100) for _ in range(8))
    assert consumer.owned()[TopicPartition(topic, 0)] is taken_up
    consumer.close()


def test_an_heir_waits_for_the_end_of_a_transaction(stand: Stand) -> None:
    """What an open transaction has passed is not read by the next owner before it is decided."""
    topic, target = stand.topic(1), stand.topic(1)
    group, at = f"group.{topic}", TopicPartition(topic, 0)
    _write(stand, topic, b"a", b"b")
    consumer = stand.kafka.consumer("mover", group, topic)
    _take(stand, consumer, 2)
    writer = stand.kafka.writer("w", f"id.{topic}")
    writer.begin()
    writer.produce(target, b"copy", partition=0)
    writer.send_offsets({at: Passed(1)}, consumer.ticket)
    consumer.close()
    heir = stand.kafka.consumer("heir", group, topic)
    assert values([record for _ in range(3) for record in heir.read(0.2, 10)]) == []
    writer.commit()
    assert values(_take(stand, heir, 1)) == [b"b"]
    heir.close()


def test_paused_partitions_rest(stand: Stand) -> None:
    """The others go on; resumed, nothing was missed and nothing comes twice."""
    topic = stand.topic(2)
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    _own(stand, [consumer], [2])
    consumer.pause([TopicPartition(topic, 0)])
    _write(stand, topic, b"a", partition=0)
    _write(stand, topic, b"b", partition=1)
    assert values(_take(stand, consumer, 1)) == [b"b"]
    assert values([record for _ in range(3) for record in consumer.read(0.1, 10)]) == []
    consumer.pause([])
    assert values(_take(stand, consumer, 1)) == [b"a"]
    consumer.close()


def test_a_group_behind_the_log_goes_on_at_its_beginning_and_says_so(stand: Stand) -> None:
    """It is not stopped by what retention or a limit took, and passes over nothing in silence."""
    topic = stand.topic()
    at = TopicPartition(topic, 0)
    _write(stand, topic, b"a", b"b", b"c")
    stand.commit_group(f"group.{topic}", {at: 0})
    stand.kafka.admin().delete_before({at: 2})
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    assert values(_take(stand, consumer, 1)) == [b"c"]
    assert consumer.skipped() == [Skipped(at, 0, 1)]
    assert consumer.skipped() == []
    consumer.close()


def test_a_log_that_leaves_its_reader_behind_is_read_on_and_said_so(stand: Stand) -> None:
    """Between two reads, as where a group rests longer than records are kept."""
    topic = stand.topic(2)
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    _write(stand, topic, b"a", b"b")
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    assert values(_take(stand, consumer, 2)) == [b"a", b"b"]
    consumer.pause([at])
    taken_up = consumer.owned()[at]
    _write(stand, topic, b"c", b"d", b"e")
    stand.kafka.admin().delete_before({at: 4})
    _write(stand, topic, b"f", partition=1)
    assert values(_take(stand, consumer, 1)) == [b"f"]
    consumer.pause([])
    assert values(_take(stand, consumer, 1)) == [b"e"]
    assert consumer.skipped() == [Skipped(at, 2, 3)]
    assert consumer.owned()[at] is taken_up
    consumer.commit({at: Passed(5), other: Passed(1)})
    _write(stand, topic, b"g")
    assert values(_take(stand, consumer, 1)) == [b"g"]
    assert consumer.skipped() == []
    consumer.close()


def test_others_go_on_where_they_were_when_one_is_left_behind(stand: Stand) -> None:
    """What was fetched of them and not handed out comes once, and in order."""
    topic = stand.topic(2)
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    _write(stand, topic, b"a", b"b", b"c")
    stand.commit_group(f"group.{topic}", {at: 0, other: 0})
    stand.kafka.admin().delete_before({at: 2})
    wanted = [b"%d" % number for number in range(20)]
    _write(stand, topic, *wanted, partition=1)
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    found: list[bytes | None] = []

    def is_enough() -> bool:
        found.extend(values(consumer.read(0.1, 3)))
        return len(found) > len(wanted)

    stand.wait(is_enough)
    assert [one for one in found if one != b"c"] == wanted
    assert values(consumer.read(0.5, 3)) == []
    assert consumer.skipped() == [Skipped(at, 0, 1)]
    consumer.close()


def test_a_group_that_was_never_anywhere_skips_nothing(stand: Stand) -> None:
    """It begins with what is there: what was deleted before was not for it."""
    topic = stand.topic()
    _write(stand, topic, b"a", b"b", b"c")
    stand.kafka.admin().delete_before({TopicPartition(topic, 0): 2})
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    assert values(_take(stand, consumer, 1)) == [b"c"]
    assert consumer.skipped() == []
    consumer.close()


def test_a_log_that_begins_anew_is_taken_up_anew(stand: Stand) -> None:
    """The topic was recreated under its reader: nothing in it was read, whatever its offset."""
    topic = stand.topic()
    group, at, admin = f"group.{topic}", TopicPartition(topic, 0), stand.kafka.admin()
    _write(stand, topic, b"a", b"b", b"c")
    consumer = stand.kafka.consumer("one", group, topic)
    _take(stand, consumer, 3)
    former = consumer.owned()[at]
    consumer.commit({at: Passed(3, "all of it")})
    stand.delete_topic(topic)
    stand.wait(lambda: admin.passed(group, [at]) == {}, pace_s=0.05)
    admin.create([TopicSpec(name=topic, partitions=1)])
    _write(stand, topic, b"d", b"e")
    assert values(_take(stand, consumer, 2)) == [b"d", b"e"]
    assert consumer.owned()[at] is not former
    assert max(0, consumer.owned()[at].offset) == 0
    consumer.commit({at: Passed(1, "one of it")})
    assert admin.passed(group, [at]) == {at: Passed(1, "one of it")}
    consumer.close()


def test_who_is_told_that_its_topic_is_another_one_reads_all_of_it(stand: Stand) -> None:
    """It has outgrown the positions of the former one, which its reader cannot see."""
    topic = stand.topic()
    group, at, admin = f"group.{topic}", TopicPartition(topic, 0), stand.kafka.admin()
    _write(stand, topic, b"a", b"b", b"c")
    consumer = stand.kafka.consumer("one", group, topic)
    _take(stand, consumer, 2)
    former = consumer.owned()[at]
    consumer.commit({at: Passed(2)})
    consumer.begin_again()
    assert values(_take(stand, consumer, 3)) == [b"a", b"b", b"c"]
    assert consumer.owned()[at] is not former
    assert consumer.owned()[at] == Passed(BEGINNING, is_rewound=True)
    consumer.commit({at: Passed(1)})
    assert admin.passed(group, [at]) == {at: Passed(1)}
    assert consumer.skipped() == []
    consumer.close()


def _refuse(call: Callable[[], object]) -> None:
    with pytest.raises(TransportError):
        call()


def test_a_member_that_was_expelled_commits_nothing(stand: Stand) -> None:
    """Closed means out: no late commit of it counts."""
    topic = stand.topic()
    at = TopicPartition(topic, 0)
    _write(stand, topic, b"a")
    consumer = stand.kafka.consumer("one", f"group.{topic}", topic)
    _take(stand, consumer, 1)
    consumer.close()
    _refuse(lambda: consumer.commit({at: Passed(1)}))
    assert stand.kafka.admin().consumed([topic]) == {}
