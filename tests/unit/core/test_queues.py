"""Who of a queue's members gets a message, and under which subjects copies leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.conditions import condition
from mesh.core.interest import InterestTable, Member
from mesh.core.local_links import local_links
from mesh.core.queues import Nearness
from mesh.core.routes import PUBLISHED_HERE, Arrival, Route
from mesh.core.routing import Router
from mesh.model.control import Interest
from mesh.model.frames import MessageClass
from mesh.model.joins import JoinRow
from mesh.model.queues import Attraction, MemberKind, addressed, addresses_of, queue_address
from mesh.model.topology import Topology

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"], ["b", "d"]]}},
    }
)
VIA = {"b": "b", "c": "c", "d": "b"}
"""Neighbour of a over which a node is reached."""

FROM_B = Arrival("Z", "b")
FROM_C = Arrival("Z", "c")


def router(*members: tuple[str, str, MemberKind], filter_: str = "x/>") -> Router:
    """Return the router of a, which knows these members: queue, node, kind."""
    made = Router(local_links(TOPOLOGY, "a"), near=Nearness(TOPOLOGY, "a"))
    for queue, node, kind in members:
        member = Member("Z", VIA[node]) if node in VIA else Member("", queue)
        made.table.put(str(Attraction(queue, node, kind, filter_)), member, Interest())
        made.table.put(queue_address(queue, node), member, Interest())
    return made


def published(made: Router, subject: str = "x/1") -> Route:
    return made.route(subject, PUBLISHED_HERE, MessageClass.GUARANTEED)


def test_the_nearest_member_gets_it_and_among_equals_the_first_by_name() -> None:
    """Spec: DESIGN 6."""
    assert published(router(("q", "d", MemberKind.ANY), ("q", "c", MemberKind.ANY))).neighbours == (
        "c",
    )
    assert published(router(("q", "c", MemberKind.ANY), ("q", "b", MemberKind.ANY))).neighbours == (
        "b",
    )
    route = published(router(("q", "b", MemberKind.ANY), ("q", "a", MemberKind.ANY)))
    assert (route.neighbours, route.endpoints) == ((), ("q",))


def test_names_of_queues_differ_in_more_than_case() -> None:
    route = published(router(("q", "d", MemberKind.ANY), ("Q", "c", MemberKind.ANY)))
    assert route.addressed == (("c", "$queue/Q/c"),)


def test_each_queue_has_a_copy_and_a_link_one_message() -> None:
    """What a channel behind the same link wants goes in the same copy. Spec: K11."""
    made = router(("q", "b", MemberKind.ANY), ("r", "d", MemberKind.HOME))
    made.table.put("x/>", Member("Z", "b"), Interest())
    made.table.put("x/*", Member("Z", "c"), Interest())
    route = published(made)
    assert route.neighbours == ("b", "c")
    assert route.addressed == (("b", addressed(["x/1", "$queue/q/b", "$queue/r/d"])),)


def test_subjects_without_number_leave_no_routes_behind() -> None:
    """Where a channel shares a copy with a queue, the route names the subject. Spec: K11."""
    made = router(("q", "b", MemberKind.ANY))
    made.table.put("x/>", Member("Z", "b"), Interest())
    for number in range(100):
        named = addressed([f"x/{number}", "$queue/q/b"])
        assert published(made, f"x/{number}").addressed == (("b", named),)
    assert len(made._routes) < 5


def test_subjects_in_transit_leave_no_routes_behind_where_headers_decide() -> None:
    """Behind a link that selects, the client's subject must not stand alone. Spec: EMS-14."""
    made = router(("q", "b", MemberKind.ANY))
    made.links = [replace(one, when=(condition("headers.x == 'y'"),)) for one in made.links]
    made.table.put("x/>", Member("Z", "b"), Interest())
    for number in range(100):
        named = addressed([f"x/{number}", "$queue/q/b"])
        route = made.route(named, FROM_C, MessageClass.GUARANTEED)
        assert made.selected(route, named, [("x", b"y")]).addressed == (("b", named),)
        assert made.selected(route, named, []).addressed == (("b", "$queue/q/b"),)
    assert len(made._routes) < 10


