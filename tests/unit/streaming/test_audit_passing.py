"""Whether every hop has passed: positions, never time alone. Spec: K30."""

from __future__ import annotations

import pytest

from mesh.model.state import Progress, ProgressKind
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.names import Names
from streaming.audits.passing import Now, Passing, Ticket
from streaming.tables.rows import SourceKey, TopicPartition

INGRESS = TopicPartition("mesh.a.in.g", 0)
FIRST = TopicPartition("mesh.a.to.b.g", 0)
SECOND = TopicPartition("mesh.b.to.c.g", 0)


def names() -> Names:
    topics = {
        f"{number:032x}": place.topic for number, place in enumerate((INGRESS, FIRST, SECOND))
    }
    return Names(topics=topics, ids={topic: key for key, topic in topics.items()})


KEYS = {place: names().key(place) for place in (INGRESS, FIRST, SECOND)}
HEADS = {
    ChainKey(FIRST, KEYS[INGRESS]): ChainHead(last=9, offset=2),
    ChainKey(SECOND, KEYS[FIRST]): ChainHead(last=2, offset=7),
}


class Walk:
    """A ticket followed step by step, 4 s and one batch a step."""

    def __init__(self, bound: int = 9) -> None:
        self.passing = Passing("mesh.")
        self.heads = dict(HEADS)
        self.ticket: Ticket = self.passing.open(INGRESS, bound)
        self.at_s = 100.0
        self.batch = 1

    def position(self, node: str, place: TopicPartition, offset: int) -> None:
        record = Progress(
            kind=ProgressKind.SOURCE, offset=offset, topic=place.topic, partition=place.partition
        )
        self.passing.read(node, record)

    def chain(
        self,
        kind: ProgressKind,
        place: TopicPartition,
        source: SourceKey,
        last: int,
        ahead: int = 0,
    ) -> None:
        record = Progress(
            kind=kind,
            offset=last,
            topic=place.topic,
            partition=place.partition,
            topic_id=bytes.fromhex(source.topic_id),
            source_partition=source.partition,
            ahead=ahead,
        )
        self.passing.read("n", record)

    def go(self, steps: int = 8, *, seconds: float = 4.0) -> bool:
        for _ in range(steps):
            self.at_s += seconds
            self.batch += 1
            now = Now(self.at_s, self.batch, is_idle=False)
            self.passing.advance(self.ticket, self.heads, names(), now)
        return self.ticket.is_done


@pytest.fixture
def walk() -> Walk:
    return Walk()


def test_every_reader_on_the_way_must_pass_the_frames_that_came_of_the_messages(walk):
    walk.position("a", INGRESS, 9)
    assert not walk.go()
    assert walk.passing.where(walk.ticket) == "a at mesh.a.in.g/0: read up to 9 of 10"
    walk.position("a", INGRESS, 10)
    assert not walk.go()
    assert walk.passing.where(walk.ticket) == "b at mesh.a.to.b.g/0: read up to 0 of 3"
    walk.position("b", FIRST, 3)
    assert not walk.go()
    walk.position("c", SECOND, 8)
    assert walk.go()


def test_time_alone_never_passes_a_hop(walk):
    walk.position("a", INGRESS, 10)
    assert not walk.go(50, seconds=1000.0)


def test_a_hop_settles_only_after_a_while_and_another_batch(walk):
    """The markers of one transaction reach its topics one after another."""
    walk.position("a", INGRESS, 10)
    walk.heads = {}
    assert not walk.go(1)
    assert not walk.go(1, seconds=1.0)
    assert walk.go(1)


def test_messages_that_a_gap_holds_back_have_not_passed(walk):
    """K11: the receiver reads on, but accepts nothing of that source."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.chain(ProgressKind.ACCEPTED, FIRST, KEYS[INGRESS], 5)
    assert not walk.go()
    walk.chain(ProgressKind.ACCEPTED, FIRST, KEYS[INGRESS], 9)
    assert walk.go()


def test_frames_that_were_sent_must_have_been_read(walk):
    """Else a later frame of the batch could be overlooked; a lie is believed for 30 s only."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.chain(ProgressKind.SENT, FIRST, KEYS[INGRESS], 12)
    assert not walk.go(3)
    assert walk.go(20)


def test_the_target_of_a_hop_stays_where_it_was_seen_first(walk):
    """Else a busy stream would never be judged."""
    walk.position("a", INGRESS, 10)
    walk.go(3)
    walk.heads[ChainKey(FIRST, KEYS[INGRESS])] = ChainHead(last=99, offset=50)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    assert walk.go()


def test_what_a_node_holds_for_a_target_has_not_passed_it(walk):
    """K20: until it says that the target has been caught up with."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.chain(ProgressKind.HELD, SECOND, KEYS[FIRST], 4)
    assert not walk.go()
    assert walk.passing.where(walk.ticket).endswith("holds what is for mesh.b.to.c.g/0")
    walk.chain(ProgressKind.HELD, SECOND, KEYS[FIRST], -1)
    assert walk.go()


def test_the_end_of_a_hold_that_is_read_late_ends_no_later_one(walk):
    """K20: the catch-up tells of it in another partition than the lane."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    for number, offset in ((1, 4), (2, 4), (1, -1)):
        walk.chain(ProgressKind.HELD, SECOND, KEYS[FIRST], offset, number)
    assert not walk.go()
    walk.chain(ProgressKind.HELD, SECOND, KEYS[FIRST], -1, 2)
    assert walk.go()
