"""Blocks that are full or read to their end are closed and forgotten; what comes of them later. Spec: K29."""

from __future__ import annotations

import pytest

from mesh.model.control import Subscription
from streaming.audits.cases import CaseOutcome
from streaming.audits.hours import HOUR_MS
from streaming.audits.interest import EndpointKey
from streaming.audits.late_cases import copy_cases, late_cases, unreadable
from streaming.audits.unplaced_deliveries import RETAIN_S
from streaming.tables.rows import TopicPartition
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
    SPY,
    TARGET,
    Table,
    is_wanted,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


def test_a_full_block_is_closed_and_forgotten_but_what_comes_late_is_not_lost(table):
    table.publish(0, 1)
    table.deliver(0, 1)
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    assert table.issued() == [(2, 2, True, False), (1, 1, True, True)]
    table.judge(20.0)
    assert list(table.certifier.blocks.open[PLACE]) == [1]
    table.deliver(1)
    assert list(table.certifier.blocks.open[PLACE]) == [1]


@pytest.mark.parametrize("stray", [4097, 9 * 4096])
def test_a_delivery_ahead_of_the_ingress_closes_no_block(table, stray):
    """What was published to it afterwards, and lost, was told by nobody: it had been forgotten."""
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.deliver(stray)
    unasked = CaseOutcome(0, 1, unexpected=1, unexpected_offsets=(stray,))
    table.judge(3.0, unasked)
    assert (3, 3, True, True) in table.issued()
    for _ in range(3):
        table.judge(11.0, unasked)
    table.publish(3, 4, 5)
    table.pass_to(6)
    lost = CaseOutcome(6, 3, missing=3, missing_offsets=(3, 4, 5))
    cases = [case for _ in range(4) for case in table.judge(5.0, lost)]
    assert [(case.block, case.is_passed) for case in cases if case.block == 0] == [(0, True)]
    assert (6, 3, False, True) in table.issued()
    assert "missing" in [one.kind for one in table.world.register.findings.values()]


def test_a_block_that_was_read_to_its_end_is_closed_and_forgotten(table):
    """Its last offsets may be no messages, and none may follow."""
    table.publish(0, 1)
    table.deliver(0, 1)
    table.world.read[PLACE] = 4096
    table.pass_to(2)
    table.judge()
    assert table.issued() == [(2, 2, True, False)]
    table.judge(20.0)
    assert table.certifier.blocks.dropped == {PLACE: 0}


def test_a_block_is_not_forgotten_before_its_lane_has_routed_it(table):
    """A lane that stands still may yet learn of a subscription, and owe it all of the block."""
    table = Table()
    table.publish(0, 1)
    table.publish(4096)
    for _ in range(5):
        table.judge(20.0)
    assert table.issued() == []
    table.cut(0)
    table.pass_to(4097)
    lost = CaseOutcome(2, 0, missing=2, missing_offsets=(0, 1))
    cases = [case for _ in range(3) for case in table.judge(5.0, lost)]
    assert [(case.block, case.is_passed) for case in cases] == [(0, True), (1, True)]


def closed(table) -> None:
    """Have block 0, of five messages, certified for good."""
    table.publish(*range(5))
    table.deliver(*range(5))
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    table.judge(11.0)
    assert table.certifier.blocks.dropped == {PLACE: 0}
    table.issued()


def test_what_comes_of_a_block_that_was_forgotten_is_asked_whose_it_is(table):
    """It was dropped without a word, also at an endpoint that had asked for nothing."""
    closed(table)
    table.deliver(*range(3), to=SPY)
    table.deliver(2, 4)
    assert table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S - 1) == {}
    spy, known = late_cases(
        table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S), table.world
    )
    assert (str(spy.endpoint), spy.first, spy.last, spy.wants) == ("a/spy", 0, 2, ())
    assert list(spy.records) == [EndpointKey("a", "spy")]
    assert (known.first, known.last, known.delivered_last) == (2, 4, 4)
    (want,) = known.wants
    assert (is_wanted(want, "acme/x"), want.is_must) == (True, False)
    assert spy.evidence == ("mesh.a.ep.spy/0@0-9",)


