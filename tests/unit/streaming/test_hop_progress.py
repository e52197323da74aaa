"""Whether every hop has passed: positions, never time alone. Spec: K30."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.facts import Accepted, Gap, Held, SourceAt
from mesh.model.frames import SourcePartition
from mesh.model.frames import TopicPartition as Place
from mesh.wire.keys import fact_key
from streaming.audits.block import Block
from streaming.audits.chains import ChainHead, ChainKey, Chains
from streaming.audits.holds import OpenHolds
from streaming.audits.hop_progress import HopProgress
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.audits.tickets import EVERYONE, Sight, Ticket
from streaming.tables.rows import FramePlace, FrameRow, SourceKey, TopicPartition

INGRESS = TopicPartition("mesh.a.in.g", 0)
FIRST = TopicPartition("mesh.a.to.b.g", 0)
SECOND = TopicPartition("mesh.b.to.c.g", 0)


def names() -> Names:
    topics = {
        f"{number:032x}": place.topic for number, place in enumerate((INGRESS, FIRST, SECOND))
    }
    return Names(topics=topics, ids={topic: key for key, topic in topics.items()})


def identity(source: SourceKey) -> SourcePartition:
    return SourcePartition(bytes.fromhex(source.topic_id), source.partition)


KEYS = {place: names().key(place) for place in (INGRESS, FIRST, SECOND)}
HEADS = {
    ChainKey(FIRST, KEYS[INGRESS]): ChainHead(last=9, offset=2),
    ChainKey(SECOND, KEYS[FIRST]): ChainHead(last=2, offset=7),
}


class Walk:
    """A ticket followed judgement by judgement; all that brokers have has been read."""

    def __init__(self, bound: int = 9, node: str = EVERYONE) -> None:
        self.progress = HopProgress("mesh.", OpenHolds("mesh."))
        self.heads = dict(HEADS)
        self.ticket: Ticket = self.progress.open(INGRESS, bound, node)
        self.read: dict[TopicPartition, int] = {}
        self.ends: dict[str, dict[TopicPartition, int] | None] = {}
        self.names = names()
        self.left: list[TopicPartition] = []

    def position(self, node: str, place: TopicPartition, offset: int) -> None:
        self.progress.read(node, SourceAt(Place(*place), b"", offset))

    def accept(self, place: TopicPartition, source: SourceKey, last: int) -> None:
        self.progress.read("n", Accepted(Place(*place), identity(source), last))

    def hold(
        self, place: TopicPartition, source: SourceKey, offset: int, *, is_beside: bool = False
    ) -> None:
        fact = Held(Place(*place), identity(source), 1, offset)
        self.progress.read("n", fact, is_beside=is_beside)

    @staticmethod
    def leads(trail: tuple[str, ...], here: str, node: str) -> bool:
        """Return whether a chain a-b-c leads from one node to another."""
        return here == node or (here < node and not any(here < one < node for one in trail))

    def where(self) -> str:
        return self.progress.where(self.ticket, self.read)

    def go(self, times: int = 1) -> bool:
        sight = Sight(
            *(self.heads, self.names, self.read),
            *(lambda node: self.ends.get(node, {}), self.leads),
            lambda outbox, _: outbox in self.left,
        )
        for _ in range(times):
            self.progress.advance(self.ticket, sight)
        return self.ticket.is_done


@pytest.fixture
def walk() -> Walk:
    return Walk()


def test_every_reader_on_the_way_must_pass_the_frames_that_came_of_the_messages(walk):
    walk.position("a", INGRESS, 9)
    assert not walk.go()
    assert walk.where() == "a at mesh.a.in.g/0: read up to 9 of 10"
    walk.position("a", INGRESS, 10)
    assert not walk.go()
    assert walk.where() == "b at mesh.a.to.b.g/0: read up to 0 of 3"
    walk.position("b", FIRST, 3)
    assert not walk.go()
    walk.position("c", SECOND, 8)
    assert walk.go()


def test_time_alone_never_passes_a_hop(walk):
    walk.position("a", INGRESS, 10)
    assert not walk.go(50)


ENDPOINT = TopicPartition("mesh.c.ep.s1", 0)


def test_what_a_node_had_written_when_it_passed_must_have_been_read(walk):
    """Its positions and its copies become visible one after another, and are read in any order."""
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
    walk.ends["c"] = {ENDPOINT: 7}
    walk.read[ENDPOINT] = 6
    assert not walk.go(20)
    assert walk.where() == "what c wrote to be read: mesh.c.ep.s1/0 up to 6 of 7"
    walk.ends["c"] = {ENDPOINT: 90}  # what is written later is of other messages
    assert not walk.go(20)
    walk.read[ENDPOINT] = 7
    assert walk.go()


def test_nobody_waits_for_a_topic_that_was_deleted(walk):
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
    walk.ends["c"] = {ENDPOINT: 7}
    assert not walk.go()
    walk.ends["c"] = {}
    assert walk.go()


def test_a_kafka_cluster_that_does_not_answer_keeps_a_hop_open(walk):
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
    walk.ends["b"] = None
    assert not walk.go(20)
    assert walk.where() == "the Kafka cluster of b to answer"
    walk.ends["b"] = {}
    assert walk.go()


def test_what_waits_behind_an_outbox_that_was_recreated_is_followed(walk):
    """b has read it and c has not: all that was on its way used to be missing."""
    walk.position("a", INGRESS, 10)
    walk.accept(FIRST, KEYS[INGRESS], 9)
    walk.position("b", FIRST, 0)
    walk.names.ids[FIRST.topic] = "ff" * 16
    walk.names.topics["ff" * 16] = FIRST.topic
    chains = Chains("mesh.", walk.heads, {FIRST: 0})
    chains.forget_recreated(FIRST)
    assert not walk.go()
    assert walk.where() == "c at mesh.b.to.c.g/0: read up to 0 of 8"
    walk.position("c", SECOND, 8)
    assert walk.go()


def test_what_was_lost_with_an_outbox_is_waited_for_until_it_is_sent_again(walk):
    """K11: its reader has not accepted it, and asks for it."""
    walk.position("a", INGRESS, 10)
    walk.accept(FIRST, KEYS[INGRESS], 5)
    Chains("mesh.", walk.heads, {FIRST: 0}).forget_recreated(FIRST)
    assert not walk.go()
    assert walk.where().endswith("has not accepted all up to 9, a gap is repaired")


def test_for_whom_a_hop_cannot_lead_to_it_has_passed():
    """What b gets is judged, whatever becomes of c behind it."""
    walk = Walk(node="b")
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 2)
    assert not walk.go()
    walk.position("b", FIRST, 3)
    assert walk.go()


def test_frames_that_go_round_end_a_ticket_all_the_same(walk):
    """A loop is a finding of its own, and the messages in it are judged."""
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
    back = TopicPartition("mesh.c.to.b.g", 0)
    walk.heads[ChainKey(back, KEYS[SECOND])] = ChainHead(last=7, offset=0)
    walk.heads[ChainKey(SECOND, SourceKey("", 0))] = ChainHead(last=7, offset=7)
    walk.position("b", back, 1)
    assert walk.go()


def test_messages_that_a_gap_holds_back_have_not_passed(walk):
    """K11: the receiver reads on, but accepts nothing of that source."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.accept(FIRST, KEYS[INGRESS], 5)
    assert not walk.go()
    walk.accept(FIRST, KEYS[INGRESS], 9)
    assert walk.go()


