"""What a subscription that has ended was owed, and may have had: how long it is known. Spec: K25."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mesh.model.control import Subscription
from mesh.model.findings import FindingKind
from streaming.audits.cases import CaseOutcome
from streaming.audits.interest import RECENT_S, EndpointKey, SubscriptionHistory
from streaming.audits.needed_filters import NeededFilters
from streaming.tables.rows import IngressRow, SourceKey, TopicPartition
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
    Table,
    digest,
    is_wanted,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


def test_what_came_of_a_subscription_of_which_only_the_end_is_left_is_expected(table):
    """A fresh auditor reads `clients` as compaction has left it: it may come, and need not."""
    interest = table.world.interest = SubscriptionHistory()
    interest.unsubscribe(ENDPOINT, "acme/>", 7)
    interest.unsubscribe(ENDPOINT, "acme/>", 8)
    assert len(interest.subscriptions[ENDPOINT]) == 1
    table.cut(0, 7)
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.pass_to(9)
    assert table.judge(5.0) == table.judge(5.0) == []
    assert not table.world.register.findings


def test_an_end_of_which_no_beginning_is_known_excuses_nothing_that_came_later(table):
    """One record of an end that nothing had begun let a channel have everything for ever."""
    table.world.interest.unsubscribe(ENDPOINT, "other/>", 1)
    table.publish(0, 1, 2, subject="other/x")
    table.deliver(0, 1, 2)
    table.cut(3, 1)
    table.pass_to(4)
    assert table.judge() == []
    table.publish(3, subject="other/y")
    table.deliver(3)
    outcome = CaseOutcome(3, 4, unexpected=1, unexpected_offsets=(3,))
    (case,) = table.judge(outcome=outcome)
    wanted = [want for want in case.wants if is_wanted(want, "other/y")]
    assert [(want.last, want.is_must) for want in wanted] == [(2, False)]
    assert [one.kind for one in table.world.register.findings.values()] == ["unexpected"]


def test_filters_that_were_left_are_known_while_a_block_needs_them() -> None:
    """What came by them would be unexpected; a block may stay open for ever."""
    table = Table()
    interest = table.world.interest
    table.cut(0)
    for number in range(40):
        interest.subscribe(ENDPOINT, f"reply/{number}", Subscription(), 2 * number + 1)
        table.publish(number, subject=f"reply/{number}")
        table.deliver(number)
        interest.unsubscribe(ENDPOINT, f"reply/{number}", 2 * number + 2)
    table.publish(40)
    table.deliver(40)
    replies = {f"reply/{number}" for number in range(40)}
    needed = NeededFilters(table.certifier.blocks, table.world)
    assert set(needed.of(ENDPOINT, {*replies, "reply/99"})) == replies
    assert needed.of(EndpointKey("a", "x"), replies) == {}


OTHER = EndpointKey("a", "other")


def forgetting(
    table: Table, unread: Collection[TopicPartition] = (), endpoint: EndpointKey = OTHER
) -> None:
    """Have more subscriptions end than are kept, and what is not needed be forgotten."""
    interest, blocks = table.world.interest, table.certifier.blocks
    needed = NeededFilters(blocks, table.world, unread.__contains__)
    for _ in range(3):
        table.at_s += RECENT_S
        before = interest.pruned
        while interest.pruned == before:
            interest.subscribe(endpoint, "x", Subscription(), 10_000 + interest.changes)
            interest.unsubscribe(endpoint, "x", 10_000 + interest.changes)
            interest.prune({"a": "u"}, claimed=needed.of, now_s=table.at_s)


LOST = CaseOutcome(2, 0, missing=2, missing_offsets=(0, 1))


def test_a_loss_that_was_found_stays_one_however_many_subscriptions_end_after_its_own(table):
    """Once its subscription was forgotten nothing was owed any more: it was taken back."""
    table.publish(0, 1)
    table.pass_to(2)
    assert table.judge(outcome=LOST)
    table.world.interest.subscribe(ENDPOINT, "kept/>", Subscription(), 1)
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 2)
    table.cut(2, 2)
    forgetting(table, endpoint=ENDPOINT)
    table.judge(outcome=LOST)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.count) == (FindingKind.MISSING, 2)


@pytest.mark.parametrize("is_told", [True, False])
def test_what_an_ended_subscription_is_owed_is_looked_for_however_many_end_after_it(
    table, is_told: bool
):
    """A lane stood still for more than ten seconds: what it lost then was not owed any more."""
    table.publish(0, 1)
    table.judge()
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 1)
    if is_told:
        table.cut(2, 1)
    forgetting(table)
    table.cut(2, 1)
    table.pass_to(2)
    assert table.judge(outcome=LOST)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.count) == (FindingKind.MISSING, 2)


def test_what_comes_after_an_end_is_unexpected_from_the_first_message_on(table):
    """That it has just ended, and is known for seconds, excuses nothing: cuts tell."""
    table.publish(0, 1)
    table.deliver(0, 1)
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 1)
    table.cut(2, 1)
    table.publish(2)
    table.deliver(2)
    table.pass_to(3)
    table.judge(0.1, CaseOutcome(2, 3, unexpected=1, unexpected_offsets=(2,)), is_last=True)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.first, finding.last) == (FindingKind.UNEXPECTED, 2, 2)
    assert [one.equal for one in table.certifier.unpublished.values()] == [False]


def test_an_ended_subscription_that_got_all_of_its_messages_is_forgotten(table):
    table.publish(0, 1)
    table.deliver(0, 1)
    table.judge()
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 1)
    table.cut(2, 1)
    table.judge()
    table.certifier.blocks.open.clear()
    forgetting(table)
    assert ENDPOINT not in table.world.interest.subscriptions


def test_what_came_of_a_source_that_is_not_read_is_asked_for_until_it_is(table):
    """What had come was unexpected once the Kafka cluster answered again."""
    table.deliver(0, 1)
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 1)
    forgetting(table, unread=[PLACE])
    assert ENDPOINT in table.world.interest.subscriptions
    table.publish(0, 1)
    table.cut(2, 1)
    table.pass_to(2)
    assert table.judge() == []
    assert table.issued() == [(2, 2, True, True)]


def test_what_waits_for_its_source_or_came_late_is_asked_for_until_that_is_known(table):
    parked, late = EndpointKey("a", "parked"), EndpointKey("a", "late")
    for endpoint in (parked, late):
        table.world.interest.subscribe(endpoint, "acme/>", Subscription(), 1)
        table.world.interest.unsubscribe(endpoint, "acme/>", 2)
    table.deliver(0, source=SourceKey("bb", 0), to=TopicPartition("mesh.a.ep.parked", 0))
    table.certifier.blocks.dropped[PLACE] = 0
    table.deliver(0, to=TopicPartition("mesh.a.ep.late", 0))
    forgetting(table)
    assert {parked, late} < {*table.world.interest.subscriptions}


def test_of_a_bundle_in_which_nothing_came_by_it_a_filter_is_forgotten() -> None:
    """Nothing is known of it there, for it came later: it would be kept for ever."""
    table = Table()
    table.cut(0)
    row = IngressRow(PLACE, 0, None, digest(0, 1), 0, 1, "acme/>", 1)
    table.certifier.blocks.publish([row], table.at_s)
    table.deliver(0, 1)
    table.world.interest.filters.know(["acme/>", "late/1"])
    assert NeededFilters(table.certifier.blocks, table.world).of(ENDPOINT, ["late/1"]) == {}
    table.deliver(2)
    assert set(NeededFilters(table.certifier.blocks, table.world).of(ENDPOINT, ["late/1"])) == {
        "late/1"
    }
