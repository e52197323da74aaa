"""Direct messages that nobody asked for: told once it is sure that nobody did. Spec: K31."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mesh.model.control import EndpointKind, Subscription
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.matching import pattern_of, selects
from streaming.audits.names import Names
from streaming.audits.unwanted_deliveries import (
    UNWANTED_WAIT_S,
    UnwantedDeliveries,
    wanted_patterns,
)
from streaming.tables.rows import SUBJECTS_MAX, SourceKey, TopicPartition, UnwantedRow

PLACE = TopicPartition("mesh.b.ep.s1", 0)
SOURCE = SourceKey("dd", 1)
ENDPOINT = EndpointKey("b", "s1")


def row(*subjects: str, offset: int = 3) -> UnwantedRow:
    return UnwantedRow(PLACE, SOURCE, 1, offset, offset, offset, offset, subjects)


def judged(
    unwanted: UnwantedDeliveries, interest: SubscriptionHistory, now_s: float
) -> list[tuple[str, int, str]]:
    names = Names(topics={"dd": "mesh.a.in.d"})
    return [
        (one.kind.value, one.count, one.ids[0]) for one in unwanted.judge(interest, names, now_s)
    ]


def test_what_nobody_has_asked_for_is_unexpected() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([row("other/x")], interest, 100.0)]
    assert not [*unwanted.absorb([row("other/y", offset=7)], interest, 101.0)]
    assert judged(unwanted, interest, 100.0 + UNWANTED_WAIT_S - 1) == []
    assert judged(unwanted, interest, 100.0 + UNWANTED_WAIT_S) == [
        ("unexpected", 2, "mesh.a.in.d/1/0/3-7")
    ]
    assert judged(unwanted, interest, 200.0) == []


def test_a_subscription_that_is_read_after_its_first_messages_counts() -> None:
    """Each Kafka cluster is read by itself; one that has ended counts as well."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    assert not [*unwanted.absorb([row("acme/x")], interest, 100.0)]
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    interest.unsubscribe(ENDPOINT, "acme/>", 1)
    assert judged(unwanted, interest, 200.0) == []


MANY = row(*(f"acme/{number}" for number in range(SUBJECTS_MAX)))
"""What a row tells of deliveries of more subjects than it spells out."""


@pytest.mark.parametrize("is_known", [True, False])
def test_of_more_subjects_than_are_spelled_out_all_are_read_again(is_known: bool) -> None:
    """Whatever hid behind twenty subjects that were requested late was dropped with them."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    if is_known:
        interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([replace(MANY, count=50)], interest, 100.0)]
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.excuse(interest)]
    assert not unwanted.held
    (doubt,) = unwanted.abridged
    assert (doubt.row.count, doubt.since_s) == (50, 100.0)
    assert doubt.pattern == pattern_of(["acme/>"])


def test_what_is_strange_when_it_is_read_again_is_told_once_it_has_waited() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([MANY], interest, 100.0)]
    (doubt,) = unwanted.abridged
    assert not [*unwanted.reread(doubt, row("other/x", offset=9), 0, interest)]
    assert judged(unwanted, interest, 100.0 + UNWANTED_WAIT_S) == [
        ("unexpected", 1, "mesh.a.in.d/1/0/9")
    ]


def test_what_has_been_requested_when_it_is_read_again_is_none() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([MANY], interest, 100.0)]
    (doubt,) = unwanted.abridged
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 0)
    assert not [*unwanted.reread(doubt, row("other/x"), doubt.row.record_first, interest)]
    assert judged(unwanted, interest, 200.0) == []


def test_of_what_is_deleted_before_it_is_read_again_nothing_is_known() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([MANY], interest, 100.0)]
    (doubt,) = unwanted.abridged
    told = unwanted.reread(doubt, None, doubt.row.record_first + 1, interest)
    assert [(one.kind.value, one.endpoint) for one in told] == [("unproven", "b/s1")]


def test_rows_are_joined_without_end_and_read_again_as_one() -> None:
    """While a Kafka cluster is not read, subjects are not collected without end."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    for number in range(SUBJECTS_MAX * 3):
        one = row(f"acme/{number}", offset=number)
        assert not [*unwanted.absorb([one], interest, 100.0)]
    ((_, held),) = unwanted.held.values()
    assert (held.count, len(held.subjects)) == (SUBJECTS_MAX * 3, SUBJECTS_MAX)
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.excuse(interest)]
    (doubt,) = unwanted.abridged
    assert (doubt.row.record_first, doubt.row.record_last) == (0, SUBJECTS_MAX * 3 - 1)


def test_what_waits_to_be_read_again_is_bounded_and_forgotten_with_its_topic(monkeypatch) -> None:
    monkeypatch.setattr("streaming.audits.unwanted_deliveries.ABRIDGED_MAX", 2)
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    rows = [replace(MANY, source=SourceKey("dd", number)) for number in range(3)]
    (finding,) = unwanted.absorb(rows, interest, 100.0)
    assert (finding.kind, len(unwanted.abridged)) == ("unproven", 2)
    unwanted.go_ahead(7.0)
    assert {one.since_s for one in unwanted.abridged} == {107.0}
    unwanted.forget([PLACE])
    assert unwanted.abridged == []


