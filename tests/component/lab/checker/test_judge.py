"""The checker sees every anomaly in hand-written histories, and none in innocent look-alikes.

Spec: DESIGN 6, K25, reliability.md 4.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.errors import InvariantError
from mesh.lab.checker.history import PublishOutcome
from mesh.lab.checker.judge import IDS_MAX, check
from tests.component.lab.checker.histories import ENDPOINT, Run, Spoil, held, publish, wanted


def change(run: Run, index: int, **changes: object) -> None:
    run.publishes[index] = replace(run.publishes[index], **changes)


def change_held(run: Run, index: int, **changes: object) -> None:
    run.held[index] = replace(run.held[index], **changes)


def drop(*indices: int) -> Spoil:
    def spoil(run: Run) -> None:
        run.held = [one for n, one in enumerate(run.held) if n not in indices]

    return spoil


def together(run: Run, **changes: object) -> None:
    """Make messages 2, 3 and 4 one transaction of their publisher."""
    for index in (2, 3, 4):
        change(run, index, transaction=1, **changes)


def undrained(run: Run) -> None:
    drop(5)(run)
    run.drained = False


def nobody_drained_all(run: Run) -> None:
    run.held, run.drained = [], False


def twice_in_a_row(run: Run) -> None:
    run.held.insert(3, run.held[2])


def twice_on_another_partition(run: Run) -> None:
    run.held.append(held(run.publishes[0], partition=3))


def unknown_twice(run: Run) -> None:
    change(run, 1, outcome=PublishOutcome.UNKNOWN)
    run.held.append(run.held[1])


def direct_twice(run: Run) -> None:
    change(run, 1, guaranteed=False)
    run.held.append(run.held[1])


def two_swapped(run: Run) -> None:
    run.held[1], run.held[2] = run.held[2], run.held[1]


def first_comes_last(run: Run) -> None:
    run.held.append(run.held.pop(0))


def torn_in_the_middle(run: Run) -> None:
    together(run, outcome=PublishOutcome.UNKNOWN)
    drop(3)(run)


def torn_and_acknowledged(run: Run) -> None:
    together(run)
    drop(2, 4)(run)


def failed_and_there(run: Run) -> None:
    change(run, 4, outcome=PublishOutcome.FAILED)


def aborted_and_there(run: Run) -> None:
    together(run, outcome=PublishOutcome.FAILED)
    drop(3, 4)(run)


def made_up(run: Run) -> None:
    run.held.append(replace(run.held[0], payload="p-99"))


def no_filter_matches(run: Run) -> None:
    change(run, 2, subject="other/x")
    change_held(run, 2, subject="other/x")


def no_such_endpoint(run: Run) -> None:
    run.held.append(held(run.publishes[0], endpoint="c/orders"))


def after_the_end(run: Run) -> None:
    run.subscriptions = [wanted(ending_ms=60, ended_ms=103)]


def before_the_beginning(run: Run) -> None:
    run.subscriptions = [wanted(invoked_ms=200, effective_ms=210)]
    run.drains = [150]


def another_subject(run: Run) -> None:
    change_held(run, 1, subject="acme/y")


def another_key(run: Run) -> None:
    change_held(run, 1, key=None)


def another_header(run: Run) -> None:
    change_held(run, 1, headers="n=1;n=1")


def another_partition_of_origin(run: Run) -> None:
    change_held(run, 1, origin=("mesh.a.in.g", 1, 1))


def another_offset_of_origin(run: Run) -> None:
    change(run, 1, offset=1)
    change_held(run, 1, origin=("mesh.a.in.g", 0, 7))


def another_payload(run: Run) -> None:
    change(run, 1, offset=1, outcome=PublishOutcome.UNKNOWN)
    change_held(run, 1, payload="p-1x")


def lost_before_the_end_of_the_subscription(run: Run) -> None:
    run.subscriptions = [wanted(ending_ms=300, ended_ms=310)]
    run.drains = [200]
    drop(0)(run)


BAD: list[tuple[Spoil, str, list[str]]] = [
    (drop(2), "lost", ["p-2"]),
    (drop(0, 1, 2, 3, 4, 5), "lost", [f"p-{n}" for n in range(6)]),
    (lost_before_the_end_of_the_subscription, "lost", ["p-0"]),
    (undrained, "unseen", ["p-5"]),
    (nobody_drained_all, "unseen", [f"p-{n}" for n in range(6)]),
    (twice_in_a_row, "duplicated", ["p-2"]),
    (twice_on_another_partition, "duplicated", ["p-0"]),
    (unknown_twice, "duplicated", ["p-1"]),
    (direct_twice, "duplicated", ["p-1"]),
    (two_swapped, "reordered", ["p-1"]),
    (first_comes_last, "reordered", ["p-0"]),
    (torn_in_the_middle, "torn", ["p-3"]),
    (torn_and_acknowledged, "torn", ["p-2", "p-4"]),
    (failed_and_there, "resurrected", ["p-4"]),
    (aborted_and_there, "resurrected", ["p-2"]),
    (made_up, "phantom", ["p-99"]),
    (no_filter_matches, "phantom", ["p-2"]),
    (no_such_endpoint, "phantom", ["p-0"]),
    (after_the_end, "phantom", ["p-4", "p-5"]),
    (before_the_beginning, "phantom", [f"p-{n}" for n in range(6)]),
    (another_subject, "corrupt", ["p-1"]),
    (another_key, "corrupt", ["p-1"]),
    (another_header, "corrupt", ["p-1"]),
    (another_partition_of_origin, "corrupt", ["p-1"]),
    (another_offset_of_origin, "corrupt", ["p-1"]),
    (another_payload, "corrupt", ["p-1x"]),
]


@pytest.mark.parametrize(("spoil", "kind", "ids"), BAD)
def test_a_bad_history_is_seen(spoil: Spoil, kind: str, ids: list[str]) -> None:
    run = Run()
    spoil(run)
    verdict = check(run.history())
    found = {one.kind: one for one in verdict.anomalies}
    allowed = {"torn": {"torn", "lost"}}.get(kind, {kind})
    assert kind in found
    assert set(found) <= allowed
    assert list(found[kind].ids) == ids
    assert found[kind].count == len(ids)
    assert not verdict.ok


def calm(run: Run) -> None:
    pass


def unknown_and_absent(run: Run) -> None:
    change(run, 3, outcome=PublishOutcome.UNKNOWN)
    drop(3)(run)


def unknown_and_there(run: Run) -> None:
    change(run, 3, outcome=PublishOutcome.UNKNOWN)


def unknown_comes_late(run: Run) -> None:
    change(run, 1, outcome=PublishOutcome.UNKNOWN)
    run.held.append(run.held.pop(1))


def failed_and_absent(run: Run) -> None:
    change(run, 3, outcome=PublishOutcome.FAILED)
    drop(3)(run)


def direct_and_absent(run: Run) -> None:
    change(run, 3, guaranteed=False)
    drop(3)(run)


def another_key_overtakes(run: Run) -> None:
    change(run, 1, key="other")
    change_held(run, 1, key="other")
    two_swapped(run)


def another_partition_overtakes(run: Run) -> None:
    change(run, 1, partition=1)
    change_held(run, 1, partition=1, origin=("mesh.a.in.g", 1, 0))
    two_swapped(run)


def another_publisher_overtakes(run: Run) -> None:
    run.publishes.append(publish(0, "q"))
    run.held.insert(0, held(run.publishes[-1]))
    run.held.append(run.held.pop(0))


def not_yet_effective(run: Run) -> None:
    run.subscriptions = [wanted(invoked_ms=10, effective_ms=104)]
    drop(0, 2)(run)


def never_effective(run: Run) -> None:
    run.subscriptions = [wanted(effective_ms=None)]
    drop(0, 1, 2, 3, 4, 5)(run)


def ended_without_a_drain(run: Run) -> None:
    run.subscriptions = [wanted(ending_ms=300, ended_ms=310)]
    drop(5)(run)


def undelivered_at_the_beginning(run: Run) -> None:
    run.subscriptions = [wanted(invoked_ms=200, effective_ms=210)]


def a_direct_endpoint(run: Run) -> None:
    run.subscriptions = [wanted(guaranteed=False)]
    drop(1)(run)


def out_of_reach(run: Run) -> None:
    run.subscriptions.append(wanted(endpoint="c/orders"))


def nobody_wants_it(run: Run) -> None:
    change(run, 2, subject="other/x")
    drop(2)(run)


def two_filters_one_copy(run: Run) -> None:
    run.subscriptions.append(wanted("acme/*"))


def transaction_whole(run: Run) -> None:
    together(run)


def transaction_absent(run: Run) -> None:
    together(run, outcome=PublishOutcome.UNKNOWN)
    drop(2, 3, 4)(run)


def transaction_aborted(run: Run) -> None:
    together(run, outcome=PublishOutcome.FAILED)
    drop(2, 3, 4)(run)


def transaction_wanted_in_part(run: Run) -> None:
    together(run)
    change(run, 3, subject="other/x")
    drop(3)(run)


def identity_unknown(run: Run) -> None:
    change_held(run, 1, origin=None)


GOOD: list[Spoil] = [
    calm,
    unknown_and_absent,
    unknown_and_there,
    unknown_comes_late,
    failed_and_absent,
    direct_and_absent,
    another_key_overtakes,
    another_partition_overtakes,
    another_publisher_overtakes,
    not_yet_effective,
    never_effective,
    ended_without_a_drain,
    undelivered_at_the_beginning,
    a_direct_endpoint,
    out_of_reach,
    nobody_wants_it,
    two_filters_one_copy,
    transaction_whole,
    transaction_absent,
    transaction_aborted,
    transaction_wanted_in_part,
    identity_unknown,
]


@pytest.mark.parametrize("change_it", GOOD)
def test_an_innocent_look_alike_is_not(change_it: Spoil) -> None:
    run = Run()
    change_it(run)
    verdict = check(run.history())
    assert list(verdict.anomalies) == []
    assert verdict.ok


def test_a_lost_transaction_is_lost_and_not_torn() -> None:
    run = Run()
    together(run)
    drop(2, 3, 4)(run)
    assert [one.kind for one in check(run.history()).anomalies] == ["lost"]


def test_many_of_a_kind_are_counted_and_the_first_are_named() -> None:
    run = Run([publish(n) for n in range(100)])
    run.held = []
    [anomaly] = check(run.history()).anomalies
    assert (anomaly.count, len(anomaly.ids)) == (100, IDS_MAX)
    assert anomaly.text == f"{ENDPOINT}: 100 messages acknowledged, drained and not there"


def test_the_document_counts_what_was_published_and_delivered() -> None:
    run = Run()
    unknown_and_absent(run)
    change(run, 0, outcome=PublishOutcome.FAILED)
    document = check(run.history()).document()
    assert document["published"] == {"ok": 4, "failed": 1, "unknown": 1}
    assert (document["delivered"], document["owed"], document["ok"]) == (5, 4, False)


def test_a_number_used_twice_is_a_fault_of_the_lab() -> None:
    run = Run()
    run.publishes.append(run.publishes[0])
    with pytest.raises(InvariantError, match="p-0"):
        check(run.history())
