"""Canaries: which ways they go, when, and what is told of them."""

from __future__ import annotations

import pytest

from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.joins import Join
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.canaries import EVERY_S, LOST_S, RECENT_MAX, Canaries, CanaryWay, ways_of


def mesh(*zones: Zone, **more: object) -> Topology:
    """Nodes a to d on one Kafka cluster."""
    return Topology(
        name="m",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={name: Node(name=name, kafka="k") for name in "abcd"},
        zones={zone.name: zone for zone in zones},
        **more,
    )


EU = Zone.full_mesh("EU", ZoneKind.ONE_HOP, "ab")
WO = Zone.of_links("WO", ZoneKind.MULTI_HOP, [("b", "c")])
US = Zone.full_mesh("US", ZoneKind.ONE_HOP, "cd")


def told(topology: Topology) -> dict[str, str]:
    return {str(way): ",".join(what) for way, what in ways_of(topology).items()}


def test_one_goes_each_way_of_a_link_and_from_each_zone_to_each_other() -> None:
    assert told(mesh(EU, WO, US)) == {
        "a->b": "EU",
        "b->a": "EU",
        "b->c": "WO",
        "c->b": "WO",
        "c->d": "US",
        "d->c": "US",
        "a->c": "EU>US,EU>WO",
        "c->a": "US>EU,WO>EU",
        "b->d": "WO>US",
        "d->b": "US>WO",
    }


@pytest.mark.parametrize(
    "more",
    [
        {"interest": (InterestControl("b", ControlKind.LOCAL, "audit-canary/>"),)},
        {"interest": (InterestControl("b", ControlKind.LOCAL, ">"),)},
    ],
)
def test_none_goes_where_it_may_be_refused(more: dict[str, object]) -> None:
    assert told(mesh(EU, **more)) == {}


def test_none_goes_over_a_join() -> None:
    join = Zone.of_join(Join(zone="J", source="b", target="c", filter="acme/>"))
    assert set(told(mesh(EU, join))) == {"a->b", "b->a"}


AB = CanaryWay("a", "b")


@pytest.fixture
def canaries() -> Canaries:
    made = Canaries("r1")
    made.follow({AB: ("EU",), CanaryWay("b", "a"): ("EU",)}, 100.0)
    return made


def test_one_goes_every_ten_seconds_and_the_first_after_ten(canaries: Canaries) -> None:
    """By then its endpoint is asked for. Each Kafka cluster sends those of its own nodes."""
    assert list(canaries.go(["a"], 100.0 + EVERY_S - 1)) == []
    assert list(canaries.go(["a"], 100.0 + EVERY_S)) == [(AB, 1)]
    assert list(canaries.go(["a"], 101.0 + EVERY_S)) == []
    assert list(canaries.go(["b"], 101.0 + EVERY_S)) == [(CanaryWay("b", "a"), 2)]
    assert list(canaries.go(["a"], 100.0 + 2 * EVERY_S)) == [(AB, 3)]


def test_what_comes_is_timed_once_and_only_if_it_is_of_this_run(canaries: Canaries) -> None:
    assert list(canaries.go(["a"], 110.0)) == [(AB, 1)]
    for way, run, number in ((AB, "r0", 1), (CanaryWay("b", "a"), "r1", 1), (AB, "r1", 2)):
        canaries.come(way, run, number, 110.1)
    assert canaries.take_changed() == []
    canaries.come(AB, "r1", 1, 110.25)
    canaries.come(AB, "r1", 1, 110.5)
    ((way, what, tally),) = canaries.take_changed()
    assert (way, what, tally.sent, tally.arrived, tally.lost) == (AB, ("EU",), 1, 1, 0)
    assert tally.recent_s == [0.25]
    assert canaries.take_changed() == []


def test_what_does_not_come_is_lost_after_a_minute(canaries: Canaries) -> None:
    assert list(canaries.go(["a"], 110.0)) == [(AB, 1)]
    canaries.lapse(110.0 + LOST_S - 1)
    assert canaries.take_changed() == []
    canaries.lapse(110.0 + LOST_S)
    canaries.come(AB, "r1", 1, 111.0 + LOST_S)
    ((_, _, tally),) = canaries.take_changed()
    assert (tally.arrived, tally.lost) == (0, 1)


def test_only_the_newest_are_kept(canaries: Canaries) -> None:
    for number in range(1, 3 * RECENT_MAX):
        now_s = 100.0 + EVERY_S * number
        assert list(canaries.go(["a"], now_s)) == [(AB, number)]
        canaries.come(AB, "r1", number, now_s + number)
    assert canaries.tallies[AB].recent_s == [
        float(n) for n in range(2 * RECENT_MAX, 3 * RECENT_MAX)
    ]


def test_another_topology_keeps_the_counts_of_ways_that_stay(canaries: Canaries) -> None:
    assert list(canaries.go(["a", "b"], 110.0)) == [(AB, 1), (CanaryWay("b", "a"), 2)]
    canaries.follow({AB: ("EU",), CanaryWay("a", "c"): ("WO",)}, 111.0)
    canaries.come(CanaryWay("b", "a"), "r1", 2, 111.0)
    assert (canaries.tallies[AB].sent, CanaryWay("b", "a") in canaries.tallies) == (1, False)
    assert list(canaries.go(["a"], 120.0)) == [(AB, 3)]
    assert list(canaries.go(["a"], 121.0)) == [(CanaryWay("a", "c"), 4)]


@pytest.mark.parametrize("subject", ["", "audit-canary", "audit-canary/a", "x/a/b", "a/b/c/d"])
def test_other_subjects_are_no_way(subject: str) -> None:
    assert CanaryWay.of(subject) is None
    assert CanaryWay.of(AB.subject) == AB