def test_a_chain_of_which_the_beginning_vanished_has_not_passed(walk):
    """K11: nothing of it was ever accepted, so its messages used to be missing meanwhile."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    gap = Gap(Place(*FIRST), identity(KEYS[INGRESS]), -1, 1, is_open=True)
    walk.progress.read("b", gap)
    assert not walk.go()
    assert walk.where().endswith("has not accepted all up to 9, a gap is repaired")
    walk.accept(FIRST, KEYS[INGRESS], 9)
    walk.progress.read("b", replace(gap, is_open=False))
    assert walk.go()


def test_a_frame_of_what_its_sender_has_never_read_keeps_no_hop_open(walk):
    """A stranger's: its reader asked for a repair, got what there was, and accepts no more.

    Whoever lacked something behind that hop used to wait for ever for the gap to be repaired.
    """
    walk.heads[ChainKey(FIRST, KEYS[INGRESS])] = ChainHead(last=10**9, offset=2)
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
    walk.accept(FIRST, KEYS[INGRESS], 9)
    gap = Gap(Place(*FIRST), identity(KEYS[INGRESS]), 9, 1, is_open=True)
    walk.progress.read("b", gap)
    assert not walk.go()
    walk.progress.read("b", replace(gap, is_open=False))
    assert walk.go()


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
    walk.hold(SECOND, KEYS[FIRST], 4)
    assert not walk.go()
    assert walk.where().endswith("holds what is for mesh.b.to.c.g/0")
    walk.hold(SECOND, KEYS[FIRST], -1)
    assert walk.go()


SHORT = TopicPartition("mesh.b.ep.short", 3)
LONG = TopicPartition("mesh.b.ep.long", 0)


@pytest.mark.parametrize("node", ["b", "c", EVERYONE])
def test_what_a_node_holds_for_an_endpoint_keeps_no_others_waiting(node: str) -> None:
    """One topic of too few partitions, and no loss was told any more of any endpoint of b."""
    walk = Walk(node=node)
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.hold(SHORT, KEYS[FIRST], 1)
    assert walk.go()
    # To the endpoint itself it is not through, wherever else there may be one of that name.
    assert list(walk.ticket.left_out) == ["short"] * (node != "c")


@pytest.mark.parametrize("node", ["b", EVERYONE])
def test_what_is_held_is_followed_until_all_that_its_catch_up_wrote_has_been_read(
    node: str,
) -> None:
    walk = Walk(node=node)
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.ends["b"] = {SHORT: 5}
    walk.read[SHORT] = 5
    walk.hold(SHORT, KEYS[FIRST], 1)
    walk.ticket = walk.progress.open(INGRESS, 9, node, "short")
    assert not walk.go(3)
    assert walk.where().endswith("holds what is for mesh.b.ep.short/3")
    walk.ends["b"] = {SHORT: 9}
    walk.hold(SHORT, KEYS[FIRST], -1)
    assert not walk.go(2)
    walk.read[SHORT] = 9
    assert walk.go()
    assert walk.ticket.left_out == {}


def test_a_hold_that_is_read_after_its_position_waits_for_what_its_catch_up_writes() -> None:
    """Both are of one transaction, but one batch of the auditor may end between them."""
    walk = Walk(node="b")
    other = TopicPartition("mesh.b.ledger", 0)
    walk.ends["b"] = {other: 1}
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.ticket.alone = "short"
    assert not walk.go()
    walk.hold(SHORT, KEYS[FIRST], 1)
    assert not walk.go()
    walk.ends["b"] = {other: 1, SHORT: 9}
    walk.read[other] = 1
    walk.hold(SHORT, KEYS[FIRST], -1)
    assert not walk.go()
    walk.read[SHORT] = 9
    assert walk.go()


def test_an_endpoint_that_was_held_when_all_had_passed_is_followed_anew() -> None:
    walk, block = Walk(node="b"), Block(last=9)
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.hold(SHORT, KEYS[FIRST], 1)
    assert walk.go()
    block.tickets.append(walk.ticket)
    assert block.ticket_of(EndpointKey("b", "s1")) is walk.ticket
    assert block.ticket_of(EndpointKey("b", "Short")) is None
    alone = walk.progress.open(INGRESS, 9, "b", "short")
    block.tickets.append(alone)
    assert block.ticket_of(EndpointKey("b", "Short")) is alone
    assert block.ticket_of(EndpointKey("b", "s1")) is walk.ticket


@pytest.mark.parametrize("node", ["b", "c", EVERYONE])
def test_other_endpoints_do_not_wait_until_what_one_that_is_held_got_is_read(node: str) -> None:
    """What its catch-up writes may be in a transaction that stays open for as long as it is held.

    All endpoints of its node used to wait for that, and of the nodes behind it.
    """
    walk = Walk(node=node)
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.hold(SHORT, KEYS[FIRST], 1)
    walk.ends["b"] = {SHORT: 9, LONG: 4}
    walk.read = {SHORT: 5, LONG: 3}
    assert not walk.go(3), "what the other one got is awaited"
    assert walk.where() == "what b wrote to be read: mesh.b.ep.long/0 up to 3 of 4"
    walk.read[LONG] = 4
    assert walk.go()
    assert list(walk.ticket.left_out) == ["short"] * (node != "c")


class Counted(dict[TopicPartition, int]):
    """How far partitions are read, and how often somebody has looked."""

    looks = 0

    def get(self, place: TopicPartition, default: int = 0) -> int:  # type: ignore[override]
        self.looks += 1
        return super().get(place, default)


def test_many_tickets_do_not_each_look_at_all_that_is_unread() -> None:
    """An auditor that is behind has thousands of both, and would fall back further."""
    walk, places, tickets = Walk(node="b"), 200, 50
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.ends["b"] = {TopicPartition(f"mesh.b.ep.e{n}", 0): 5 for n in range(places)}
    walk.read = read = Counted()
    sight = Sight(*(walk.heads, walk.names, read), lambda node: walk.ends.get(node, {}), walk.leads)
    for _ in range(tickets):
        ticket = walk.progress.open(INGRESS, 9, "b")
        for _ in range(3):
            walk.progress.advance(ticket, sight)
        assert not ticket.is_done
    assert read.looks < places * tickets / 5


def test_an_endpoint_whose_hold_ends_before_all_has_passed_is_followed_anew() -> None:
    """Its node had passed ahead of another one, and what it had got was not awaited."""
    walk = Walk(node="b")
    walk.position("a", INGRESS, 9)
    walk.position("b", FIRST, 3)
    walk.hold(SHORT, KEYS[FIRST], 1)
    walk.ends["b"] = {SHORT: 9}
    walk.read = {SHORT: 5}
    assert not walk.go()
    walk.hold(SHORT, KEYS[FIRST], -1)
    walk.position("a", INGRESS, 10)
    assert walk.go()
    assert list(walk.ticket.left_out) == ["short"]


def test_a_catch_up_begins_and_ends_no_hold(walk):
    """K20: it tells how far it has written. Its word stays when the target is gone, for good."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.hold(SECOND, KEYS[FIRST], 4)
    walk.hold(SECOND, KEYS[FIRST], 6, is_beside=True)
    assert not walk.go()
    walk.hold(SECOND, KEYS[FIRST], -1)
    walk.hold(SECOND, KEYS[FIRST], 6, is_beside=True)
    assert walk.go()


