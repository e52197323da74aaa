"""Who waits to lead waits for nobody's transaction: a leader killed in one is ended by the next."""

from __future__ import annotations

import itertools

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportStalledError
from mesh.model.topics import TopicNames
from mesh.transport.following import DEADLINE_MS
from mesh.transport.memory import MemoryKafka
from mesh.transport.node_topics import node_topics
from mesh.transport.port import TopicPartition
from mesh.worker.control.frozen_neighbours import FrozenNeighbours
from mesh.worker.control.leadership import RETRY_MS, Leadership, take_control
from mesh.worker.process.commits import CommitsAtOnce
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall
from tests.component.worker.conftest import CHAIN
from tests.said import Said

TOPOLOGY = topology_from_mapping(CHAIN)
CONTROL = TopicPartition(TopicNames().control("a"), 0)


def standby(kafka: MemoryKafka, looks: int) -> Leadership:
    """Return one whose answers come so many looks late, and that knows only how time flies."""
    clock = itertools.count(0, DEADLINE_MS)
    errands = SteppedErrands(lambda: looks)
    recall = Recall(kafka, [CONTROL], lambda: next(clock))
    questions = Questions(errands)
    frozen = FrozenNeighbours(TopicPartition(TopicNames().learned("a"), 0), recall, questions)
    return Leadership(
        TOPOLOGY,
        "a",
        kafka,
        "id-of-k",
        recall,
        errands,
        questions,
        lambda: "other",
        lambda _: (),
        frozen,
        CommitsAtOnce(),
    )


def test_who_is_given_nothing_more_is_given_it_by_another_reader() -> None:
    """A client was seen to find nothing for good, though brokers had long been back. Spec: K16."""
    kafka = MemoryKafka("k")
    kafka.admin().create(node_topics(TOPOLOGY, "a"))
    kafka.writer("w").produce(CONTROL.topic, b"v", b"k", 0)
    clock = itertools.count(0, DEADLINE_MS)
    recall = Recall(kafka, [], lambda: next(clock))
    recall._follower._reader.read = lambda *_: ()
    with pytest.raises(TransportStalledError, match="nothing came for 20 s"):
        recall.records(CONTROL)
    assert [one.value() for one in recall.records(CONTROL)] == [b"v"]


def led_and_killed(kafka: MemoryKafka) -> None:
    """Have the node led by a worker that dies between a write and its commit."""
    kafka.admin().create(node_topics(TOPOLOGY, "a"))
    recall = Recall(kafka, [], lambda: 0)
    taking = take_control(TOPOLOGY, "a", kafka, "id-of-k", recall, lambda: "uuid-of-a")
    try:
        while True:
            next(taking)
    except StopIteration as end:
        led = end.value
    led.writer.begin()
    led.writer.produce(CONTROL.topic, b"{}", b"heartbeat", 0)


def test_a_leader_that_was_killed_while_it_wrote_holds_nobody_up() -> None:
    """Its transaction would be open until brokers end it, some 25 s later. Spec: K16."""
    kafka = MemoryKafka("k")
    led_and_killed(kafka)
    leadership = standby(kafka, looks=0)
    assert list(leadership.follow(is_due=False, now_ms=0)) == []
    assert leadership.uuid == "uuid-of-a"


def test_who_cannot_ask_who_the_node_is_says_so_and_asks_again(said: Said) -> None:
    """It is no leader, and nobody but the brokers can tell it. Spec: K16."""
    kafka = MemoryKafka("k")
    led_and_killed(kafka)
    leadership = standby(kafka, looks=0)
    kafka.available = False
    list(leadership.follow(is_due=False, now_ms=0))
    [told] = said.of("leader.not_told")
    assert (told["log_level"], told["about"]) == ("warning", "who")
    assert "Kafka cluster k" in told["fault"]
    kafka.available = True
    list(leadership.follow(is_due=False, now_ms=RETRY_MS))
    assert leadership.uuid == "uuid-of-a"


def test_the_loop_goes_on_while_it_is_asked_who_the_node_is() -> None:
    """And a question that nobody needs any more is not left open."""
    kafka = MemoryKafka("k")
    led_and_killed(kafka)
    leadership = standby(kafka, looks=3)
    list(leadership.follow(is_due=False, now_ms=0))
    assert leadership.uuid is None
    for now_ms in range(1, RETRY_MS):
        list(leadership.follow(is_due=False, now_ms=now_ms))
    assert leadership.uuid == "uuid-of-a"
    assert not leadership.questions.are_open
    hasty = standby(kafka, looks=3)
    list(hasty.follow(is_due=False, now_ms=0))
    assert hasty.questions.are_open
    list(hasty.follow(is_due=True, now_ms=1))
    assert not hasty.questions.are_open
