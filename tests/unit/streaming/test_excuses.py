"""Marks of the mesh that excuse a second copy are believed for a reason only. Spec: K11, K20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mesh.model.control import EndpointKind, Subscription
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.wire.keys import RepairKey
from streaming.audits.excuses import EXCUSE_WAIT_S, Excuses
from streaming.audits.finding_register import Finding
from streaming.audits.generations import Generations
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.names import Names
from streaming.job.intake import take_batch
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    DeliveryRow,
    FramePlace,
    FrameRow,
    MicroBatch,
    SmallRow,
    SourceKey,
    TopicPartition,
)
from tests.streaming.planted import chain_topology

SOURCE = SourceKey("ab" * 16, 1)
OUTBOX = TopicPartition("mesh.a.to.b.g", 2)
NAMES = Names(topics={"ab" * 16: "mesh.a.in.g"})


def frame(*, path: tuple[str, ...] = ("a",), repair: bool = False, moved: bool = False) -> FrameRow:
    place = FramePlace(7, 2, 3, 5)
    return FrameRow(
        place=OUTBOX,
        is_repair=repair,
        kind="data",
        zone="Z",
        path=path,
        chain=SOURCE,
        source=SOURCE,
        generation=0,
        frames=1,
        messages=3,
        first=3,
        last=5,
        head=place,
        tail=place,
        broken=(),
        late=0,
        is_moved=moved,
    )


def delivery(*, moved: bool = True) -> DeliveryRow:
    return DeliveryRow(
        place=TopicPartition("mesh.b.ep.q", 0),
        source=SOURCE,
        generation=0,
        path=("a", "b"),
        block=0,
        digest=Digest(1, 2, 3, 4, 5),
        first=3,
        last=3,
        record_first=0,
        record_last=0,
        late=0,
        is_moved=moved,
    )


def absorbed(
    excuses: Excuses,
    frames: Sequence[FrameRow],
    deliveries: Sequence[DeliveryRow],
    names: Names,
    now_s: float,
    interest: SubscriptionHistory | None = None,
    generations: Generations | None = None,
) -> list[Finding]:
    """Return what there is no room for; by default nobody is known to have asked for anything."""
    told = interest or SubscriptionHistory(), generations or Generations(), names
    return [*excuses.absorb(frames, deliveries, *told, now_s)]


def judged(
    excuses: Excuses,
    interest: SubscriptionHistory,
    now_s: float = 200.0,
    generations: Generations | None = None,
) -> list[tuple[str, str, int]]:
    return [
        (one.kind.value, one.link or one.endpoint, one.count)
        for one in excuses.judge(interest, generations or Generations(), NAMES, now_s)
    ]


def test_a_repair_that_nobody_asked_for_is_a_duplicate() -> None:
    """Everything sent three times with the flag used to be no finding."""
    excuses = Excuses("mesh.")
    for _ in range(3):
        assert not absorbed(excuses, [frame(repair=True)], [], NAMES, 100.0)
    assert judged(excuses, SubscriptionHistory(), 100.0 + EXCUSE_WAIT_S - 1) == []
    assert judged(excuses, SubscriptionHistory()) == [("duplicate", "a->b", 9)]
    assert judged(excuses, SubscriptionHistory()) == []


@pytest.mark.parametrize("is_early", [True, False])
def test_one_that_was_asked_for_is_none_also_if_the_request_is_read_late(is_early: bool) -> None:
    excuses = Excuses("mesh.")
    key = RepairKey(bytes.fromhex("ab" * 16), 1, 2, MessageClass.GUARANTEED)
    if is_early:
        excuses.ask("b", "a", key)
    assert not absorbed(excuses, [frame(repair=True)], [], NAMES, 100.0)
    excuses.ask("b", "a", key)
    assert judged(excuses, SubscriptionHistory()) == []


def test_a_request_of_another_link_or_source_excuses_nothing() -> None:
    excuses = Excuses("mesh.")
    for topic, partition, outbox, reader in (
        ("cd", 1, 2, "b"),
        ("ab", 1, 3, "b"),
        ("ab", 1, 2, "c"),
    ):
        key = RepairKey(bytes.fromhex(topic * 16), partition, outbox, MessageClass.GUARANTEED)
        excuses.ask(reader, "a", key)
    assert not absorbed(excuses, [frame(repair=True)], [], NAMES, 100.0)
    assert judged(excuses, SubscriptionHistory()) == [("duplicate", "a->b", 3)]


def test_who_asks_for_repairs_without_end_makes_nothing_grow_and_hides_nothing(monkeypatch) -> None:
    """Whoever may write to a node's `.c` names sources as it likes; each was known for ever."""
    monkeypatch.setattr("streaming.audits.excuses.ASKED_MAX", 5)
    excuses = Excuses("mesh.")
    true = RepairKey(bytes.fromhex("ab" * 16), 1, 2, MessageClass.GUARANTEED)
    for number in range(20):
        key = RepairKey(number.to_bytes(16, "big"), 1, 2, MessageClass.GUARANTEED)
        excuses.ask("b", "a", key)
        excuses.ask("b", "a", true)
        excuses.ask("c", "a", key)
    assert [len(chains) for chains in excuses.asked.values()] == [5, 5]
    assert not absorbed(excuses, [frame(repair=True)], [], NAMES, 100.0)
    assert judged(excuses, SubscriptionHistory()) == []


