"""Routes join the forwarding table with interest; every refusal has one reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

from mesh.core.conditions import condition
from mesh.core.interest import JOINED, Member
from mesh.core.interest_controls import Locals
from mesh.core.local_links import LocalLink
from mesh.core.routes import PUBLISHED_HERE, Arrival
from mesh.core.routing import Router
from mesh.model.control import Interest, Ownership
from mesh.model.frames import MessageClass
from mesh.model.joins import Join, JoinRow
from mesh.model.link_modes import LinkMode
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
        router.table.put("a/>", Member(link.zone, link.neighbour), Interest())
    router.table.put("a/*", Member("", "here"), Interest())
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
    router.table.put("a", Member("MULTI", "c", Ownership.FOREIGN), Interest())
    assert router.route("a", PUBLISHED_HERE, G).neighbours == ("c",)
    assert router.route("a", Arrival("ONE", "b", crossed_external=True), G).neighbours == ()


def test_direct_needs_live_interest() -> None:
    """Spec: K19."""
    router = Router(LINKS)
    router.table.put("a", Member("MULTI", "c"), Interest(durable=True, live=False))
    assert router.route("a", PUBLISHED_HERE, G).neighbours == ("c",)
    assert ("c", Reason.NODE_DOWN) in router.route("a", PUBLISHED_HERE, D).refused
    router.follow("b", LinkMode.DOWN)
    assert ("b", Reason.NODE_DOWN) in router.route("a", PUBLISHED_HERE, D).refused
    assert ("b", Reason.NO_INTEREST) in router.route("a", PUBLISHED_HERE, G).refused


def test_equal_routes_are_one_object(router: Router) -> None:
    """Frames whose messages all have one route are handed on untouched."""
    assert router.route("a/1", PUBLISHED_HERE, G) is router.route("a/2", PUBLISHED_HERE, G)


def joined() -> Router:
    """Routes at `d`: b and x are joined one way each, y both ways, e is in the zone."""

    def one(source: str, target: str, **more: str | int) -> Join:
        return Join(zone=f"{source}{target}", source=source, target=target, **more)  # type: ignore[arg-type]

    links = [
        LocalLink("b", "db", ZoneKind.JOIN, out=one("d", "b", filter="a/>")),
        LocalLink("e", "ONE", ZoneKind.ONE_HOP),
        LocalLink("x", "xd", ZoneKind.JOIN, into=one("x", "d")),
        LocalLink("y", "dy", ZoneKind.JOIN, out=one("d", "y", hops=1), into=one("y", "d")),
    ]
    return Router(links)


def test_what_a_join_selects_leaves_although_nobody_wants_it() -> None:
    """Spec: UM-5, lab.md 2 (`filter`)."""
    route = joined().route("a/1", PUBLISHED_HERE, G)
    assert route.neighbours == ("b", "y")
    assert dict(route.refused) == {"e": Reason.NO_INTEREST, "x": Reason.NO_INTEREST}
    other = joined().route("z", PUBLISHED_HERE, G)
    assert (other.neighbours, dict(other.refused)["b"]) == (("y",), Reason.FILTER)


def test_nothing_returns_over_a_link_of_two_joins() -> None:
    """Spec: UM-5."""
    arrival = Arrival("dy", "y", row=JoinRow(1, 1))
    assert dict(joined().route("a/1", arrival, G).refused)["y"] is Reason.ARRIVAL_LINK
    assert joined().route("a/1", arrival, G).neighbours == ("b",)


def test_a_row_that_is_long_enough_ends() -> None:
    """Before the filter is asked. Spec: UM-10, lab.md 2 (`join_hops`)."""
    arrival = Arrival("xd", "x", row=JoinRow(2, 1))
    refused = dict(joined().route("z", arrival, G).refused)
    assert (refused["b"], refused["y"]) == (Reason.JOIN_HOPS, Reason.JOIN_HOPS)
    assert joined().allowed(Arrival("xd", "x", row=JoinRow(2, 10)), G) == ["b", "e"]


def test_direct_over_a_join_needs_the_neighbour_alive() -> None:
    """Guaranteed messages wait for it. Spec: K19."""
    router = joined()
    router.follow("b", LinkMode.DOWN)
    assert dict(router.route("a/1", PUBLISHED_HERE, D).refused)["b"] is Reason.NODE_DOWN
    assert "b" in router.route("a/1", PUBLISHED_HERE, G).neighbours


def test_what_a_join_wants_is_no_endpoint() -> None:
    """Spec: UM-1."""
    router = joined()
    router.table.put(">", JOINED, Interest(static=True))
    assert router.route("a/1", PUBLISHED_HERE, G).endpoints == ()


@dataclass(frozen=True)
class Trouble:
    """What may keep a message off the link to b.

    Attributes:
        arrival: How it came.
        link: What the link has against it.
        mode: What the link is.
        interest: What b wants; None is nothing.
    """

    arrival: Mapping[str, object] = field(default_factory=dict)
    link: Mapping[str, object] = field(default_factory=dict)
    mode: LinkMode | None = None
    interest: Sequence[Interest | None] = ()


TROUBLES = (
    Trouble(arrival={"zone": "Z"}),
    Trouble(arrival={"zone": "Z", "neighbour": "b"}),
    Trouble(arrival={"crossed_external": True}),
    Trouble(arrival={"row": JoinRow(2, 1)}),
    Trouble(arrival={"barred": ("b",)}),
    Trouble(link={"locals": Locals(here=("a/>",))}),
    Trouble(link={"direct_only": True}),
    Trouble(link={"when": (condition("subject == 'z'"),)}),
    *(Trouble(mode=mode) for mode in LinkMode),
    Trouble(interest=[None]),
    Trouble(interest=[Interest(durable=True, live=False)]),
)


def told(kind: ZoneKind, message_class: MessageClass, *troubles: Trouble) -> Reason | None:
    """Return why a message does not leave on the link to b, or None if it does."""
    about: dict[str, object] = {}
    link = LocalLink("b", "Z", kind)
    if kind is ZoneKind.JOIN:
        link = replace(link, out=Join(zone="Z", source="d", target="b", hops=1))
    interest: Interest | None = Interest()
    for one in troubles:
        about |= one.arrival
        link = replace(link, **one.link)  # type: ignore[arg-type]
        interest = [interest, *one.interest][-1]
    router = Router([link])
    for one in troubles:
        if one.mode is not None:
            router.follow("b", one.mode)
    router.table.put("a/*", Member("Z", "b"), interest)
    route = router.route("a/1", Arrival(**about), message_class)  # type: ignore[arg-type]
    return dict(route.refused).get("b")


@pytest.mark.parametrize("kind", ZoneKind)
@pytest.mark.parametrize("message_class", MessageClass)
def test_of_two_reasons_the_first_of_all_is_told(
    kind: ZoneKind, message_class: MessageClass
) -> None:
    """Their order is what counts say. Spec: lab.md 2 (`not_forwarded`)."""
    order = list(Reason)
    seen: dict[Reason, None] = {}
    for one, other in combinations(TROUBLES, 2):
        if (one.mode and other.mode) or (one.interest and other.interest):
            continue
        alone = [told(kind, message_class, trouble) for trouble in (one, other)]
        seen |= dict.fromkeys(reason for reason in alone if reason is not None)
        expected = min(filter(None, alone), key=order.index, default=None)
        assert told(kind, message_class, one, other) == expected, (one, other)
    assert len(seen) >= 5