def test_a_hold_ends_with_what_its_lane_keeps_of_it(walk):
    """The end itself may have been compacted before it was read."""
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3)
    walk.position("c", SECOND, 8)
    walk.hold(SECOND, KEYS[FIRST], 4)
    walk.progress.holds.forget("b", "held x")
    assert not walk.go()
    key = fact_key(Held(Place(*SECOND), identity(KEYS[FIRST]), 1, 4).key)
    walk.progress.holds.forget("c", key.decode())
    assert not walk.go(), "another node says so"
    walk.progress.holds.forget("b", key.decode())
    assert walk.go()


@pytest.mark.parametrize("has_read", [False, True], ids=["died before", "read it"])
def test_a_hop_whose_link_was_removed_keeps_nobody_waiting(walk, *, has_read: bool) -> None:
    """b was given up, and its Kafka cluster is gone; what b has sent on to c is followed.

    Every message of a used to wait for b from then on, and no loss of them was told.
    """
    walk.position("a", INGRESS, 10)
    walk.position("b", FIRST, 3 * has_read)
    walk.ends["b"] = None
    assert not walk.go()
    walk.left = [FIRST]
    assert not walk.go()
    assert walk.where() == "c at mesh.b.to.c.g/0: read up to 0 of 8"
    walk.left = [FIRST, SECOND]
    assert walk.go()