def test_other_routes_have_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each message is for another queue that has left. Spec: DESIGN 4.6, K26."""
    monkeypatch.setattr("mesh.core.routing.ROUTES_MAX", 10)
    made = router()
    for number in range(100):
        queue = f"q{number}"
        route = made.route(queue_address(queue, "a"), FROM_B, MessageClass.GUARANTEED)
        assert route.homeless == (queue,)
        assert len(made._routes) <= 10


def test_a_message_under_several_addresses_goes_to_all_of_them() -> None:
    """Spec: K26."""
    made = router(
        ("q", "a", MemberKind.ANY), ("q", "c", MemberKind.ANY), ("r", "c", MemberKind.ANY)
    )
    made.table.put("x/>", Member("", "channel"), Interest())
    named = addressed(["x/1", "$queue/q/a", "$queue/r/c"])
    assert list(addresses_of(named)) == ["x/1", "$queue/q/a", "$queue/r/c"]
    route = made.route(named, FROM_B, MessageClass.GUARANTEED)
    assert (route.neighbours, route.endpoints) == (("c",), ("channel", "q"))
    assert [neighbour for neighbour, _ in route.refused] == ["b"]


def test_members_are_chosen_only_where_a_message_is_published() -> None:
    """Spec: EMS-12: a message of another node is on its way to whom that has chosen."""
    made = router(("q", "a", MemberKind.ANY), ("q", "c", MemberKind.ANY))
    route = made.route("x/1", FROM_B, MessageClass.GUARANTEED)
    assert (route.neighbours, route.endpoints) == ((), ())


def test_local_queues_get_what_is_published_here_and_what_joins_bring() -> None:
    """Spec: UM-7."""
    made = router(("q", "a", MemberKind.LOCAL))
    assert published(made).endpoints == ("q",)
    assert made.route("x/1", FROM_B, MessageClass.GUARANTEED).endpoints == ()
    joined = Arrival("J", "b", row=JoinRow(1, 10))
    assert made.route("x/1", joined, MessageClass.GUARANTEED).endpoints == ("q",)


def test_a_proxy_without_its_home_says_so() -> None:
    """Spec: EMS-12."""
    assert published(router(("q", "a", MemberKind.PROXY))).homeless == ("q",)
    route = published(router(("q", "a", MemberKind.PROXY), ("q", "b", MemberKind.HOME)))
    assert (route.homeless, route.neighbours, route.endpoints) == ((), ("b",), ())


def test_what_attracts_to_a_queue_matches_no_subject_by_itself() -> None:
    """Nor does it use up the shapes of filters. Spec: K26, DESIGN 3."""
    table = InterestTable()
    entry = str(Attraction("q", "b", MemberKind.ANY, "*/x/>"))
    assert table.put(entry, Member("Z", "b"), Interest())
    assert not table._index.shapes
    assert [one.filter for one in table.attractions.all()] == ["*/x/>"]
    assert table.put(entry, Member("Z", "b"), None)
    assert not table.attractions


def test_entries_are_read_as_they_are_written() -> None:
    entry = Attraction("orders", "ny1", MemberKind.HOME, "acme/*/>")
    assert Attraction.parse(str(entry)) == entry
    for other in ("acme/>", "$node/u", "$queue/q/a", "$queue/q/a/most/x", "$queue/q/a/any"):
        assert Attraction.parse(other) is None


def test_nearness_counts_links_and_puts_strangers_last() -> None:
    near = Nearness(TOPOLOGY, "a")
    assert [near.links_to(node) for node in "abd"] == [0, 1, 2]
    alone: Topology = topology_from_mapping({"kafka": {"k": {}}, "nodes": {"a": {}, "b": {}}})
    assert Nearness(alone, "a").links_to("b") == 2


def test_a_copy_for_a_queue_that_left_says_so() -> None:
    """Spec: DESIGN 4.4."""
    made = router(("q", "c", MemberKind.ANY))
    assert made.route("$queue/q/a", FROM_B, MessageClass.GUARANTEED).homeless == ("q",)
    assert made.route("$queue/q/c", FROM_B, MessageClass.GUARANTEED).homeless == ()
    named = addressed(["x/1", "$queue/q/a", "$queue/q/c"])
    route = made.route(named, FROM_B, MessageClass.GUARANTEED)
    assert (route.homeless, route.neighbours) == (("q",), ("c",))