def test_what_is_requested_already_takes_no_room(monkeypatch) -> None:
    """An auditor that begins reads subscriptions and what came by them at once."""
    monkeypatch.setattr("streaming.audits.unwanted_deliveries.HELD_MAX", 2)
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    rows = [replace(row("acme/x"), source=SourceKey("dd", number)) for number in range(9)]
    assert not [*unwanted.absorb(rows, interest, 100.0)]
    assert not unwanted.held


def test_what_has_no_subject_is_excused_by_no_subscription() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, ">", Subscription(), 0)
    assert not [*unwanted.absorb([row("", "acme/x")], interest, 100.0)]
    assert not [*unwanted.excuse(interest)]
    assert len(judged(unwanted, interest, 200.0)) == 1


@pytest.mark.parametrize(("policy", "count"), [("any", 0), ("every", 1)])
def test_what_another_member_of_a_queue_asks_for_may_have_been_moved(
    policy: str, count: int
) -> None:
    """Spec: DESIGN 6."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    asked = Subscription(EndpointKind.QUEUE, policy=policy)
    interest.subscribe(ENDPOINT, "acme/>", asked, 0)
    interest.subscribe(EndpointKey("c", "S1"), "other/>", asked, 0)
    assert not [*unwanted.absorb([row("other/x")], interest, 100.0)]
    assert len(judged(unwanted, interest, 200.0)) == count
    assert not [*unwanted.absorb([row("nobody/x")], interest, 200.0)]
    assert len(judged(unwanted, interest, 300.0)) == 1


def test_a_subscription_of_which_only_the_end_is_left_counts() -> None:
    """A fresh auditor reads `clients` as compaction has left it."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.unsubscribe(ENDPOINT, "acme/>", 7)
    assert not [*unwanted.absorb([row("acme/x")], interest, 100.0)]
    assert judged(unwanted, interest, 200.0) == []
    assert not [*unwanted.absorb([row("other/x")], interest, 200.0)]
    assert len(judged(unwanted, interest, 300.0)) == 1


def test_one_without_a_subject_is_wanted_by_nobody() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, ">", Subscription(), 0)
    assert not [*unwanted.absorb([row()], interest, 100.0)]
    assert len(judged(unwanted, interest, 200.0)) == 1


@pytest.mark.parametrize(
    "filters", [[], ["acme/x"], ["acme/*"], ["acme/>"], [">"], ["*/x-1"], ["a.c/(x)", "acme/é"]]
)
def test_one_expression_selects_what_the_filters_select(filters: list[str]) -> None:
    """Spark is given it."""
    pattern = re.compile(pattern_of(filters).replace(r"\z", r"\Z"))
    for subject in ("acme/x", "acme/é", "acme/x/y", "acme", "a/x-1", "a.c/(x)", "abc/(x)", "x"):
        is_wanted = any(selects(one, subject) for one in filters)
        assert (pattern.search(subject) is not None) is is_wanted, subject


def test_what_was_asked_for_is_known_by_topic() -> None:
    interest = SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert list(wanted_patterns("mesh.", interest)) == ["mesh.b.ep.s1"]


def test_what_had_been_asked_for_when_it_came_is_not_strange_later() -> None:
    """A subscription that has ended is not known for ever."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    interest.unsubscribe(ENDPOINT, "acme/>", 1)
    assert not [*unwanted.absorb([row("acme/x")], interest, 100.0)]
    assert not [*unwanted.excuse(interest)]
    interest.subscriptions.clear()
    assert not [*unwanted.absorb([row("other/x", offset=7)], interest, 101.0)]
    assert not [*unwanted.excuse(interest)]
    assert judged(unwanted, interest, 200.0) == [("unexpected", 1, "mesh.a.in.d/1/0/7")]


def test_a_moment_before_which_all_was_read_may_lie_before_the_suspicion() -> None:
    """Another Kafka cluster is read later."""
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    assert not [*unwanted.absorb([row("other/x")], interest, 100.0)]
    assert judged(unwanted, interest, 50.0) == []
    unwanted.go_ahead(-80.0)  # another process, whose clock is lower
    assert len(judged(unwanted, SubscriptionHistory(), 20.0 + UNWANTED_WAIT_S)) == 1


def test_suspicions_without_end_are_held_up_to_a_number_and_others_are_reported(
    monkeypatch,
) -> None:
    """While a Kafka cluster is not read nothing is judged, and all of it was held."""
    monkeypatch.setattr("streaming.audits.unwanted_deliveries.HELD_MAX", 5)
    unwanted, interest = UnwantedDeliveries("mesh."), SubscriptionHistory()
    rows = [replace(row("other/x"), source=SourceKey("dd", number)) for number in range(20)]
    findings = [*unwanted.absorb(rows, interest, 100.0), *unwanted.absorb(rows, interest, 101.0)]
    assert len(unwanted.held) == 5
    assert {(one.kind.value, one.endpoint, one.count) for one in findings} == {
        ("unproven", "b/s1", 1)
    }
    assert (len(findings), len({one.id for one in findings})) == (30, 1)
    assert judged(unwanted, interest, 101.0) == [], "many are no reason to judge early"
    assert len(judged(unwanted, interest, 200.0)) == 5