def frame(place: TopicPartition, offset: int, first: int, last: int) -> FrameRow:
    """Return a frame of messages of the ingress, that is also where its sender had them from."""
    stands = FramePlace(offset, first - 1, first, last)
    return FrameRow(
        place=place,
        is_repair=False,
        kind="data",
        zone="Z",
        path=("a",),
        chain=KEYS[INGRESS],
        source=KEYS[INGRESS],
        generation=0,
        frames=1,
        messages=last - first + 1,
        first=first,
        last=last,
        head=stands,
        tail=stands,
        broken=(),
        late=0,
    )


def all_passed(walk: Walk) -> None:
    """Have all nodes passed, and what they have written not been read yet."""
    for node, place, offset in (("a", INGRESS, 10), ("b", FIRST, 3), ("c", SECOND, 8)):
        walk.position(node, place, offset)
        walk.ends[node] = {TopicPartition(f"mesh.{node}.ledger", 0): 5}
    assert not walk.go()


def read_up_to(walk: Walk, offset: int) -> None:
    for node in "abc":
        walk.read[TopicPartition(f"mesh.{node}.ledger", 0)] = offset


def test_one_batch_takes_a_ticket_over_all_hops_that_had_passed(walk):
    """What they wrote by then is waited for together, not hop by hop."""
    all_passed(walk)
    for node in "abc":  # the mesh lives
        walk.ends[node] = {TopicPartition(f"mesh.{node}.ledger", 0): 9}
    read_up_to(walk, 5)
    assert walk.go()


def test_a_hop_ahead_must_pass_frames_of_old_messages_that_come_later(walk):
    all_passed(walk)
    walk.position("a", INGRESS, 13)
    walk.ticket.carry(frame(FIRST, 4, first=9, last=12))
    read_up_to(walk, 5)
    assert not walk.go()
    assert walk.where() == "b at mesh.a.to.b.g/0: read up to 3 of 5"
    walk.position("b", FIRST, 5)
    walk.accept(FIRST, KEYS[INGRESS], 11)
    assert not walk.go()
    walk.accept(FIRST, KEYS[INGRESS], 12)
    assert walk.go()


def test_a_hop_ahead_need_not_pass_frames_of_messages_that_were_published_later(walk):
    """Else a busy stream would never be judged."""
    all_passed(walk)
    walk.ticket.carry(frame(FIRST, 4, first=10, last=12))
    read_up_to(walk, 5)
    assert walk.go()


def test_what_a_hop_ahead_wrote_of_a_late_frame_is_waited_for_anew(walk):
    all_passed(walk)
    walk.ticket.carry(frame(FIRST, 4, first=9, last=9))
    walk.position("b", FIRST, 5)
    walk.ends["b"] = {TopicPartition("mesh.b.ledger", 0): 8}
    read_up_to(walk, 5)
    assert not walk.go()
    assert walk.where() == "what b wrote to be read: mesh.b.ledger/0 up to 5 of 8"
    read_up_to(walk, 8)
    assert walk.go()
