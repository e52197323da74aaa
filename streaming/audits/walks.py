"""How messages may go on from link to link by the rules of the zones. Spec: DESIGN 3.

The auditor's own walker: it shares no line with the mesh's table of forwarding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mesh.model.topology import Topology

ONE_HOP_KINDS = ("cluster", "one-hop")
"""Kinds of zones in which what arrived on one of their links does not go on."""

Pair = tuple[str, str]
"""Sender and receiver."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One direction of a link.

    Attributes:
        zone: What it is in.
        kind: Of the zone.
        hops: Of a join: how many joins may follow it or come before, in a row; else None.
        is_direct_only: Whether guaranteed messages never cross it. DMR-11.
    """

    zone: str
    kind: str
    hops: int | None = None
    is_direct_only: bool = False

    @property
    def is_join(self) -> bool:
        """Return whether it leads one way only, and carries messages wanted or not."""
        return self.hops is not None


@dataclass(frozen=True, slots=True)
class Trail:
    """What a message carries on that decides where it may go next.

    Attributes:
        zone: That it arrived on; empty where it was published and behind a join, from where it
            goes on as if published there.
        is_abroad: Whether it has crossed an external link, which it is never rid of.
        row: `hops` of the joins that it has crossed in a row.
    """

    zone: str = ""
    is_abroad: bool = False
    row: tuple[int, ...] = ()


START = Trail()
"""Of a message where it was published."""


def crossings_of(topology: Topology) -> Mapping[Pair, Sequence[Crossing]]:
    """Return the links of a topology by sender and receiver; joins lead one way."""
    found: dict[Pair, list[Crossing]] = {}
    for name, zone in topology.zones.items():
        if (join := zone.join) is not None:
            one = Crossing(name, "join", join.hops)
            found.setdefault((join.source, join.target), []).append(one)
            continue
        crossing = Crossing(name, zone.kind.value, is_direct_only=zone.direct_only)
        for first, second in [link.ends for link in zone.links]:
            found.setdefault((first, second), []).append(crossing)
            found.setdefault((second, first), []).append(crossing)
    return found


def receivers_of(pairs: Iterable[Pair]) -> Mapping[str, Sequence[str]]:
    """Return by sender to whom its links lead."""
    found: dict[str, list[str]] = {}
    for sender, receiver in pairs:
        found.setdefault(sender, []).append(receiver)
    return found


def crossed(trail: Trail, over: Crossing, *, is_guaranteed: bool) -> Trail | str:
    """Return what a message carries on over a link, or why it may not leave on it.

    Args:
        trail: What it carries.
        over: The link.
        is_guaranteed: Whether it is, so that direct-only zones are closed to it.

    Spec: EMS-0, DMR-4, DMR-11, DMR-13, UM-10.
    """
    if over.is_direct_only and is_guaranteed:
        return f"guaranteed messages never cross the direct-only zone {over.zone}"
    if over.hops is not None:
        row = (*trail.row, over.hops)
        if len(row) > min(row) + 1:
            return f"{len(row)} joins in a row, of which one allows {min(row) + 1}"
        return Trail("", trail.is_abroad, row)
    if over.kind in ONE_HOP_KINDS and over.zone == trail.zone:
        return f"a second link in a row within the {over.kind} zone {over.zone}"
    if over.kind == "external" and trail.is_abroad:
        return f"a second external link, in zone {over.zone}; there is no transit"
    return Trail(over.zone, trail.is_abroad or over.kind == "external")
