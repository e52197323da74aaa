"""Chains, origins and paths from header intervals alone. Spec: K11, DESIGN 3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mesh.model.frames import position_in_chain
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.chains import Chains
from streaming.audits.names import Names
from streaming.audits.origins import Interval, Origins
from streaming.audits.paths import LinkPlan
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    BrokenLink,
    DeliveryRow,
    FramePlace,
    FrameRow,
    SourceKey,
    TopicPartition,
)

OUTBOX = TopicPartition("mesh.a.to.b.g", 0)
SOURCE = SourceKey("aa", 0)
NAMES = Names({"aa": "mesh.a.in.g"}, {"mesh.a.in.g": "aa"})


def frames(offset: int, previous: int, first: int, last: int, **more: object) -> FrameRow:
    """Return a row of one frame."""
    place = FramePlace(offset, previous, first, last)
    row = FrameRow(
        place=OUTBOX,
        is_repair=False,
        kind="data",
        zone="Z",
        path=("a",),
        chain=SOURCE,
        source=SOURCE,
        generation=0,
        frames=1,
        messages=last - first + 1,
        first=first,
        last=last,
        head=place,
        tail=place,
        broken=(),
        late=0,
    )
    return replace(row, **more)


def gaps(chains: Chains, *rows: FrameRow) -> list[tuple[int | None, int | None]]:
    return [(one.first, one.last) for one in chains.absorb(rows, NAMES)]


@pytest.fixture
def chains() -> Chains:
    return Chains("mesh.")


@pytest.fixture
def origins() -> Origins:
    return Origins("mesh.")


def test_a_chain_goes_on_where_it_ended(chains):
    assert gaps(chains, frames(0, -1, 0, 4)) == []
    assert gaps(chains, frames(1, 4, 7, 9), frames(2, 9, 10, 10)) == []
    assert gaps(chains, frames(4, 12, 13, 13)) == [(11, 12)]
    assert gaps(chains, frames(5, 13, 14, 14)) == []


def test_a_chain_that_begins_in_the_middle_is_a_gap_unless_its_beginning_is_deleted(chains):
    assert gaps(chains, frames(0, 3, 4, 5)) == [(0, 3)]
    late = replace(frames(70, 8, 9, 9), place=TopicPartition("mesh.a.to.b.g", 1))
    assert gaps(chains, late) == []
    assert gaps(chains, replace(frames(71, 10, 11, 11), place=late.place)) == [(10, 10)]


def test_in_an_outbox_that_was_recreated_chains_may_begin_anywhere(chains):
    """How far they went in the former one stays known."""
    assert gaps(chains, frames(0, -1, 0, 4)) == []
    chains.forget_recreated(frames(0, -1, 0, 4).place)
    assert [(one.last, one.offset) for one in chains.heads.values()] == [(4, -1)]
    assert gaps(chains, frames(0, 9, 10, 12)) == []
    assert gaps(chains, frames(1, 14, 15, 15)) == [(13, 14)]


def test_breaks_inside_a_batch_are_gaps_too_and_sources_do_not_mix(chains):
    broken = BrokenLink(FramePlace(3, 9, 10, 11), expected=5)
    row = frames(0, -1, 0, 11, broken=(broken,), tail=FramePlace(3, 9, 10, 11))
    assert gaps(chains, row) == [(6, 9)]
    assert gaps(chains, frames(4, -1, 0, 1, chain=SourceKey("bb", 0))) == []


def test_a_frame_of_before_that_comes_last_does_not_take_a_chain_back(chains):
    """What was sent twice is told as that, and what comes after it was told as a gap."""
    again = FramePlace(2, -1, 0, 4)
    broken = (BrokenLink(again, expected=9),)
    assert gaps(chains, frames(0, -1, 0, 9, frames=3, tail=again, broken=broken)) == []
    assert gaps(chains, frames(3, 9, 10, 12)) == []


def test_direct_frames_and_repairs_have_no_gaps_and_an_announced_one_is_told(chains):
    direct = TopicPartition("mesh.a.to.b.d", 0)
    assert gaps(chains, replace(frames(0, 9, 10, 10), place=direct)) == []
    assert gaps(chains, frames(0, 3, 4, 9, is_repair=True)) == []
    told = frames(1, -1, 0, 99, kind="gap")
    assert gaps(chains, told) == [(0, 99)]


def test_a_chain_goes_on_at_an_announced_loss_although_offsets_come_again(chains):
    """They are other positions; a gap before them is of their generation. Spec: K9, K11."""
    again = partial(position_in_chain, 1)
    begin = again(10) - 1
    lost = replace(frames(1, 99, begin, begin, kind="gap"), first=10, last=99)
    assert gaps(chains, frames(0, -1, 0, 99), lost, frames(2, begin, again(10), again(14))) == [
        (10, 99)
    ]
    (gap,) = chains.absorb([frames(3, again(17), again(18), again(20))], NAMES)
    assert (gap.first, gap.last) == (15, 17)
    assert gap.ids[0].endswith("/1/15-17")


def test_a_gap_over_an_announced_loss_is_told_as_far_as_it_is_known(chains):
    """Where the generation begins stands in the announcement that vanished. Spec: K9, K11."""
    again = partial(position_in_chain, 1)
    assert gaps(chains, frames(0, -1, 0, 99)) == []
    assert gaps(chains, frames(1, again(17), again(18), again(20))) == [(0, 17)]


def test_intervals_that_go_back_are_suspected(origins):
    assert list(origins.absorb([frames(0, -1, 0, 4), frames(1, 4, 5, 9)])) == []
    (suspicion,) = origins.absorb([frames(2, 9, 9, 12)])
    assert (suspicion.outboxes, suspicion.since, suspicion.until) == ((OUTBOX,), 2, 2)
    assert list(origins.absorb([frames(3, 12, 4, 4, is_repair=True)])) == []
    (suspicion,) = origins.absorb([frames(4, 12, 13, 20, late=1)])
    assert suspicion.receiver == ""


def test_what_a_member_of_a_queue_sends_on_is_late_by_right(origins):
    """A channel behind the link may have had it before. Spec: DESIGN 6."""
    other = TopicPartition("mesh.c.to.b.g", 0)
    assert list(origins.absorb([frames(0, -1, 0, 9)])) == []
    moved = frames(1, -1, 2, 4, is_moved=True, chain=SourceKey("ee", 0), path=("c",))
    assert list(origins.absorb([moved, replace(moved, place=other, late=1)])) == []
    (suspicion,) = origins.absorb([replace(moved, is_moved=False)])
    assert suspicion.outboxes == (OUTBOX,)


def test_the_same_interval_over_two_links_is_suspected(origins):
    other = TopicPartition("mesh.c.to.b.g", 0)
    assert list(origins.absorb([frames(0, -1, 0, 4)])) == []
    assert list(origins.absorb([replace(frames(0, -1, 5, 9), place=other)])) == []
    (suspicion,) = origins.absorb(
        [replace(frames(1, 9, 10, 12), place=other), frames(1, 4, 12, 12)]
    )
    assert (suspicion.outboxes, suspicion.receiver) == ((OUTBOX, other), "b")
    assert origins.carriers("b", SOURCE) == [OUTBOX, other]
    assert origins.carriers("c", SOURCE) == []


def test_intervals_overlap_when_an_offset_is_in_both():
    assert Interval(0, 4).overlaps(Interval(4, 9))
    assert not Interval(0, 3).overlaps(Interval(4, 9))
    assert Interval(4, 5) | Interval(0, 1) == Interval(0, 5)


@pytest.fixture
def plan() -> LinkPlan:
    return LinkPlan.of(
        Topology(
            name="m",
            kafka={"k": DeclaredKafka(name="k")},
            nodes={name: Node(name=name, kafka="k") for name in "abc"},
            zones={"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, [("a", "b"), ("b", "c")])},
        )
    )


@pytest.mark.parametrize(
    ("outbox", "zone", "path", "kind"),
    [
        ("a.to.b", "Z", ("a",), None),
        ("b.to.c", "Z", ("a", "b"), None),
        ("b.to.a", "Z", ("a", "b"), "loop"),
        ("b.to.c", "Z", ("a", "b", "a", "b"), "loop"),
        ("a.to.c", "Z", ("a",), "unplanned-path"),
        ("b.to.c", "Z", ("a",), "unplanned-path"),
        ("b.to.c", "Y", ("a", "b"), "unplanned-path"),
        ("b.to.c", "Z", (), "unplanned-path"),
    ],
)
def test_frames_follow_links(plan, outbox, zone, path, kind):
    place = TopicPartition(f"mesh.{outbox}.g", 0)
    fault = plan.frame_fault(frames(0, -1, 0, 1, place=place, zone=zone, path=path), NAMES)
    assert (None if fault is None else fault.kind) == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("a", "b", "c"), None),
        (("a", "c"), "unplanned-path"),
        (("b", "c"), "unplanned-path"),
        (("a", "b"), "unplanned-path"),
        (("a", "b", "a", "b", "c"), "loop"),
        ((), "unplanned-path"),
    ],
)
def test_deliveries_follow_links_from_their_origin(plan, path, kind):
    row = DeliveryRow(
        place=TopicPartition("mesh.c.ep.s1", 0),
        source=SOURCE,
        generation=0,
        path=path,
        block=0,
        digest=Digest(1),
        first=3,
        last=3,
        record_first=0,
        record_last=0,
        late=0,
    )
    fault = plan.delivery_fault(row, NAMES)
    assert (None if fault is None else fault.kind) == kind


def test_the_same_interval_in_two_partitions_of_an_outbox_is_suspected(origins):
    """A source has one partition on each link: twice over it is twice."""
    other = TopicPartition(OUTBOX.topic, OUTBOX.partition + 1)
    assert list(origins.absorb([frames(0, -1, 0, 4)])) == []
    assert list(origins.absorb([replace(frames(0, -1, 5, 9), place=other)])) == []
    (suspicion,) = origins.absorb([replace(frames(1, 9, 3, 3), place=OUTBOX, is_repair=False)])
    assert suspicion.outboxes == (OUTBOX,)
    (suspicion,) = origins.absorb([frames(2, 9, 9, 9)])
    assert (suspicion.outboxes, suspicion.receiver) == ((OUTBOX, other), "b")
