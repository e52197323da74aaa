"""A member of a group begins what it was given where the group says, and waits for no answer.

Brokers give none while a transaction that moves the group on is open: a predecessor's may be for
half a minute. Spec: DESIGN 4.2.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import TopicPartition as Place

from mesh.transport.kafka import consumer as kafka_consumer
from mesh.transport.kafka.consumer import KafkaConsumer
from mesh.transport.kafka.faults import Site
from mesh.transport.kafka.health import Begins, StallDetector
from mesh.transport.kafka.unpacking import PackedBatches
from mesh.transport.port import Passed, TopicPartition

WITHIN_S = 20.0


class Group:
    """The client library's consumer: what it is given, and what the group answers, a test says."""

    def __init__(self, settings: object) -> None:
        self.gate, self.offset = threading.Event(), 5
        self.given: list[list[Place]] = [[Place("t", 0)]]
        self.assigned: list[tuple[int, int]] = []
        self.askers: list[threading.Thread] = []
        self.is_asked = self.is_closed = self.was_asked_when_closed = False

    def subscribe(self, topics: Sequence[str], **calls: Callable[..., None]) -> None:
        self.calls = calls

    def poll(self, timeout_s: float) -> None:
        if self.given:
            self.calls["on_assign"](self, self.given.pop(0))

    def committed(self, places: Sequence[Place], timeout: float) -> list[Place]:
        self.askers.append(threading.current_thread())
        self.is_asked = True
        self.gate.wait(WITHIN_S / 2)
        self.is_asked = False
        return [Place(one.topic, one.partition, self.offset) for one in places]

    def assign(self, places: Sequence[Place]) -> None:
        self.assigned = [(one.partition, one.offset) for one in places]

    def unassign(self) -> None:
        self.assigned = []

    def close(self) -> None:
        self.is_closed, self.was_asked_when_closed = True, self.is_asked


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> KafkaConsumer:
    monkeypatch.setattr(kafka_consumer, "Consumer", Group)
    stalls = StallDetector(lambda places: {})  # nobody knows an end: nothing stalls
    begins = Begins(lambda places: {})
    packed = PackedBatches(lambda at, offset, is_closed: offset)
    asking = (stalls, begins, packed, lambda at, epoch, below: below)
    return KafkaConsumer(Site("k", "nowhere.test:1"), "mover", "t", {}, "t", *asking)


def group_of(member: KafkaConsumer) -> Group:
    group = member._consumer
    assert isinstance(group, Group)
    return group


def until(member: KafkaConsumer, timeout_s: float, condition: Callable[[], bool]) -> None:
    """Read until a condition holds."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        assert not member.read(timeout_s, 10)


def test_who_reads_waits_for_no_answer(member: KafkaConsumer) -> None:
    """It asks once, and goes on with what else it has to do."""
    group = group_of(member)
    until(member, 0.0, lambda: group.is_asked)
    for _ in range(100):
        assert not member.read(0.0, 10)
    assert (len(group.askers), group.askers[0] is threading.current_thread()) == (1, False)
    assert (group.assigned, member.owned()) == ([], {})
    group.gate.set()
    until(member, 0.0, lambda: bool(member.owned()))
    assert member.owned() == {TopicPartition("t", 0): Passed(5)}
    assert group.assigned == [(0, 5)]
    member.close()


def test_who_has_nothing_else_to_do_waits_for_it(member: KafkaConsumer) -> None:
    """As long as it would have waited for records: it does not ask in vain all the time."""
    group = group_of(member)
    group.gate.set()
    until(member, WITHIN_S, lambda: bool(member.owned()))
    assert (len(group.askers), group.assigned) == (1, [(0, 5)])
    member.close()


def test_an_answer_for_what_was_taken_back_counts_for_nothing(member: KafkaConsumer) -> None:
    """Meanwhile somebody else may have come further with it."""
    group = group_of(member)
    until(member, 0.0, lambda: group.is_asked)
    group.calls["on_revoke"](group, [Place("t", 0)])
    group.given.append([Place("t", 0), Place("t", 1)])
    member.read(0.0, 10)
    group.gate.set()
    until(member, 0.0, lambda: not group.is_asked)
    group.offset = 9
    until(member, 0.0, lambda: bool(member.owned()))
    assert group.assigned == [(0, 9), (1, 9)]
    member.close()


def test_a_member_leaves_when_nothing_is_asked_in_its_name(member: KafkaConsumer) -> None:
    """The client library must not be closed under a question."""
    group = group_of(member)
    until(member, 0.0, lambda: group.is_asked)
    leaving = threading.Thread(target=member.close)
    leaving.start()
    assert not group.is_closed
    group.gate.set()
    leaving.join(WITHIN_S)
    assert (group.is_closed, group.was_asked_when_closed) == (True, False)


@pytest.mark.parametrize(("part", "call"), [("_packed", "close"), ("_beside", "shutdown")])
def test_a_member_whose_end_ctrl_c_interrupts_leaves_all_the_same(
    member: KafkaConsumer, monkeypatch: pytest.MonkeyPatch, part: str, call: str
) -> None:
    """It would keep its partitions from all others until the group takes it for dead."""
    group = group_of(member)
    member.read(0.05, 10)
    ending = getattr(member, part)
    ends = getattr(ending, call)

    def is_interrupted() -> None:
        monkeypatch.setattr(ending, call, ends)
        threading.Timer(0.1, group.gate.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(ending, call, is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        member.close()
    assert (group.is_closed, group.was_asked_when_closed) == (True, False)
