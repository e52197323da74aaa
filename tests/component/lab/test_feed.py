"""The demo's feed: real flights in scheduled order, as valid messages at an even rate."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from mesh.config.legal import load_legal_topology
from mesh.errors import StartError
from mesh.lab.demo import feed as feed_module
from mesh.lab.demo.endpoints import ENDPOINTS, expected_counts
from mesh.lab.demo.feed import BOARD_EVERY, FlightFeed, load_feed
from mesh.lab.demo.pace import CATCH_UP, TICK_S, FlightPace
from mesh.lab.demo.stage import TOPOLOGY_FILE
from mesh.model.frames import MessageClass
from mesh.model.subject import subject_fault

COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
ROWS = (
    "2013,10,1,600,600,0,800,800,61,UA,1,N1,EWR,IAH,1,1,6,0,2013-10-01T10:00:00Z",
    "2013,2,1,900,900,0,1100,1100,60,UA,2,N2,JFK,LAX,1,1,9,0,2013-02-01T14:00:00Z",
    "2013,2,1,NA,830,NA,NA,1000,NA,MQ,3,NA,LGA,ORD,NA,1,8,30,2013-02-01T13:00:00Z",
    "2013,2,1,902,900,2,1101,1100,1,UA,4,N4,JFK,SFO,1,1,9,0,2013-02-01T14:00:00Z",
)


@pytest.fixture(scope="module")
def flights() -> FlightFeed:
    """The real feed."""
    return load_feed()


@pytest.fixture
def small(tmp_path: Path) -> FlightFeed:
    path = tmp_path / "flights.csv"
    path.write_text("\n".join((COLUMNS, *ROWS)) + "\n")
    return load_feed(path)


def test_feed_holds_every_flight_of_the_year_in_scheduled_order(flights: FlightFeed) -> None:
    assert len(flights) == 336_776
    schedule = [
        tuple(flights.flight(number)[name] for name in ("year", "month", "day", "sched_dep_time"))
        for number in range(0, len(flights), 7)
    ]
    assert all(one <= other for one, other in pairwise(schedule))
    assert schedule[0] == (2013, 1, 1, 515)


def test_feed_is_read_without_importing_its_package(flights: FlightFeed) -> None:
    assert feed_module.PACKAGE not in sys.modules


def test_feed_sorts_by_number_and_keeps_the_order_of_equal_times(small: FlightFeed) -> None:
    assert [small.flight(number)["flight"] for number in range(4)] == [3, 2, 4, 1]


def test_feed_begins_again_after_the_last_flight(small: FlightFeed) -> None:
    assert small.flight(4) == small.flight(0)


def test_missing_values_are_null_and_numbers_are_numbers(small: FlightFeed) -> None:
    (message, *_) = small.messages(0)
    row = json.loads(message.payload)
    assert list(row) == COLUMNS.split(",")
    assert (row["dep_time"], row["arr_delay"], row["tailnum"]) == (None, None, None)
    assert (row["year"], row["sched_dep_time"], row["carrier"]) == (2013, 830, "MQ")


def test_a_flight_is_published_at_its_airport_and_again_as_alert(small: FlightFeed) -> None:
    def told(number: int) -> list[tuple[str, str, str]]:
        return [(m.node, m.message_class.letter, m.subject) for m in small.messages(number)]

    assert told(1) == [("ny2", "g", "flights/JFK/UA/LAX")]  # an hour late is not yet an alert
    assert told(3) == [("ny1", "g", "flights/EWR/UA/IAH"), ("sg2", "g", "alerts/late/EWR/UA/IAH")]
    assert told(4) == [
        ("ny3", "g", "flights/LGA/MQ/ORD"),
        ("ld2", "g", "alerts/cancelled/LGA/MQ/ORD"),
    ]
    assert told(0)[2:] == [("sg2", "d", "board/LGA/ORD"), ("ld2", "d", "board/LGA/ORD")]


def test_every_subject_is_valid_and_every_endpoint_gets_something(flights: FlightFeed) -> None:
    topology = load_legal_topology(TOPOLOGY_FILE)
    published: Counter[tuple[str, MessageClass, str]] = Counter()
    for number in range(0, 60_000, BOARD_EVERY):
        for message in flights.messages(number):
            published[message.node, message.message_class, message.subject] += 1
    assert [s for _, _, s in published if subject_fault(s) is not None] == []
    expected = expected_counts(topology, published)
    assert [name for name, counts in expected.items() if not sum(counts.values())] == []
    assert {endpoint.node for endpoint in ENDPOINTS} == set(topology.nodes)


def test_expected_counts_are_what_filters_and_ways_say() -> None:
    topology = load_legal_topology(TOPOLOGY_FILE)
    guaranteed, direct = MessageClass.GUARANTEED, MessageClass.DIRECT
    expected = expected_counts(
        topology,
        {
            ("ny1", guaranteed, "flights/EWR/DL/ATL"): 3,
            ("sg2", guaranteed, "alerts/late/EWR/DL/ATL"): 2,
            ("ld2", direct, "board/EWR/ATL"): 1,
            ("tk1", guaranteed, "alerts/late/EWR/DL/ATL"): 50,  # no way from there to the clusters
        },
    )
    counts = {name: dict(of) for name, of in expected.items() if of}
    assert counts == {
        "ny1/delta": {guaranteed: 3},
        "ny2/newark": {guaranteed: 3},
        "ny3/atlanta": {guaranteed: 3},
        "pa2/all": {guaranteed: 3},
        "ld1/alerts": {guaranteed: 2},
        "ld2/late": {guaranteed: 2},
        "sg2/board": {direct: 1},
        "ld2/board": {direct: 1},
    }


@pytest.mark.parametrize("rate", [1, 300, 1000, 20_000])
def test_pace_is_even_and_exact(rate: float) -> None:
    pace = FlightPace(rate, total=int(rate * 10))
    sent, most = 0, 0
    for tick in range(1, int(10 / TICK_S) + 2):
        due = pace.due(tick * TICK_S, sent)
        sent, most = sent + due, max(most, due)
    assert sent == int(rate * 10)
    assert most <= rate * TICK_S + 1


def test_pace_makes_up_for_a_pause_without_a_flood() -> None:
    pace = FlightPace(1000.0, total=None)
    assert pace.due(10.0, 0) == 1000 * TICK_S * CATCH_UP
    assert pace.due(10.0, 10_000) == 0


def test_a_missing_table_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "PACKAGE", "no-such-package-of-flights")
    with pytest.raises(StartError, match=r"feed is not installed: pip install"):
        load_feed()
