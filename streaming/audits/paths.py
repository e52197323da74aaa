"""Whether a path is a walk over the links of the topology. Spec: DESIGN 3, DESIGN 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.model.topology import Topology
from streaming.audits.findings import Finding, FindingKind, message_range
from streaming.audits.names import Names
from streaming.tables.rows import DeliveryRow, FrameRow
from streaming.tables.topics import place_of


@dataclass(slots=True)
class LinkPlan:
    """Which zones lead from which node to which.

    Attributes:
        prefix: Start of every topic name.
        zones: (sender, receiver) -> zones of their links; joins lead one way.
        limits: (source, target) of a join -> how many joins may follow it or come before.
    """

    prefix: str
    zones: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    limits: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> LinkPlan:
        """Return the plan of a topology."""
        zones: dict[tuple[str, str], list[str]] = {}
        limits: dict[tuple[str, str], int] = {}
        for name, zone in topology.zones.items():
            if (join := zone.join) is not None:
                zones.setdefault((join.source, join.target), []).append(name)
                limits[join.source, join.target] = join.hops
                continue
            for first, second in [link.ends for link in zone.links]:
                zones.setdefault((first, second), []).append(name)
                zones.setdefault((second, first), []).append(name)
        return cls(topology.prefix, zones, limits)

    def fault_of_path(self, path: Sequence[str]) -> tuple[FindingKind, str] | None:
        """Return why nodes in this order are no walk, or None if they are one."""
        twice = [node for number, node in enumerate(path) if node in path[:number]]
        if twice:
            return FindingKind.LOOP, f"{twice[0]} stands twice in the path {'>'.join(path)}"
        for source, target in pairwise(path):
            if (source, target) not in self.zones:
                told = ">".join(path)
                text = f"the path {told} goes from {source} to {target}, which no link joins"
                return FindingKind.UNPLANNED_PATH, text
        return self._fault_of_rows(path)

    def _fault_of_rows(self, path: Sequence[str]) -> tuple[FindingKind, str] | None:
        """Return why a path has too many joins in a row, or None. Spec: DESIGN 3, UM-10."""
        row: list[int] = []
        for pair in pairwise(path):
            row = [*row, self.limits[pair]] if pair in self.limits else []
            if row and len(row) > min(row) + 1:
                text = f"the path {'>'.join(path)} has {len(row)} joins in a row up to {pair[1]}"
                return FindingKind.UNPLANNED_PATH, f"{text}, of which one allows {min(row) + 1}"
        return None

    def frame_fault(self, row: FrameRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that frames took, or None."""
        place = place_of(self.prefix, row.place.topic)
        fault = self._frame_fault(place.node, place.other, row)
        if fault is None:
            return None
        source = names.text(row.source)
        return Finding(
            kind=fault[0],
            text=fault[1],
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=place.link,
            path=row.path,
            source=source,
            first=row.first,
            last=row.last,
            count=row.messages,
            anchor=row.zone,
        )

    def _frame_fault(
        self, sender: str, receiver: str, row: FrameRow
    ) -> tuple[FindingKind, str] | None:
        path = row.path
        if receiver in path:
            text = f"a message that has visited {receiver} is sent to it again, after"
            return FindingKind.LOOP, f"{text} {'>'.join(path)}"
        if (fault := self.fault_of_path((*path, receiver))) is not None:
            return fault
        if not path or path[-1] != sender:
            text = f"{sender} sends a frame whose path {'>'.join(path)} does not end with it"
            return FindingKind.UNPLANNED_PATH, text
        if row.zone not in self.zones[sender, receiver]:
            text = f"no link from {sender} to {receiver} is in zone {row.zone}"
            return FindingKind.UNPLANNED_PATH, text
        return None

    def delivery_fault(self, row: DeliveryRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that deliveries took, or None."""
        place = place_of(self.prefix, row.place.topic)
        ingress = names.place(row.source)
        origin = None if ingress is None else place_of(self.prefix, ingress.topic).node
        begins = None if row.is_moved else origin
        fault = self._delivery_fault(place.node, begins, row.path)
        if fault is None:
            return None
        source = names.text(row.source)
        return Finding(
            kind=fault[0],
            text=fault[1],
            ids=(message_range(source, row.generation, row.first, row.last),),
            endpoint=place.endpoint,
            path=row.path,
            source=source,
            first=row.first,
            last=row.last,
            count=row.digest.count,
        )

    def _delivery_fault(
        self, node: str, origin: str | None, path: Sequence[str]
    ) -> tuple[FindingKind, str] | None:
        if (fault := self.fault_of_path(path)) is not None:
            return fault
        told = ">".join(path)
        if not path or path[-1] != node:
            return FindingKind.UNPLANNED_PATH, f"the path {told} does not end at {node}"
        if origin is not None and path[0] != origin:
            text = f"the path {told} does not begin at {origin}, where the message was published"
            return FindingKind.UNPLANNED_PATH, text
        return None
