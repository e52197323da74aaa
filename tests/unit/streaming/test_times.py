"""When what a certificate speaks for was routed, as ledgers tell it. Spec: K5, K29."""

from __future__ import annotations

from mesh.model.state import Ledger, SourceRange
from streaming.audits.times import GRAIN_MS, TIMES_MAX, RoutedTimes
from tests.unit.streaming.certified import PLACE, Table, table  # noqa: F401

NOW_MS = 1_700_000_000_000


def routed(of: Table, first: int, end: int, at_ms: int, topic: str = PLACE.topic) -> None:
    source = SourceRange(topic, b"", PLACE.partition, first, end, end - first)
    ledger = Ledger(node="a", lane=0, lane_epoch=1, sources=[source])
    of.certifier.blocks.tell_times(ledger, at_ms)


def times(of: Table) -> list[tuple[int | None, int | None]]:
    found = [(one.first_ms, one.last_ms) for one in of.certifier.unpublished.values()]
    of.certifier.unpublished.clear()
    return found


def test_a_time_is_a_second_too_early_at_most_and_never_too_late():
    of = RoutedTimes()
    for offset in range(0, 100, 10):
        of.note(offset, NOW_MS + offset * 70)
    told = [of.at(offset) for offset in range(100)]
    late = [NOW_MS + offset // 10 * 700 - at for offset, at in enumerate(told) if at is not None]
    assert len(late) == 100
    assert min(late) == 0
    assert max(late) < GRAIN_MS
    assert of.at(-1) is None


def test_what_was_told_first_counts_and_marks_stay_few():
    of = RoutedTimes()
    for number in range(10 * TIMES_MAX):
        of.note(number, NOW_MS + number * GRAIN_MS)
        assert len(of.known) <= TIMES_MAX
        assert of.at(number) == NOW_MS + number * GRAIN_MS
    of.note(5, NOW_MS + 10**9)  # read again, of a former generation or by a stranger
    assert of.at(5) == NOW_MS
    of.forget(9 * TIMES_MAX)
    assert of.known[0].offset <= 9 * TIMES_MAX < of.known[1].offset


def test_a_certificate_tells_when_its_messages_were_routed(table):  # noqa: F811
    """However long after that the auditor reads them, and nothing of what came since."""
    routed(table, 0, 2, NOW_MS)
    routed(table, 2, 3, NOW_MS + 5000)
    routed(table, 3, 9, NOW_MS + 60_000)
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.judge(600.0)
    assert times(table) == [(NOW_MS, NOW_MS + 5000)]


def test_a_ledger_that_is_read_later_tells_the_time_of_what_is_certified(table):  # noqa: F811
    table.publish(0, 1)
    table.deliver(0, 1)
    table.judge()
    assert times(table) == [(None, None)]
    routed(table, 0, 1, NOW_MS)
    routed(table, 1, 2, NOW_MS + 5000)
    table.judge()
    assert times(table) == [(NOW_MS, NOW_MS + 5000)]
    routed(table, 2, 3, NOW_MS + 9000)
    table.judge()
    assert times(table) == []


def test_a_topic_that_was_recreated_has_times_of_its_own(table):  # noqa: F811
    routed(table, 0, 9, NOW_MS)
    table.certifier.blocks.forget_recreated(PLACE, 0)
    routed(table, 0, 9, NOW_MS + 5000)
    assert table.certifier.blocks.times[PLACE].at(8) == NOW_MS + 5000


def test_ledgers_of_other_topics_and_below_all_offsets_tell_nothing(table):  # noqa: F811
    routed(table, 0, 9, NOW_MS, "mesh.a.in.d")
    routed(table, 0, 9, NOW_MS, "mesh.b.to.a.g")
    routed(table, 0, 9, NOW_MS, "else")
    routed(table, -9, 9, NOW_MS)
    assert not table.certifier.blocks.times
