"""Small messages of the auditor's own that tell how long ways of the mesh take just now.

Endpoints keep the time at which clients wrote, so nothing that is delivered tells when it came.
A canary does: who sent it also gets it, and looks twice at one clock. Spec: DESIGN 7, K5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import NamedTuple

from mesh.model.topology import Topology
from streaming.audits.matching import selects
from streaming.audits.ways import Ways

CANARY_ENDPOINT = "audit-canary"
"""Name of the endpoint at each node, and first level of all subjects."""

EVERY_S = 10.0
"""How often a canary goes each way, in seconds."""

LOST_S = 60.0
"""One that has not come by then is lost."""

RECENT_MAX = 6
"""The slowest of so many is told beside the newest."""


class CanaryWay(NamedTuple):
    """From a node to another."""

    source: str
    target: str

    def __str__(self) -> str:
        """Return `tk1->ny1`."""
        return f"{self.source}->{self.target}"

    @property
    def subject(self) -> str:
        """Return what canaries that go this way are published to."""
        return f"{CANARY_ENDPOINT}/{self.source}/{self.target}"

    @classmethod
    def of(cls, subject: str) -> CanaryWay | None:
        """Return the way of a subject, or None if it is no canary's."""
        match subject.split("/"):
            case [first, source, target] if first == CANARY_ENDPOINT:
                return cls(source, target)
        return None


def filter_of(node: str) -> str:
    """Return what the endpoint of a node asks for."""
    return f"{CANARY_ENDPOINT}/*/{node}"


def ways_of(topology: Topology) -> Mapping[CanaryWay, Sequence[str]]:
    """Return the ways of a mesh, each with what it stands for.

    One for each direction of a link, and one from each zone to each other: `WO`, or `TK>EU`. Where
    a join, a selector or a local subject stands between two nodes none is sent, for it may be
    refused by right.
    """
    ways = Ways(topology)
    found: dict[CanaryWay, list[str]] = {}

    def is_open(way: CanaryWay) -> bool:
        between = ways.between(way.source, way.target)
        return (
            between is not None
            and between.is_sure
            and not between.joins
            and not any(selects(one, way.subject) for one in between.kept)
        )

    zones = {name: zone for name, zone in topology.zones.items() if zone.join is None}
    for name, zone in sorted(zones.items()):
        for link in zone.links:
            for way in (CanaryWay(*link.ends), CanaryWay(*link.ends[::-1])):
                if is_open(way):
                    found.setdefault(way, []).append(name)
    for one, other in permutations(sorted(zones), 2):
        here = sorted(set(zones[one].nodes) - set(zones[other].nodes))
        there = sorted(set(zones[other].nodes) - set(zones[one].nodes))
        first = next(
            (way for way in map(CanaryWay._make, product(here, there)) if is_open(way)), None
        )
        if first is not None:
            found.setdefault(first, []).append(f"{one}>{other}")
    return {way: tuple(what) for way, what in sorted(found.items())}


@dataclass(slots=True)
class WayTally:
    """How canaries fare on one way.

    Attributes:
        sent: How many went.
        arrived: How many came.
        lost: How many had not come after `LOST_S`.
        recent_s: How long the newest ones took, in seconds, newest last.
    """

    sent: int = 0
    arrived: int = 0
    lost: int = 0
    recent_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Canaries:
    """Who is due, who is under way, who came.

    Attributes:
        run: The run of the auditor; canaries of others mean nothing.
        ways: What each way stands for.
        tallies: By way.
        due_s: When the next one goes a way; the first a while after its endpoint was asked for.
        flying: Way and number of a canary -> when it went.
        number: Of the newest.
        changed: Ways of which there is news.
    """

    run: str
    ways: Mapping[CanaryWay, Sequence[str]] = field(default_factory=dict)
    tallies: dict[CanaryWay, WayTally] = field(default_factory=dict)
    due_s: dict[CanaryWay, float] = field(default_factory=dict)
    flying: dict[tuple[CanaryWay, int], float] = field(default_factory=dict)
    number: int = 0
    changed: dict[CanaryWay, None] = field(default_factory=dict)

    def follow(self, ways: Mapping[CanaryWay, Sequence[str]], now_s: float) -> None:
        """Take the ways of a topology; what flies on others is forgotten."""
        self.ways = ways
        self.due_s = {way: self.due_s.get(way, now_s + EVERY_S) for way in ways}
        self.tallies = {way: self.tallies.get(way, WayTally()) for way in ways}
        self.flying = {one: at_s for one, at_s in self.flying.items() if one[0] in ways}

    def go(self, sources: Sequence[str], now_s: float) -> Iterator[tuple[CanaryWay, int]]:
        """Yield the canaries that some nodes have to send now; they count as sent."""
        for way, due_s in self.due_s.items():
            if way.source in sources and now_s >= due_s:
                self.due_s[way] = now_s + EVERY_S
                self.number += 1
                self.flying[way, self.number] = now_s
                self.tallies[way].sent += 1
                yield way, self.number

    def come(self, way: CanaryWay, run: str, number: int, now_s: float) -> None:
        """Record the arrival of a canary; unknown ones and second arrivals are ignored."""
        gone_s = self.flying.pop((way, number), None) if run == self.run else None
        if gone_s is not None:
            tally = self.tallies[way]
            tally.arrived += 1
            tally.recent_s = [*tally.recent_s, now_s - gone_s][-RECENT_MAX:]
            self.changed[way] = None

    def lapse(self, now_s: float) -> None:
        """Give up those that have been under way for too long."""
        for way, number in [one for one, at_s in self.flying.items() if now_s - at_s >= LOST_S]:
            del self.flying[way, number]
            self.tallies[way].lost += 1
            self.changed[way] = None

    def take_changed(self) -> Sequence[tuple[CanaryWay, Sequence[str], WayTally]]:
        """Return the ways of which there is news."""
        changed = [(way, self.ways[way], self.tallies[way]) for way in sorted(self.changed)]
        self.changed.clear()
        return changed
