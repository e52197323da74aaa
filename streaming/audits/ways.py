"""Which filters of joins stand between two nodes: what they do not select cannot come.

Found from the reader back to every origin, apart from the mesh's own walks. Spec: DESIGN 3, K31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.topology import Topology

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
    """

    nodes: tuple[str, ...]
    zone: str = ""
    is_abroad: bool = False
    limits: tuple[int, ...] = ()
    filters: tuple[str, ...] = ()


@dataclass(slots=True)
class Ways:
    """Filters between nodes; pairs without any are left out.

    Attributes:
        filters: (origin, reader) -> filters of the joins between them, in order.
    """

    filters: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> Ways:
        """Return the ways of a topology; without joins there is nothing to find."""
        found: dict[tuple[str, str], Sequence[str]] = {}
        for reader in topology.nodes if topology.joins else ():
            for origin, filters in origins_of(topology, reader).items():
                if filters:
                    found[origin, reader] = filters
        return cls(found)

    def between(self, origin: str, reader: str) -> Sequence[str]:
        """Return what must select a message of the origin for it to come to the reader."""
        return self.filters.get((origin, reader), ())


def origins_of(topology: Topology, reader: str) -> Mapping[str, tuple[str, ...]]:
    """Return from where messages can come to a node, and the filters of the joins on the way."""
    found: dict[str, tuple[str, ...]] = {}
    trails = [_Trail((reader,))]
    for trail in trails:
        origin = trail.nodes[-1]
        found[origin] = found.get(origin) or trail.filters
        trails += [one for one in _before(topology, trail) if one.nodes[-1] not in trail.nodes]
    return found


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
            yield _Trail(nodes, link.zone, trail.is_abroad, limits, (join.filter, *trail.filters))
            continue
        is_external = kind == "external"
        is_second = kind in _WITHIN_ONE_HOP and link.zone == trail.zone
        if not (turns or is_second or (is_external and trail.is_abroad)):
            yield _Trail(nodes, link.zone, trail.is_abroad or is_external, (), trail.filters)
