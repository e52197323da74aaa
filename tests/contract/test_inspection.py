"""What the doctor asks of a Kafka cluster, and how it mends settings. Spec: R15."""

from __future__ import annotations

import pytest

from mesh.errors import TransportDeniedError
from mesh.transport.port import TopicPartition, TopicSpec
from tests.contract.conftest import Stand


def test_a_changed_setting_is_in_force_and_the_others_stay(stand: Stand) -> None:
    name = stand.topic(retention_ms="60000", max_message_bytes="123456")
    admin = stand.kafka.admin()
    admin.change(name, {"retention.ms": "-1"})

    def found() -> tuple[str | None, str | None]:
        settings = admin.settings([name])[name]
        return settings.get("retention.ms"), settings.get("max.message.bytes")

    stand.wait(lambda: found() == ("-1", "123456"), pace_s=0.05)


def test_settings_of_a_missing_topic_cannot_be_changed(stand: Stand) -> None:
    name = f"contract.{stand.mark}.absent"
    with pytest.raises(TransportDeniedError, match=name):
        stand.kafka.admin().change(name, {"retention.ms": "-1"})


def test_a_tried_creation_creates_nothing_and_says_what_would_be_refused(stand: Stand) -> None:
    name = f"contract.{stand.mark}.tried"
    admin = stand.kafka.admin()
    admin.try_create([TopicSpec(name=name, partitions=2)])
    assert admin.describe([name]) == {}
    with pytest.raises(TransportDeniedError, match=name):
        admin.try_create([TopicSpec(name=name, partitions=0)])
    admin.try_create([TopicSpec(name=stand.topic(), partitions=0)])


def test_rights_and_copies_are_told_of_what_exists(stand: Stand) -> None:
    """Without an authorizer everybody may do everything."""
    name, missing = stand.topic(partitions=2), f"contract.{stand.mark}.no"
    admin = stand.kafka.admin()
    rights = admin.rights([name, missing])
    assert list(rights) == [name]
    assert {"READ", "WRITE", "DESCRIBE", "DELETE"} <= rights[name].operations
    assert rights[name].refusal == ""
    copies = admin.copies([name, missing])
    assert sorted(copies) == [TopicPartition(name, 0), TopicPartition(name, 1)]
    assert all(one.has_leader and 0 < one.in_sync <= one.wanted for one in copies.values())
    assert admin.rights([]) == {}
    group = f"contract.{stand.mark}.nobody"
    assert admin.group_rights([group])[group].operations >= {"READ", "DESCRIBE"}
    assert admin.copies([]) == {}


def test_every_broker_that_runs_tells_its_settings(stand: Stand) -> None:
    admin = stand.kafka.admin()
    assert list(admin.brokers())
    assert sorted(admin.broker_settings()) == sorted(admin.brokers())


def test_offsets_are_found_by_time(stand: Stand) -> None:
    """The first record of that moment or later, wherever others of earlier times stand."""
    name = stand.topic(partitions=2)
    place, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    writer = stand.kafka.writer("contract-writer")
    base_ms = stand.now_ms()
    for later_ms in (0, 10, 5, 20):
        writer.produce(name, b"x", None, 0, timestamp=base_ms + later_ms)
    writer.flush()
    admin = stand.kafka.admin()
    asked = [place, empty, TopicPartition(name, 9), TopicPartition(f"{name}.no", 0)]
    found = {later: admin.since(asked, base_ms + later) for later in (-50, 10, 11, 20, 21)}
    assert {later: offsets[place] for later, offsets in found.items()} == {
        -50: 0,
        10: 1,
        11: 3,
        20: 3,
        21: 4,
    }
    assert {tuple(offsets) for offsets in found.values()} == {(place, empty)}
    assert found[10][empty] == 0