def test_marks_without_end_are_held_up_to_a_number_and_others_are_reported(monkeypatch) -> None:
    """While a Kafka cluster is not read nothing is judged: all of it was held, then left out."""
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 5)
    excuses, findings = Excuses("mesh."), []
    for number in range(20):
        again = delivery(moved=False)._replace(generation=number + 1, message_class="direct")
        moved = frame(path=(f"n{number}",), moved=True)
        repair = replace(frame(repair=True), chain=SourceKey("ab" * 16, number))
        findings += absorbed(excuses, [moved, repair], [again], NAMES, 100.0)
    assert {(one.kind, one.link or one.endpoint, one.node) for one in findings} == {
        (FindingKind.UNPROVEN, "a->b", "a"),
        (FindingKind.UNPROVEN, "b/q", "b"),
    }
    assert (len(findings), len({one.id for one in findings})) == (45, 2)
    assert len(excuses.again) == len(excuses.moved) == len(excuses.unasked) == 5
    assert len(judged(excuses, SubscriptionHistory())) == 15
    assert not absorbed(excuses, [frame(path=("x",), moved=True)], [], NAMES, 300.0)
    assert len(judged(excuses, SubscriptionHistory(), 400.0)) == 1
    assert len(excuses.known) == 5


def test_marks_that_are_known_to_be_true_take_no_room(monkeypatch) -> None:
    """Whoever begins to audit reads at once what came and what excuses it."""
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 0)
    excuses, interest, generations = Excuses("mesh."), SubscriptionHistory(), Generations()
    asked = Subscription(kind=EndpointKind.QUEUE, policy="any")
    for node in ("b", "c"):
        interest.subscribe(EndpointKey(node, "q"), "acme/>", asked, 0)
    generations.tell(SOURCE, 1)
    frames = [frame(path=("c",), moved=True), replace(frame(), generation=1)]
    direct = delivery(moved=False)._replace(generation=1, message_class="direct")
    told = frames, [delivery(), direct], NAMES, 100.0, interest, generations
    assert not absorbed(excuses, *told)
    assert judged(excuses, interest, generations=generations) == []


def test_marks_that_turn_out_to_be_true_make_room_before_all_is_read(monkeypatch) -> None:
    """Nothing is judged as long as the auditor lags, and its first batches may go on for long."""
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 1)
    excuses, generations = Excuses("mesh."), Generations()
    for partition in (1, 2):
        source = SOURCE._replace(partition=partition)
        repair = replace(frame(repair=True), chain=source)
        again = replace(frame(), source=source, generation=1)
        assert not absorbed(excuses, [repair, again], [], NAMES, 100.0, None, generations)
        key = RepairKey(bytes.fromhex("ab" * 16), partition, 2, MessageClass.GUARANTEED)
        excuses.ask("b", "a", key)
        generations.tell(source, 1)
        excuses.excuse(generations)
        assert not excuses.unasked
        assert not excuses.again


def test_a_generation_takes_room_once_wherever_it_comes(monkeypatch) -> None:
    """All sources of a truncated Kafka cluster have another one, in all topics of the mesh."""
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 1)
    excuses = Excuses("mesh.")
    places = [TopicPartition(f"mesh.a.to.{node}.g", 0) for node in "bcd"]
    frames = [replace(frame(), place=place, generation=1) for place in places]
    assert not absorbed(excuses, [*frames, *frames], [], NAMES, 100.0)
    links = [(one[1], one[2]) for one in judged(excuses, SubscriptionHistory())]
    assert links == [("a->b", 3), ("a->c", 3), ("a->d", 3)]


