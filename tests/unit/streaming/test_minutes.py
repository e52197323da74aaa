"""What crossed each link, by the minute and by the hour. Spec: DESIGN 7, K22."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.minutes import MINUTE_MS, PENDING_MAX, Crossed, LinkMinutes, MinutesReport
from streaming.audits.tickets import PositionKey
from streaming.tables.rows import MinuteRow, SmallRow, SourceKey, TopicPartition

FIRST = 600
OUTBOX = TopicPartition("mesh.a.to.b.g", 0)
HOMES = {"a": "k", "b": "far", "c": "k"}
TOPOLOGY = Topology(
    name="m",
    kafka={name: DeclaredKafka(name=name) for name in ("k", "far")},
    nodes={name: Node(name=name, kafka=kafka) for name, kafka in HOMES.items()},
    zones={"Z": Zone.full_mesh("Z", ZoneKind.ONE_HOP, ["a", "b", "c"])},
)


def sent(minute: int, messages: int, letter: str = "g", repairs: int = 0) -> MinuteRow:
    topic = TopicPartition(f"mesh.a.to.b.{letter}", -1)
    return MinuteRow(topic, minute, None, messages, repairs, messages * 10)


@dataclass
class Followed:
    """Minutes of Kafka cluster `k`, whose heartbeats the test writes."""

    minutes: LinkMinutes = field(default_factory=lambda: LinkMinutes("mesh."))

    def at(self, minute: float, *rows: MinuteRow) -> list[MinutesReport]:
        """Take a batch that ends with a heartbeat of that minute, and return what is told."""
        beat = SmallRow(
            TopicPartition("mesh.a.control", 0), 0, "heartbeat", b"", int(minute * MINUTE_MS)
        )
        self.minutes.absorb(rows, [beat], "k", TOPOLOGY)
        return list(self.minutes.take("k"))

    def waits(self, read: int) -> None:
        """Look at an outbox of ten records of which so many were read."""
        heads = {ChainKey(OUTBOX, SourceKey("aa", one)): ChainHead(5, 9 - one) for one in (0, 1)}
        self.minutes.look("k", heads, {PositionKey("b", OUTBOX): read}, HOMES)


@pytest.fixture
def followed() -> Followed:
    made = Followed()
    assert made.at(FIRST) == []
    return made


def of_links(told: Sequence[MinutesReport]) -> list[tuple[str, int, int, Crossed]]:
    return [(one.of, one.first, one.minutes, one.crossed) for one in told if one.crossed]


def of_kafkas(told: Sequence[MinutesReport]) -> list[tuple[str, int, int]]:
    return [
        (one.of, one.first, one.minutes) for one in told if one.crossed is None and one.span == 1
    ]


def test_a_minute_is_told_once_it_is_over_and_what_was_open_in_it_has_shown(
    followed: Followed,
) -> None:
    """By class, repairs apart; a link that carried nothing is covered by its Kafka cluster."""
    assert followed.at(FIRST + 1.5, sent(FIRST + 1, 4), sent(FIRST + 1, 3, "d")) == []
    assert followed.at(FIRST + 2.1, sent(FIRST + 1, 2, repairs=5)) == []
    told = followed.at(FIRST + 2.5, sent(FIRST + 2, 9))
    crossed = Crossed(guaranteed=6, direct=3, guaranteed_bytes=60, direct_bytes=30, repairs=5)
    assert of_links(told) == [("a->b", FIRST + 1, 1, crossed)]
    assert of_kafkas(told) == [("k", FIRST + 1, 1)]
    assert of_kafkas(followed.at(FIRST + 4.5)) == [("k", FIRST + 2, 1), ("k", FIRST + 3, 1)]


def test_the_minute_in_which_an_auditor_begins_is_not_told(followed: Followed) -> None:
    """What was deleted of it before, nobody knows; the same holds after a loss."""
    assert of_kafkas(followed.at(FIRST + 2.5, sent(FIRST, 7))) == [("k", FIRST + 1, 1)]
    followed.minutes.lose("k")
    assert followed.at(FIRST + 5.1, sent(FIRST + 3, 1)) == []
    assert of_kafkas(followed.at(FIRST + 7.5)) == [("k", FIRST + 6, 1)]


def test_what_shows_up_late_counts_in_the_next_minute(followed: Followed) -> None:
    """A message is counted once, whenever it is read."""
    followed.at(FIRST + 2.5)
    told = followed.at(FIRST + 3.5, sent(FIRST + 1, 8))
    assert [(first, one.guaranteed) for _, first, _, one in of_links(told)] == [(FIRST + 2, 8)]


def test_changes_of_interest_count_for_the_links_that_they_are_offered_on(
    followed: Followed,
) -> None:
    """In its zone for all neighbours; a scope that is none, or another zone's, for nobody."""
    topic = TopicPartition("mesh.b.control", -1)
    rows = [
        MinuteRow(topic, FIRST + 1, scope, 3)
        for scope in ("Z:/own", "Z:c/own", "Y:/own", "nonsense")
    ]
    told = followed.at(FIRST + 2.5, *rows)
    assert [(of, one.control) for of, _, _, one in of_links(told)] == [("a->b", 3), ("c->b", 6)]


def test_what_waits_is_the_fewest_of_a_minute(followed: Followed) -> None:
    """A busy link has always something on its way: only what nobody fetches stays."""
    followed.at(FIRST + 1.1)
    for read in (4, 10, 6):
        followed.waits(read)
    followed.at(FIRST + 2.1)
    followed.waits(7)
    told = followed.at(FIRST + 3.5)
    assert [(first, one.waited) for _, first, _, one in of_links(told)] == [(FIRST + 2, 3)]


def test_an_hour_is_told_when_it_is_over(followed: Followed) -> None:
    """Sums, the most that waited, and how many of its minutes were read."""
    for minute in (5, 10):
        followed.at(FIRST + minute + 0.1, sent(FIRST + minute, minute))
        followed.waits(minute)
    told = followed.at(FIRST + 62.5)
    (hour,) = [one for one in told if one.span == 60 and one.crossed]
    assert (hour.of, hour.first, hour.minutes) == ("a->b", FIRST, 59)
    assert hour.crossed == Crossed(guaranteed=15, guaranteed_bytes=150, waited=5)
    assert [one.key for one in told if one.span == 60] == ["a->b 10", "k 10"]


def test_a_clock_that_jumps_begins_anew(followed: Followed) -> None:
    """Neither a day of empty minutes nor one that is never told."""
    assert followed.at(FIRST + PENDING_MAX + 3.5) == []
    assert of_kafkas(followed.at(FIRST + PENDING_MAX + 5.5)) == [("k", FIRST + PENDING_MAX + 4, 1)]
    assert followed.at(FIRST) == []
    assert of_kafkas(followed.at(FIRST + 2.5)) == [("k", FIRST + 1, 1)]


def test_a_subscription_called_heartbeat_is_no_clock(followed: Followed) -> None:
    """Clients choose the time stamps of their records."""
    odd = SmallRow(TopicPartition("mesh.a.clients", 0), 0, "heartbeat", b"", 2**52)
    followed.minutes.absorb([], [odd], "k", TOPOLOGY)
    assert followed.minutes.clocks["k"] == FIRST * MINUTE_MS
