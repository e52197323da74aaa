"""What a link is follows from four facts, and what its end does from that alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from mesh.core.interest import Member
from mesh.core.local_links import LocalLink
from mesh.core.routes import PUBLISHED_HERE
from mesh.core.routing import Router
from mesh.model.control import Interest
from mesh.model.frames import MessageClass
from mesh.model.link_modes import CLOSED, CONDUCT, LinkMode
from mesh.model.links import Gate, GateStatus
from mesh.model.topology import ZoneKind
from mesh.node.neighbour import Neighbour

LINK = LocalLink("b", "Z", ZoneKind.MULTI_HOP)
PAGE = Path(__file__).parents[3] / "docs/ARCHITECTURE.md"


def neighbours() -> list[Neighbour]:
    """Return one in each combination of what is known of a neighbour."""
    both, gates = (False, True), (None, Gate.PROBING, Gate.REFUSED)
    return [
        Neighbour(
            LINK,
            caught_up=caught_up,
            frozen=frozen,
            is_down=is_down,
            is_disabled=is_disabled,
            is_resyncing=is_resyncing,
            gate=None if gate is None else GateStatus("b", gate),
        )
        for caught_up, frozen, is_down, is_disabled, is_resyncing, gate in product(
            both, both, both, both, both, gates
        )
        if not (is_disabled and is_resyncing)
    ]


def test_every_mode_occurs_and_has_its_conduct() -> None:
    assert {one.mode for one in neighbours()} == set(LinkMode) == CONDUCT.keys()


def test_what_is_asked_often_is_what_the_table_says() -> None:
    for one in neighbours():
        assert one.is_open is CONDUCT[one.mode].reads


def test_a_neighbour_that_is_heard_and_proven_is_up() -> None:
    assert Neighbour(LINK, caught_up=True).mode is LinkMode.UP
    assert Neighbour(LINK, caught_up=True, is_down=True).mode is LinkMode.DOWN
    assert Neighbour(LINK, caught_up=True, is_down=True, is_disabled=True).mode in CLOSED


@pytest.mark.parametrize("mode", LinkMode)
def test_the_router_goes_by_the_table(mode: LinkMode) -> None:
    """Spec: DMR-10, K19, K27."""
    router = Router([LINK])
    router.table.put("x", Member("Z", "b"), Interest(durable=True, live=True))
    router.follow("b", mode)
    conduct = CONDUCT[mode]
    for message_class, reason in (
        (MessageClass.GUARANTEED, conduct.guaranteed),
        (MessageClass.DIRECT, conduct.direct),
    ):
        route = router.route("x", PUBLISHED_HERE, message_class)
        assert route.refused == (() if reason is None else (("b", reason),))
        assert route.neighbours == (("b",) if reason is None else ())
    assert router.unread() == (set() if conduct.reads else {"b"})


def test_a_shut_link_that_drains_is_read() -> None:
    """Only what was sent before is there. Spec: K27."""
    router = Router([LINK])
    router.follow("b", LinkMode.REFUSED, drains=True)
    assert not router.unread()
    router.follow("b", LinkMode.REFUSED)
    assert router.unread() == {"b"}


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for mode, conduct in CONDUCT.items():
        cells = [
            mode.value,
            "yes" if conduct.reads else "no",
            "go, or wait in the outbox"
            if conduct.guaranteed is None
            else f"`{conduct.guaranteed}`",
            "go" if conduct.direct is None else f"`{conduct.direct}`",
            conduct.word,
        ]
        assert f"| {' | '.join(cells)} |" in page
