"""Direct messages that nobody asked for: told once it is sure that nobody did. Spec: K31."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mesh.model.control import EndpointKind, Subscription
from streaming.audits.interest import EndpointKey, Interest
from streaming.audits.matching import pattern_of, selects
from streaming.audits.names import Names
from streaming.audits.unwanted_deliveries import (
    UNWANTED_WAIT_S,
    UnwantedDeliveries,
    wanted_patterns,
)
from streaming.tables.rows import SourceKey, TopicPartition, UnwantedRow

PLACE = TopicPartition("mesh.b.ep.s1", 0)
SOURCE = SourceKey("dd", 1)
ENDPOINT = EndpointKey("b", "s1")


def row(*subjects: str, offset: int = 3) -> UnwantedRow:
    return UnwantedRow(PLACE, SOURCE, 1, offset, offset, offset, offset, subjects)


def judged(
    unwanted: UnwantedDeliveries, interest: Interest, now_s: float
) -> list[tuple[str, int, str]]:
    names = Names(topics={"dd": "mesh.a.in.d"})
    return [
        (one.kind.value, one.count, one.ids[0]) for one in unwanted.judge(interest, names, now_s)
    ]


def test_what_nobody_has_asked_for_is_unexpected() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert not [*unwanted.absorb([row("other/x")], 100.0)]
    assert not [*unwanted.absorb([row("other/y", offset=7)], 101.0)]
    assert judged(unwanted, interest, 100.0 + UNWANTED_WAIT_S - 1) == []
    assert judged(unwanted, interest, 100.0 + UNWANTED_WAIT_S) == [
        ("unexpected", 2, "mesh.a.in.d/1/0/3-7")
    ]
    assert judged(unwanted, interest, 200.0) == []


def test_a_subscription_that_is_read_after_its_first_messages_counts() -> None:
    """Each Kafka cluster is read by itself; one that has ended counts as well."""
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    assert not [*unwanted.absorb([row("acme/x")], 100.0)]
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    interest.unsubscribe(ENDPOINT, "acme/>", 1)
    assert judged(unwanted, interest, 200.0) == []


@pytest.mark.parametrize(("policy", "count"), [("any", 0), ("every", 1)])
def test_what_another_member_of_a_queue_asks_for_may_have_been_moved(
    policy: str, count: int
) -> None:
    """Spec: DESIGN 6."""
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    asked = Subscription(EndpointKind.QUEUE, policy=policy)
    interest.subscribe(ENDPOINT, "acme/>", asked, 0)
    interest.subscribe(EndpointKey("c", "S1"), "other/>", asked, 0)
    assert not [*unwanted.absorb([row("other/x")], 100.0)]
    assert len(judged(unwanted, interest, 200.0)) == count
    assert not [*unwanted.absorb([row("nobody/x")], 200.0)]
    assert len(judged(unwanted, interest, 300.0)) == 1


def test_a_subscription_of_which_only_the_end_is_left_counts() -> None:
    """A fresh auditor reads `clients` as compaction has left it."""
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    interest.unsubscribe(ENDPOINT, "acme/>", 7)
    assert not [*unwanted.absorb([row("acme/x")], 100.0)]
    assert judged(unwanted, interest, 200.0) == []
    assert not [*unwanted.absorb([row("other/x")], 200.0)]
    assert len(judged(unwanted, interest, 300.0)) == 1


def test_one_without_a_subject_is_wanted_by_nobody() -> None:
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    interest.subscribe(ENDPOINT, ">", Subscription(), 0)
    assert not [*unwanted.absorb([row()], 100.0)]
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
    interest = Interest()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert list(wanted_patterns("mesh.", interest)) == ["mesh.b.ep.s1"]


def test_what_had_been_asked_for_when_it_came_is_not_strange_later() -> None:
    """A subscription that has ended is not known for ever."""
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    interest.unsubscribe(ENDPOINT, "acme/>", 1)
    assert not [*unwanted.absorb([row("acme/x")], 100.0)]
    unwanted.excuse(interest)
    interest.subscriptions.clear()
    assert not [*unwanted.absorb([row("other/x", offset=7)], 101.0)]
    unwanted.excuse(interest)
    assert judged(unwanted, interest, 200.0) == [("unexpected", 1, "mesh.a.in.d/1/0/7")]


def test_a_moment_before_which_all_was_read_may_lie_before_the_suspicion() -> None:
    """Another Kafka cluster is read later."""
    unwanted = UnwantedDeliveries("mesh.")
    assert not [*unwanted.absorb([row("other/x")], 100.0)]
    assert judged(unwanted, Interest(), 50.0) == []
    unwanted.go_ahead(-80.0)  # another process, whose clock is lower
    assert len(judged(unwanted, Interest(), 20.0 + UNWANTED_WAIT_S)) == 1


def test_suspicions_without_end_are_held_up_to_a_number_and_others_are_reported(
    monkeypatch,
) -> None:
    """While a Kafka cluster is not read nothing is judged, and all of it was held."""
    monkeypatch.setattr("streaming.audits.unwanted_deliveries.HELD_MAX", 5)
    unwanted, interest = UnwantedDeliveries("mesh."), Interest()
    rows = [replace(row("other/x"), source=SourceKey("dd", number)) for number in range(20)]
    findings = [*unwanted.absorb(rows, 100.0), *unwanted.absorb(rows, 101.0)]
    assert len(unwanted.held) == 5
    assert {(one.kind.value, one.endpoint, one.count) for one in findings} == {
        ("unproven", "b/s1", 1)
    }
    assert (len(findings), len({one.id for one in findings})) == (30, 1)
    assert judged(unwanted, interest, 101.0) == [], "many are no reason to judge early"
    assert len(judged(unwanted, interest, 200.0)) == 5