def test_moved_deliveries_beyond_a_number_are_reported(monkeypatch) -> None:
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 1)
    excuses, other = Excuses("mesh."), TopicPartition("mesh.b.ep.other", 0)
    rows = [delivery(), delivery(), delivery()._replace(place=other)]
    (finding,) = absorbed(excuses, [], rows, NAMES, 100.0)
    assert (finding.kind, finding.endpoint) == (FindingKind.UNPROVEN, "b/other")


def test_what_is_moved_must_be_in_a_queue_and_come_from_one() -> None:
    """A copy in a channel that is marked as moved used to hide the other one."""
    excuses, interest = Excuses("mesh."), SubscriptionHistory()
    interest.subscribe(EndpointKey("b", "q"), "acme/>", Subscription(), 0)
    assert not absorbed(excuses, [frame(path=("c",), moved=True)], [delivery()], NAMES, 100.0)
    assert judged(excuses, interest) == [("unexpected", "b/q", 1), ("unplanned-path", "a->b", 3)]


def test_queues_move_messages_by_right() -> None:
    excuses, interest = Excuses("mesh."), SubscriptionHistory()
    assert not absorbed(excuses, [frame(path=("c",), moved=True)], [delivery()], NAMES, 100.0)
    asked = Subscription(kind=EndpointKind.QUEUE, policy="any")
    for node in ("b", "c"):  # read later than what was moved
        interest.subscribe(EndpointKey(node, "q"), "acme/>", asked, 0)
    assert judged(excuses, interest) == []


@pytest.mark.parametrize(
    ("policy", "is_moved"), [("every", False), ("local", False), ("any", True), ("home", True)]
)
def test_only_queues_of_which_one_member_gets_a_message_move_it(
    policy: str, is_moved: bool
) -> None:
    """Where each member has its own copy, a second one with the mark is a second one."""
    excuses, interest = Excuses("mesh."), SubscriptionHistory()
    asked = Subscription(kind=EndpointKind.QUEUE, policy=policy)
    interest.subscribe(EndpointKey("b", "q"), "acme/>", asked, 0)
    assert not absorbed(excuses, [], [delivery()], NAMES, 100.0)
    assert judged(excuses, interest) == ([] if is_moved else [("unexpected", "b/q", 1)])


@pytest.mark.parametrize("is_told", [False, True])
def test_offsets_come_again_only_if_somebody_has_told_of_that(is_told: bool) -> None:
    """A second copy that says so used to be the first of its kind. Spec: K9."""
    excuses, generations = Excuses("mesh."), Generations()
    direct = delivery(moved=False)._replace(generation=1, message_class="direct")
    certified = delivery(moved=False)._replace(generation=1)
    assert not [
        *absorbed(excuses, [replace(frame(), generation=1)], [direct, certified], NAMES, 100.0)
    ]
    if is_told:  # read later than what came of it
        generations.tell(SOURCE, 1)
    assert judged(excuses, SubscriptionHistory(), 100.0 + EXCUSE_WAIT_S - 1, generations) == []
    found = judged(excuses, SubscriptionHistory(), generations=generations)
    assert found == ([] if is_told else [("unexpected", "b/q", 1), ("unexpected", "a->b", 3)])


@pytest.mark.parametrize("message_class", list(MessageClass))
def test_a_queue_that_is_not_known_may_have_moved_messages_and_a_channel_not(
    message_class: MessageClass,
) -> None:
    interest = SubscriptionHistory()
    member = EndpointKey("b", "q")
    interest.subscribe(member, "acme/>", Subscription(message_class=message_class), 0)
    assert not interest.may_move(member)
    interest.unsubscribe(member, "former/>", 5)  # its record was deleted before it was read
    assert interest.may_move(member)


def test_a_batch_makes_room_by_what_it_tells(monkeypatch) -> None:
    monkeypatch.setattr("streaming.audits.excuses.HELD_MAX", 1)
    state = State.of(chain_topology())
    for number in (1, 2):
        source = SOURCE._replace(partition=number)
        take_batch(state, MicroBatch(frames=[replace(frame(repair=True), chain=source)]), 1.0)
        key = f"repair {source.topic_id} {number} 2 guaranteed"
        asked = SmallRow(TopicPartition("mesh.b.to.a.c", 0), number, key, b"", 0)
        take_batch(state, MicroBatch(small=[asked]), 1.0)
    anchors = [one.anchor for one in state.register.findings.values()]
    assert "marks" not in anchors
