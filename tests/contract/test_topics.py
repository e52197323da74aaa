"""Creating, describing and trimming topics. Spec: K4, K5, R6."""

from __future__ import annotations

import gc
import time

import pytest
from confluent_kafka import Uuid

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportDeniedError, TransportError
from mesh.model.frames import MessageClass
from mesh.transport.node_topics import endpoint_topic
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.worker.topics.provision import set_to_keep
from tests.contract.conftest import Stand


def test_create_is_idempotent_and_describe_leaves_out_the_missing(stand: Stand) -> None:
    """An existing topic is left as it is, whatever is asked for now."""
    name, missing = stand.topic(3), f"contract.{stand.mark}.missing"
    admin = stand.kafka.admin()
    before = admin.describe([name, missing])
    assert set(before) == {name}
    assert before[name].name == name
    assert before[name].partitions == 3
    assert len(before[name].topic_id) == 16
    admin.create([TopicSpec(name=name, partitions=5), TopicSpec(name=name, partitions=5)])
    assert admin.describe([name]) == before
    assert admin.describe([]) == {}


def test_a_new_topic_may_be_named_twice(stand: Stand) -> None:
    """Nodes of one Kafka cluster share topics; librdkafka crashes on a repeated name."""
    name = f"contract.{stand.mark}.twice"
    admin = stand.kafka.admin()
    topics = [TopicSpec(name=name, partitions=2), TopicSpec(name=name, partitions=2)]
    admin.try_create(topics)
    admin.create(topics)
    assert admin.describe([name])[name].partitions == 2


def test_topic_ids_tell_a_topic_from_its_namesake(stand: Stand) -> None:
    """The id stays while the topic does; a new topic of the same name has another one."""
    name, other = stand.topic(), stand.topic()
    admin = stand.kafka.admin()
    old = admin.describe([name, other])
    assert old[name].topic_id != old[other].topic_id
    stand.delete_topic(name)
    assert admin.describe([name]) == {}
    admin.create([TopicSpec(name=name, partitions=1)])
    new = admin.describe([name, other])
    assert new[name].topic_id != old[name].topic_id
    assert new[other] == old[other]


def test_ids_are_freed_however_often_they_are_asked_for(stand: Stand) -> None:
    """A worker asks for some seventeen a second, whether anybody uses it or not."""

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, Uuid) for one in gc.get_objects())

    names = [stand.topic(), stand.topic()]
    admin = stand.kafka.admin()
    known = admin.describe(names)
    before = kept()
    for _ in range(20):
        assert admin.describe(names) == known
        assert set(admin.ends([TopicPartition(name, 0) for name in names]).values()) == {0}
    assert kept() <= before + len(names)  # the last answer may be on its way out


