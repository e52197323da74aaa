"""The one table, row by row, and the symmetry that makes it one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from mesh.core.forwarding import (
    RULES,
    crosses_external,
    may_leave,
    next_hop_count,
    offers,
    ownership_after,
    scope_is_per_link,
)
from mesh.model.control import Ownership
from mesh.model.reasons import Reason
from mesh.model.topology import ZoneKind

CLUSTER, ONE_HOP, MULTI_HOP = ZoneKind.CLUSTER, ZoneKind.ONE_HOP, ZoneKind.MULTI_HOP
EXTERNAL, JOIN = ZoneKind.EXTERNAL, ZoneKind.JOIN
ARRIVAL_LINK, ARRIVAL_ZONE = Reason.ARRIVAL_LINK, Reason.ARRIVAL_ZONE
NO_TRANSIT = Reason.NO_TRANSIT


@pytest.mark.parametrize(
    ("kind", "elsewhere", "same_zone", "same_link", "elsewhere_crossed", "same_zone_crossed"),
    [
        (CLUSTER, None, ARRIVAL_ZONE, ARRIVAL_LINK, None, ARRIVAL_ZONE),
        (ONE_HOP, None, ARRIVAL_ZONE, ARRIVAL_LINK, None, ARRIVAL_ZONE),
        (MULTI_HOP, None, None, ARRIVAL_LINK, None, None),
        (EXTERNAL, None, None, ARRIVAL_LINK, NO_TRANSIT, NO_TRANSIT),
        (JOIN, None, None, ARRIVAL_LINK, None, None),
    ],
)
def test_may_leave(
    kind: ZoneKind,
    elsewhere: Reason | None,
    same_zone: Reason | None,
    same_link: Reason | None,
    elsewhere_crossed: Reason | None,
    same_zone_crossed: Reason | None,
) -> None:
    """Every row for every way to arrive. Spec: DESIGN 3, EMS-5, DMR-4, UM-6."""

    def reason(*, zone: bool, link: bool, crossed: bool) -> Reason | None:
        return may_leave(kind, arrived_on_zone=zone, arrived_on_link=link, crossed_external=crossed)

    assert reason(zone=False, link=False, crossed=False) is elsewhere
    assert reason(zone=True, link=False, crossed=False) is same_zone
    assert reason(zone=True, link=True, crossed=False) is same_link
    assert reason(zone=True, link=True, crossed=True) is same_link
    assert reason(zone=False, link=False, crossed=True) is elsewhere_crossed
    assert reason(zone=True, link=False, crossed=True) is same_zone_crossed


@pytest.mark.parametrize(
    ("kind", "same_zone", "same_link", "foreign_elsewhere"),
    [
        (CLUSTER, False, False, True),
        (ONE_HOP, False, False, True),
        (MULTI_HOP, True, False, True),
        (EXTERNAL, True, False, False),
    ],
)
def test_offers(
    kind: ZoneKind, *, same_zone: bool, same_link: bool, foreign_elsewhere: bool
) -> None:
    """Every row for every way an entry was learned. Spec: DESIGN 3, UM-1, DMR-3."""

    def offered(*, zone: bool, link: bool, ownership: Ownership = Ownership.OWN) -> bool:
        return offers(kind, learned_on_zone=zone, learned_on_link=link, ownership=ownership)

    assert offered(zone=False, link=False)
    assert offered(zone=True, link=False) is same_zone
    assert offered(zone=True, link=True) is same_link
    assert offered(zone=False, link=False, ownership=Ownership.FOREIGN) is foreign_elsewhere


def test_joins_offer_nothing() -> None:
    """A join is unconditional. Spec: DESIGN 3, UM-5."""
    assert not offers(JOIN, learned_on_zone=False, learned_on_link=False, ownership=Ownership.OWN)


def test_ownership_is_lost_for_good_over_an_external_link() -> None:
    """What is learned over an external link is foreign, at any distance. Spec: K22."""
    for kind in (CLUSTER, ONE_HOP, MULTI_HOP):
        for ownership in Ownership:
            assert ownership_after(kind, ownership) is ownership
    for ownership in Ownership:
        assert ownership_after(EXTERNAL, ownership) is Ownership.FOREIGN


def test_scopes_are_per_link_in_multi_hop_zones_alone() -> None:
    """Elsewhere every neighbour of a zone is offered the same. Spec: K22."""
    assert [kind for kind in ZoneKind if scope_is_per_link(kind)] == [MULTI_HOP]


def test_hop_count_restarts_with_the_zone() -> None:
    """Hops are counted inside one zone. Spec: DESIGN 3, EMS-5."""
    assert next_hop_count(0, arrived_on_zone=False) == 1
    assert next_hop_count(3, arrived_on_zone=True) == 4
    assert next_hop_count(3, arrived_on_zone=False) == 1


def test_every_kind_has_a_row() -> None:
    """A new kind of zone cannot be forgotten here."""
    assert list(RULES) == list(ZoneKind)
    assert [kind for kind in ZoneKind if crosses_external(kind)] == [EXTERNAL]


LINKS = [
    (kind, f"{kind}{zone}", f"{kind}{zone}/{link}")
    for kind in (CLUSTER, ONE_HOP, MULTI_HOP, EXTERNAL)
    for zone in (1, 2)
    for link in (1, 2)
]
"""(kind, zone, link): two zones of each kind with two links each."""

Steps = Sequence[tuple[ZoneKind, str, str]]


def message_passes(steps: Steps) -> bool:
    """Whether a message may cross these links one after another."""
    last_zone = last_link = ""
    crossed = False
    for kind, zone, link in steps:
        if may_leave(
            kind,
            arrived_on_zone=zone == last_zone,
            arrived_on_link=link == last_link,
            crossed_external=crossed,
        ):
            return False
        crossed = crossed or crosses_external(kind)
        last_zone, last_link = zone, link
    return True


def interest_passes(steps: Steps) -> bool:
    """Whether interest may cross these links one after another."""
    last_zone = last_link = ""
    ownership = Ownership.OWN
    for kind, zone, link in steps:
        if not offers(
            kind,
            learned_on_zone=zone == last_zone,
            learned_on_link=link == last_link,
            ownership=ownership,
        ):
            return False
        ownership = ownership_after(kind, ownership)
        last_zone, last_link = zone, link
    return True


def test_messages_go_where_interest_comes_from() -> None:
    """A walk is allowed for messages exactly when the way back is for interest. Spec: DESIGN 3."""
    passing = 0
    for length in (1, 2, 3):
        for steps in product(LINKS, repeat=length):
            assert message_passes(steps) is interest_passes(steps[::-1])
            passing += message_passes(steps)
    assert 0 < passing < sum(len(LINKS) ** length for length in (1, 2, 3))
