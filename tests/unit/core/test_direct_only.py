"""Direct-only clusters: which class crosses their links, and what is reported of it."""

from __future__ import annotations

import pytest

from mesh.core.cutover import cut_over
from mesh.core.direct_only import direct_only_zone_of, guaranteed_part
from mesh.core.moving import Part, target_of
from mesh.core.queues import Nearness
from mesh.core.reach import compare_reach
from mesh.core.routes import PUBLISHED_HERE, Arrival, Route
from mesh.model.demands import QueueDemand
from mesh.model.queues import MemberKind
from mesh.model.reasons import Reason
from mesh.model.topology import Topology
from tests.unit.core.direct_only import PLAIN, TOPOLOGY, D, G, queued, router


def test_guaranteed_messages_stay_off_its_links_and_direct_ones_do_not() -> None:
    """Spec: DMR-11, lab.md 2 (`filter`)."""
    made = router(TOPOLOGY)
    route = made.route("x", PUBLISHED_HERE, G)
    assert (route.neighbours, route.endpoints) == (("z",), ("here",))
    assert dict(route.refused) == {"b": Reason.FILTER, "c": Reason.FILTER}
    assert made.route("x", PUBLISHED_HERE, D).neighbours == ("b", "c", "z")
    assert router(PLAIN).route("x", PUBLISHED_HERE, G).neighbours == ("b", "c", "z")


def test_the_forwarding_table_s_reason_comes_first() -> None:
    """Spec: lab.md 2."""
    refused = dict(router(TOPOLOGY).route("x", Arrival("C", "b"), G).refused)
    assert refused == {"b": Reason.ARRIVAL_LINK, "c": Reason.ARRIVAL_ZONE}


def test_announcements_of_lost_guaranteed_messages_do_not_cross_either() -> None:
    """Spec: DMR-11, R12."""
    made = router(TOPOLOGY)
    assert made.allowed(PUBLISHED_HERE, G) == ["z"]
    assert made.allowed(PUBLISHED_HERE, D) == ["b", "c", "z"]


def chosen(route: Route) -> tuple[str, ...]:
    return tuple(link for link, _ in route.addressed)


def test_a_member_behind_it_is_no_candidate_for_guaranteed_messages() -> None:
    """Spec: DMR-11, DESIGN 6."""
    made = queued(TOPOLOGY, ("b", MemberKind.ANY), ("z", MemberKind.ANY))
    assert chosen(made.route("x", PUBLISHED_HERE, G)) == ("z",)
    assert chosen(made.route("x", PUBLISHED_HERE, D)) == ("b",)
    assert chosen(
        queued(PLAIN, ("b", MemberKind.ANY), ("z", MemberKind.ANY)).route("x", PUBLISHED_HERE, G)
    ) == ("b",)


def test_a_home_behind_it_is_out_of_reach_and_that_is_counted() -> None:
    """Spec: DMR-11, EMS-12."""
    made = queued(TOPOLOGY, ("a", MemberKind.PROXY), ("b", MemberKind.HOME))
    assert made.route("x", PUBLISHED_HERE, G).homeless == ("q",)
    assert chosen(made.route("x", PUBLISHED_HERE, D)) == ("b",)


@pytest.mark.parametrize(
    ("part", "home", "target"),
    [(Part.ANY, None, "b"), (Part.HOME, "a", "b"), (Part.PROXY, "b", "b")],
)
def test_nothing_moves_over_its_links(part: Part, home: str | None, target: str) -> None:
    """Spec: DMR-11, DESIGN 6."""
    demands = [QueueDemand("q", "b", 1, 1, 5)]
    assert target_of(part, 0, demands, home, Nearness(PLAIN, "a")) == target
    assert target_of(part, 0, demands, home, Nearness(TOPOLOGY, "a")) is None


def test_the_zone_is_named() -> None:
    """Spec: DMR-11."""
    assert direct_only_zone_of(TOPOLOGY, "b") == "C"
    assert direct_only_zone_of(TOPOLOGY, "z") is None
    assert direct_only_zone_of(PLAIN, "b") is None


def test_a_plan_tells_whose_guaranteed_messages_reach_whom() -> None:
    """Spec: DMR-11, DESIGN 3."""
    lost = {one.source: list(one.lost) for one in compare_reach(PLAIN, TOPOLOGY).guaranteed}
    assert lost == {"a": ["b", "c"], "b": ["a", "c", "z"], "c": ["a", "b", "z"], "z": ["b", "c"]}
    gained = {one.source: list(one.gained) for one in compare_reach(TOPOLOGY, PLAIN).guaranteed}
    assert gained == lost
    assert compare_reach(PLAIN, PLAIN).guaranteed == []
    assert guaranteed_part(PLAIN) is PLAIN


@pytest.mark.parametrize(("before", "after"), [(PLAIN, TOPOLOGY), (TOPOLOGY, PLAIN)])
def test_sources_whose_walks_cross_it_hold_while_it_changes(
    before: Topology, after: Topology
) -> None:
    """What is under way must not meet a node that goes by the other rule. Spec: DMR-11, K28."""
    cut = cut_over(before, after)
    assert list(cut.holding) == ["a", "b", "c", "z"]
    assert ("z", "a") in cut.drain_waves[0]
    assert list(cut_over(before, before).holding) == []
