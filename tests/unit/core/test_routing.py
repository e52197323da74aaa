"""Routes join the forwarding table with interest; every refusal has one reason."""

from __future__ import annotations

import pytest

from mesh.core.interest import Member
from mesh.core.routing import PUBLISHED_HERE, Arrival, LocalLink, Router
from mesh.model.control import Ownership, Wish
from mesh.model.frames import MessageClass
from mesh.model.reasons import Reason
from mesh.model.topology import ZoneKind

G, D = MessageClass.GUARANTEED, MessageClass.DIRECT
LINKS = [
    LocalLink("b", "ONE", ZoneKind.ONE_HOP),
    LocalLink("c", "MULTI", ZoneKind.MULTI_HOP),
    LocalLink("x", "EXT", ZoneKind.EXTERNAL),
]


@pytest.fixture
def router() -> Router:
    router = Router(LINKS)
    for link in LINKS:
        router.table.put("a/>", Member(link.zone, link.neighbour), Wish())
    router.table.put("a/*", Member("", "here"), Wish())
    return router


def test_published_here_goes_everywhere_wanted(router: Router) -> None:
    """Spec: DESIGN 3."""
    route = router.route("a/1", PUBLISHED_HERE, G)
    assert (route.neighbours, route.endpoints) == (("b", "c", "x"), ("here",))
    assert router.route("z", PUBLISHED_HERE, G).refused == tuple(
        (name, Reason.NO_INTEREST) for name in "bcx"
    )


def test_arrival_rules_come_before_interest(router: Router) -> None:
    """Spec: DESIGN 3, lab.md 2."""
    from_one = router.route("z", Arrival("ONE", "b"), G)
    assert dict(from_one.refused)["b"] in (Reason.ARRIVAL_LINK, Reason.ARRIVAL_ZONE)
    crossed = router.route("a/1", Arrival("ONE", "b", crossed_external=True), G)
    assert dict(crossed.refused)["x"] is Reason.NO_TRANSIT
    assert crossed.neighbours == ("c",)


def test_a_message_that_crossed_an_external_link_follows_own_interest_only() -> None:
    """Spec: K22, DMR-4."""
    router = Router(LINKS)
    router.table.put("a", Member("MULTI", "c", Ownership.FOREIGN), Wish())
    assert router.route("a", PUBLISHED_HERE, G).neighbours == ("c",)
    assert router.route("a", Arrival("ONE", "b", crossed_external=True), G).neighbours == ()


def test_direct_needs_a_live_wish() -> None:
    """Spec: K19."""
    router = Router(LINKS)
    router.table.put("a", Member("MULTI", "c"), Wish(durable=True, live=False))
    assert router.route("a", PUBLISHED_HERE, G).neighbours == ("c",)
    assert ("c", Reason.NODE_DOWN) in router.route("a", PUBLISHED_HERE, D).refused
    router.down["b"] = None
    router.forget()
    assert ("b", Reason.NODE_DOWN) in router.route("a", PUBLISHED_HERE, D).refused
    assert ("b", Reason.NO_INTEREST) in router.route("a", PUBLISHED_HERE, G).refused


def test_equal_routes_are_one_object(router: Router) -> None:
    """Frames whose messages all have one route are handed on untouched."""
    assert router.route("a/1", PUBLISHED_HERE, G) is router.route("a/2", PUBLISHED_HERE, G)
