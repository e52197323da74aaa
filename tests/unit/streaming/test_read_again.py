"""Where digests cannot tell, the messages of a block are read one by one, and once. Spec: K29."""

from __future__ import annotations

import pytest

from mesh.model.control import Stop, Subscription
from streaming.audits.cases import CaseOutcome
from streaming.tables.rows import DeliveryRow
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
    SOURCE,
    TARGET,
    Table,
    digest,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


def mixed(table) -> None:
    """Have a subscription begin in the middle of a block, and two messages around it read."""
    table.cut(3)
    table.publish(0, 1, 2, 3)
    table.deliver(1, 3)
    (case,) = table.judge(3.0, CaseOutcome(2, 2))
    assert (case.first, case.before) == (0, None)
    table.publish(4)
    table.deliver(4)


def test_what_was_found_equal_is_not_read_again(table):
    """Its records are trimmed while the block stays open, and all of it was unexpected then."""
    table = Table()
    mixed(table)
    (case,) = table.judge(3.0, CaseOutcome(1, 1, begin=4))
    assert (case.first, case.last, case.before.last) == (4, 4, 3)
    assert [(want.first, want.is_must) for want in case.wants] == [(4, False), (4, True)]
    assert table.issued() == [(3, 3, True, True)]
    assert table.world.register.findings == {}


@pytest.mark.parametrize("news", ["delivery", "cut", "generation", "publication"])
def test_news_of_what_was_found_equal_have_it_read_again(news):
    table = Table()
    mixed(table)
    if news == "delivery":
        table.deliver(0)
    elif news == "publication":
        table.publish(3)
    elif news == "cut":
        table.world.interest.subscribe(ENDPOINT, "*/x", Subscription(), 1)
        table.cut(3, 1)
    else:
        table.world.progress.generations.tell(SOURCE, 1, 3)
    (case,) = table.judge(3.0, CaseOutcome(4, 4))
    assert (case.first, case.before) == (0, None)


def test_what_is_trimmed_before_it_can_be_read_again_is_unproven_and_not_unexpected(table):
    table = Table()
    mixed(table)
    table.deliver(0)
    assert len(table.judge(3.0, CaseOutcome(2, 2, begin=3))) == 1
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.first, finding.last, finding.count) == ("unproven", 0, 2, 3)
    assert [one.first for one in table.certifier.unpublished.values()] == [3]
    assert table.certifier.blocks.open[PLACE][0].proven == {}


def test_what_is_read_again_begins_where_its_blocks_began(table):
    """Not at the beginning of the endpoint's log, as long as that is known."""
    blocks = table.certifier.blocks
    assert blocks.begin_of(PLACE, TARGET, 0) == 0
    for first, record in ((0, 5), (4096, 70), (8192, 40)):
        row = DeliveryRow(
            place=TARGET,
            source=SOURCE,
            generation=0,
            path=("a",),
            block=first // 4096,
            digest=digest(first),
            first=first,
            last=first,
            record_first=record,
            record_last=record,
            late=0,
        )
        blocks.deliver([row], table.world.names, table.at_s)
    assert [blocks.begin_of(PLACE, TARGET, one) for one in (9, 4100, 8200)] == [5, 40, 40]
    blocks.dropped[PLACE] = 0
    assert blocks.begin_of(PLACE, TARGET, 9) == 0


@pytest.mark.parametrize("is_again", [False, True])
def test_digests_do_not_certify_a_generation_that_nobody_told_of(table, is_again):
    """A lane that delivers all again under another generation, or a single copy of one."""
    table.publish(0, 1)
    if is_again:
        table.deliver(0, 1)
    table.deliver(0, 1, generation=1)
    table.pass_to(2)
    outcome = CaseOutcome(2, 2, unexpected=2, unexpected_offsets=(0, 1))
    cases = [case for _ in range(4) for case in table.judge(5.0, outcome)]
    assert {case.generations for case in cases} == {((0, 0),)}
    assert [one[2] for one in table.issued()] == [False]
    assert [one.kind for one in table.world.register.findings.values()] == ["unexpected"]


def test_once_a_generation_is_told_of_its_copies_are_read_and_certified(table):
    """Also where the delivery was read before its reader's progress. Spec: K9."""
    table.publish(0, 1, 2)
    table.deliver(0)
    table.deliver(1, 2, generation=1)
    (case,) = table.judge(3.0, CaseOutcome(3, 3, unexpected=2, unexpected_offsets=(1, 2)))
    assert table.issued() == []
    stop = Stop(PLACE.topic, 0, b"\xaa", "truncated", 1, 3)
    assert table.world.progress.generations.stop(stop)
    table.world.interest.changes += 1
    (case,) = table.judge(3.0, CaseOutcome(3, 3))
    assert case.generations == ((0, 0), (1, 1))
    assert table.issued() == [(3, 3, True, True)]


def proven(table) -> None:
    """Have a full block certified by its messages, for digests alone cannot tell of it."""
    table.world.progress.generations.tell(SOURCE, 1, 2)
    table.publish(0, 4095)
    table.deliver(0)
    table.deliver(4095, generation=1)
    table.publish(4096)
    table.deliver(4096, generation=1)
    table.pass_to(4097)
    assert len(table.judge(3.0, CaseOutcome(2, 2))) == 1
    assert table.issued() == [(1, 1, True, True), (2, 2, True, False)]
    table.world.interest.changes += 1


def test_a_full_block_that_was_read_waits_for_nothing_when_something_else_changes(table):
    """There was nothing left of it to be read, so it waited for ever, and stayed in the state."""
    proven(table)
    assert table.judge(3.0) == []
    assert table.certifier.waiting == []
    assert table.issued() == []
    table.judge(60.0)
    assert list(table.certifier.blocks.open[PLACE]) == [1]
