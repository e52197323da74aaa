"""Which filters of joins stand between two nodes: what they do not select cannot come.

Found from the reader back to every origin, apart from the mesh's own walks. Spec: DESIGN 3, K31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.topology import Topology
from streaming.audits.queues import Way

_WITHIN_ONE_HOP = ("cluster", "one-hop")


@dataclass(frozen=True, slots=True)
class _Trail:
    """How far back a message is followed from its reader.

    Attributes:
        nodes: From the reader to where it was before.
        zone: Zone of the last link, empty at the reader.
        is_abroad: Whether an external link is among them.
        limits: `hops` of the joins at the far end, in a row.
        filters: Of all joins, the reader's last.
        ends_with_join: Whether the reader gets it over a join.
    """

    nodes: tuple[str, ...]
    zone: str = ""
    is_abroad: bool = False
    limits: tuple[int, ...] = ()
    filters: tuple[str, ...] = ()
    ends_with_join: bool = False


@dataclass(slots=True)
class Ways:
    """Filters between nodes; pairs without any are left out.

    Attributes:
        filters: (origin, reader) -> filters of the joins between them, in order.
        ending: (origin, reader) pairs of which the reader gets messages over a join.
    """

    filters: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    ending: Mapping[tuple[str, str], None] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> Ways:
        """Return the ways of a topology; without joins there is nothing to find."""
        found: dict[tuple[str, str], Sequence[str]] = {}
        ending: dict[tuple[str, str], None] = {}
        for reader in topology.nodes if topology.joins else ():
            trails = [_Trail((reader,))]
            for trail in trails:
                if trail.filters:
                    found.setdefault((trail.nodes[-1], reader), trail.filters)
                if trail.ends_with_join:
                    ending[trail.nodes[-1], reader] = None
                trails += [
                    one for one in _before(topology, trail) if one.nodes[-1] not in trail.nodes
                ]
        return cls(found, ending)

    def between(self, origin: str, reader: str) -> Sequence[str]:
        """Return what must select a message of the origin for it to come to the reader."""
        return self.filters.get((origin, reader), ())

    def way(self, origin: str, reader: str) -> Way:
        """Return the same with all that queues ask of it."""
        joins = tuple(self.between(origin, reader))
        return Way(origin, joins, (origin, reader) in self.ending)


def _before(topology: Topology, trail: _Trail) -> Iterator[_Trail]:
    """Yield where a message can have been one link earlier."""
    here, next_ = trail.nodes[-1], trail.nodes[-2:-1]
    for link in topology.links_of(here):
        other, kind = link.other(here), topology.kind_of(link).value
        nodes = (*trail.nodes, other)
        turns = link.zone == trail.zone and (other,) == next_
        if kind == "join":
            join = topology.joins.get((other, here))
            limits = () if join is None else (join.hops, *trail.limits)
            if join is None or turns or len(limits) > 1 + min(limits):
                continue
            ends = trail.ends_with_join or not trail.zone
            filters = (join.filter, *trail.filters)
            yield _Trail(nodes, link.zone, trail.is_abroad, limits, filters, ends)
            continue
        is_external = kind == "external"
        is_second = kind in _WITHIN_ONE_HOP and link.zone == trail.zone
        if not (turns or is_second or (is_external and trail.is_abroad)):
            abroad, ends = trail.is_abroad or is_external, trail.ends_with_join
            yield _Trail(nodes, link.zone, abroad, (), trail.filters, ends)