def test_an_endpoint_takes_what_was_created_at_whatever_time(stand: Stand) -> None:
    """What one Kafka cluster has accepted, another one takes, however its clock goes."""
    nodes = {"kafka": {"k": None}, "nodes": {"a": {"kafka": "k"}}, "prefix": f"t{stand.mark}."}
    topic = endpoint_topic(topology_from_mapping(nodes), "a", "e", MessageClass.GUARANTEED)
    admin = stand.kafka.admin()
    admin.create([topic])
    assert set_to_keep(admin, [topic]) == {}
    day_ms = 24 * 3_600_000
    times = [time.time_ns() // 1_000_000 + 2 * day_ms, day_ms, -day_ms]
    writer = stand.kafka.writer("lane", f"lane.{stand.mark}")
    writer.begin()
    for at_ms in times:
        writer.produce(topic.name, b"x", partition=0, timestamp=at_ms)
    writer.commit()
    writer.close()
    found = stand.take(stand.reader(TopicPartition(topic.name, 0)), 3)
    assert [record.timestamp()[1] for record in found] == times


def test_a_created_topic_can_be_written_at_once(stand: Stand) -> None:
    """Create returns when leaders are known, so the very next write is no error."""
    names = [f"contract.{stand.mark}.at-once.{index}" for index in range(5)]
    stand.kafka.admin().create([TopicSpec(name=name, partitions=4) for name in names])
    writer = stand.kafka.writer("w")
    for name in names:
        writer.produce(name, b"x", partition=3)
    assert writer.flush() == 0
    places = [TopicPartition(name, 3) for name in names]
    assert stand.kafka.admin().ends(places) == dict.fromkeys(places, 1)


def test_ends_and_starts_leave_out_what_does_not_exist(stand: Stand) -> None:
    """Neither a missing topic nor a missing partition is an error."""
    place = TopicPartition(stand.topic(), 0)
    absent = [TopicPartition(place.topic, 7), TopicPartition(f"contract.{stand.mark}.no", 0)]
    admin = stand.kafka.admin()
    assert admin.ends([place, *absent]) == {place: 0}
    assert admin.starts([place, *absent]) == {place: 0}
    assert admin.ends(absent) == {}
    assert admin.ends([]) == {}
    admin.delete_before(dict.fromkeys(absent, 1))
    admin.delete_before({})


def test_the_broker_refuses_an_impossible_topic_in_its_own_words(stand: Stand) -> None:
    """No partitions at all: refused, with the topic named."""
    name = f"contract.{stand.mark}.impossible"
    with pytest.raises(TransportDeniedError, match=name):
        stand.kafka.admin().create([TopicSpec(name=name, partitions=0)])


def test_delete_before_beyond_the_end_is_an_error(stand: Stand) -> None:
    """It would promise to delete what is yet to come."""
    place = TopicPartition(stand.topic(), 0)
    with pytest.raises(TransportError, match=place.topic):
        stand.kafka.admin().delete_before({place: 100})


def test_records_of_a_compacted_topic_stay(stand: Stand) -> None:
    """Brokers refuse to trim a compacted topic; the mesh must never rely on it."""
    place = TopicPartition(stand.topic(cleanup_policy="compact"), 0)
    writer = stand.kafka.writer("w")
    writer.produce(place.topic, b"v", b"k", 0)
    writer.flush()
    with pytest.raises(TransportDeniedError, match=place.topic):
        stand.kafka.admin().delete_before({place: 1})


def test_delete_before_never_goes_back(stand: Stand) -> None:
    """A lower offset than the start is done already."""
    place = TopicPartition(stand.topic(), 0)
    writer = stand.kafka.writer("w")
    for _ in range(5):
        writer.produce(place.topic, b"v", partition=0)
    writer.flush()
    admin = stand.kafka.admin()
    admin.delete_before({place: 3})
    admin.delete_before({place: 1})
    assert admin.starts([place]) == {place: 3}


def test_the_cluster_id_is_one(stand: Stand) -> None:
    """The identity does not change between questions."""
    admin = stand.kafka.admin()
    assert admin.cluster_id() == admin.cluster_id() != ""


def test_settings_tell_what_a_topic_was_made_with(stand: Stand) -> None:
    """A missing topic is left out; a real broker tells its own defaults as well."""
    name, missing = f"contract.{stand.mark}.set", f"contract.{stand.mark}.unset"
    admin = stand.kafka.admin()
    wanted = {"retention.ms": "-1", "max.message.bytes": "123456"}
    admin.create([TopicSpec(name=name, partitions=1, settings=wanted)])
    found = admin.settings([name, missing])
    assert list(found) == [name]
    assert {key: found[name][key] for key in wanted} == wanted
    assert admin.settings([]) == {}


def test_the_slowest_group_decides_what_has_been_consumed(stand: Stand) -> None:
    """No group: nothing. A group that has not committed a partition may still want all of it. K5."""
    topic, other = stand.topic(partitions=2), stand.topic()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = stand.kafka.admin()
    assert admin.consumed([topic]) == {}
    stand.commit_group(f"{stand.mark}-fast", {first: 7, second: 0})
    assert admin.consumed([topic, other]) == {first: 7, second: 0}
    stand.commit_group(f"{stand.mark}-slow", {first: 3})
    assert admin.consumed([topic]) == {first: 3}
    stand.commit_group(f"{stand.mark}-elsewhere", {TopicPartition(other, 0): 0})
    assert admin.consumed([topic]) == {first: 3}
    assert admin.consumed(["contract.missing"]) == {}
    left = admin.consumed([topic], besides=[f"{stand.mark}-slow"])
    assert left == {first: 7, second: 0}


def test_who_reads_is_told_of_every_group(stand: Stand) -> None:
    """By this records are deleted. Spec: K5."""
    topic, other = stand.topic(partitions=2), stand.topic()
    first = TopicPartition(topic, 0)
    admin = stand.kafka.admin()
    stand.commit_group(f"{stand.mark}-one", {first: 7})
    stand.commit_group(f"{stand.mark}-two", {first: 3, TopicPartition(other, 0): 1})
    stand.commit_group(f"{stand.mark}-three", {TopicPartition(other, 0): 1})
    one, two = f"{stand.mark}-one", f"{stand.mark}-two"
    assert admin.readers([topic]) == {one: {first: 7}, two: {first: 3}}
    assert admin.readers([topic], besides=[two]) == {one: {first: 7}}
    assert admin.readers([]) == {}


def test_topics_are_found_by_how_their_names_begin(stand: Stand) -> None:
    names = [f"contract.{stand.mark}.ep.{end}" for end in "ab"]
    admin = stand.kafka.admin()
    admin.create([TopicSpec(name=name, partitions=1) for name in names])
    assert sorted(admin.named(f"contract.{stand.mark}.ep.")) == names
    assert admin.named(f"contract.{stand.mark}.other.") == []


def test_topics_are_deleted_with_their_records(stand: Stand) -> None:
    """Those that do not exist are gone already; others stay."""
    names = [stand.topic(2), stand.topic()]
    kept = stand.topic()
    admin = stand.kafka.admin()
    missing = f"contract.{stand.mark}.missing"
    admin.delete([*names, missing, names[0]])
    stand.wait(lambda: list(admin.describe([*names, kept])) == [kept], pace_s=0.05)
    admin.delete(names)
    admin.delete([])
    admin.create([TopicSpec(name=names[0], partitions=1)])
    assert admin.ends([TopicPartition(names[0], 0)]) == {TopicPartition(names[0], 0): 0}