def test_what_comes_late_and_cannot_be_read_any_more_is_unproven(table):
    closed(table)
    table.deliver(2, to=SPY)
    ripe = table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S)
    assert list(unreadable(ripe, {PLACE: 2})) == []
    ((key, finding),) = unreadable(ripe, {PLACE: 3})
    assert (key.block, finding.kind, finding.endpoint) == (0, "unproven", "a/spy")


def test_what_was_not_all_read_is_not_judged_late_either(table):
    """That it is unproven has been told."""
    table.certifier.blocks.skip(PLACE, 5000)
    table.deliver(4097, to=SPY)
    table.publish(1)
    assert table.certifier.blocks.unplaced.late == table.certifier.blocks.open == {}


def test_a_full_block_is_kept_until_all_kafka_clusters_are_read_so_far(table):
    """Who asks for it, and what came of it, may be read later: it used to be forgotten uncertified.

    The endpoint and its subscription are in a Kafka cluster that is read more slowly.
    """
    table.world.interest.subscriptions.clear()
    table.world.read_s = table.at_s
    table.publish(0, 1)
    table.publish(4096)
    table.pass_to(2)
    table.judge()
    table.judge(100.0)
    assert list(table.certifier.blocks.open[PLACE]) == [0, 1]
    table.world.interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    table.deliver(0, 1)
    table.judge()
    assert table.issued() == [(2, 2, True, False)]
    table.judge(20.0)
    table.world.read_s = table.at_s
    table.judge()
    assert list(table.certifier.blocks.open[PLACE]) == [1]


def test_the_rest_of_a_block_begins_anew_in_another_process(table):
    """Its clock may be far behind."""
    table.publish(0, subject="other/x")
    table.publish(4096, subject="other/x")
    table.pass_to(4097)
    table.judge()
    table.at_s = 3.0
    table.certifier.blocks.rest(table.at_s, 0.0)
    table.judge(1.0)
    assert list(table.certifier.blocks.open[PLACE]) == [0, 1]
    table.judge(20.0)
    assert list(table.certifier.blocks.open[PLACE]) == [1]


def test_closed_blocks_are_summed_up_by_the_hour(table):
    """What is left of certificates once they are deleted. Spec: K29."""
    table.world.register.now_ms = 5 * HOUR_MS + 7
    table.publish(0, 1)
    table.deliver(0, 1)
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    hours = table.certifier.hours
    assert list(hours.take(table.world.register.now_ms)) == []
    table.judge(20.0)
    later_ms = table.world.register.now_ms + 60_000
    ((key, hour),) = hours.take(later_ms)
    assert (key.source, key.endpoint, key.hour) == ("mesh.a.in.g/0", "a/s1", 5)
    assert (hour.certificates, hour.differing, hour.expected, hour.delivered) == (1, 0, 2, 2)
    assert list(hours.take(later_ms + HOUR_MS)) == []
    assert hours.sums == {}


def test_what_came_late_is_looked_for_in_the_other_partitions_of_its_endpoint(table):
    """Order tells of a second copy in one partition; in another it was certified and forgotten."""
    closed(table)
    table.deliver(2, 4)
    ripe = table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S)
    cases = late_cases(ripe, table.world)
    table.world.read = {TARGET: 12, TopicPartition(SPY.topic, 1): 5}
    assert copy_cases(ripe, cases, table.world) == {}
    table.world.read[TopicPartition(TARGET.topic, 1)] = 3
    table.world.read[TopicPartition(TARGET.topic, 2)] = 0
    (case,) = copy_cases(ripe, cases, table.world).values()
    assert case.records == {ENDPOINT: {0: (0, 11), 1: (0, 2)}}
    assert (case.first, case.last, case.wants) == (2, 4, ())
