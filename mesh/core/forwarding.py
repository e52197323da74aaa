"""The one table of forwarding and interest that every part of the system agrees on.

| kind      | a message may leave on this zone's link when | interest offered on it            |
|-----------|----------------------------------------------|-----------------------------------|
| cluster   | it did not arrive on this zone               | everything not learned on it      |
| one-hop   | it did not arrive on this zone               | everything not learned on it      |
| multi-hop | it did not arrive on this link               | everything not learned on that    |
| external  | it has crossed no external link              | `own` only; `foreign` from then on|
| join      | it did not arrive on this link, goes the     | none; node addresses go back as   |
|           | join's way and the row is not too long       | messages may come                 |

A join needs no interest: what its filter selects leaves. `mesh.core.joins` limits the row's length.

Both columns say the same thing from two ends: a message may take a walk exactly when interest may
take the walk back. Spec: DESIGN 3, EMS-0, DMR-4, DMR-13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.core.joins import row_over
from mesh.model.control import Ownership
from mesh.model.joins import Join, JoinRow
from mesh.model.reasons import Reason
from mesh.model.topology import ZoneKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingRule:
    """One row of the table.

    Attributes:
        one_hop: Nothing continues within the zone: it is meant to be fully linked.
        no_transit: A walk crosses at most one link of such kinds; it leads out of a cluster
            and no further, wherever the message travels in between.
        offers_interest: Whether interest travels over it at all.
    """

    one_hop: bool = False
    no_transit: bool = False
    offers_interest: bool = True


RULES: Mapping[ZoneKind, ForwardingRule] = {
    ZoneKind.CLUSTER: ForwardingRule(one_hop=True),
    ZoneKind.ONE_HOP: ForwardingRule(one_hop=True),
    ZoneKind.MULTI_HOP: ForwardingRule(),
    ZoneKind.EXTERNAL: ForwardingRule(no_transit=True),
    ZoneKind.JOIN: ForwardingRule(offers_interest=False),
}


def may_leave(
    kind: ZoneKind, *, arrived_on_zone: bool, arrived_on_link: bool, crossed_external: bool
) -> Reason | None:
    """Return why a message may not leave on a link, interest apart, or None if it may.

    Args:
        kind: Kind of the link's zone.
        arrived_on_zone: Whether the message arrived over a link of that zone.
        arrived_on_link: Whether it arrived over that very link.
        crossed_external: Whether it has ever crossed an external link.

    Spec: DESIGN 3.
    """
    if arrived_on_link:
        return Reason.ARRIVAL_LINK
    rule = RULES[kind]
    if rule.one_hop and arrived_on_zone:
        return Reason.ARRIVAL_ZONE
    if rule.no_transit and crossed_external:
        return Reason.NO_TRANSIT
    return None


def may_join(join: Join | None, row: JoinRow) -> Reason | None:
    """Return why a message may not leave on a link of joins that it did not arrive on, or None.

    Whether the join's filter selects it is a separate question.

    Args:
        join: The join that leads out; None if the only one leads in.
        row: Joins that the message has crossed in a row.

    Spec: DESIGN 3, UM-5, UM-10.
    """
    if join is None:
        return Reason.NO_INTEREST
    return Reason.JOIN_HOPS if row_over(row, join.hops) is None else None


def next_hop_count(hops: int, *, arrived_on_zone: bool) -> int:
    """Return the hop count after a link: it restarts when the message changes zone.

    Args:
        hops: Links of the arrival zone crossed in a row; 0 where it was published.
        arrived_on_zone: Whether the link crossed next is in the arrival zone.

    Spec: DESIGN 3, EMS-5.
    """
    return hops + 1 if arrived_on_zone else 1


def crosses_external(kind: ZoneKind) -> bool:
    """Return whether crossing a link of this kind bars a message from further transit for good."""
    return RULES[kind].no_transit


def offers(
    kind: ZoneKind, *, learned_on_zone: bool, learned_on_link: bool, ownership: Ownership
) -> bool:
    """Return whether an entry of interest is offered on a link of this kind.

    An endpoint's own interest was learned on no zone and no link, and is `own`.

    Args:
        kind: Kind of the link's zone.
        learned_on_zone: Whether the entry was learned over a link of that zone.
        learned_on_link: Whether it was learned over that very link.
        ownership: As held here, see `ownership_after`.

    Spec: DESIGN 3, K22.
    """
    rule = RULES[kind]
    if not rule.offers_interest or learned_on_link:
        return False
    if rule.no_transit:
        return ownership is Ownership.OWN
    return not (rule.one_hop and learned_on_zone)


def ownership_after(kind: ZoneKind, ownership: Ownership) -> Ownership:
    """Return how the reader of an entry holds it: over an external link it becomes foreign.

    Spec: DESIGN 3, K22.
    """
    return Ownership.FOREIGN if RULES[kind].no_transit else ownership


def scope_is_per_link(kind: ZoneKind) -> bool:
    """Return whether each link of a zone has different offers, and so its own scope.

    Spec: K22.
    """
    rule = RULES[kind]
    return rule.offers_interest and not rule.one_hop and not rule.no_transit
