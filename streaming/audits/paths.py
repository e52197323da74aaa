"""Whether a path is a walk by the rules of the topology's zones. Spec: DESIGN 3, DESIGN 7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.model.topology import Topology
from streaming.audits.findings import Finding, FindingKind, message_range, records
from streaming.audits.names import Names
from streaming.audits.ways import ONE_HOP_KINDS
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey
from streaming.tables.topics import GUARANTEED, TopicPlace, place_of


@dataclass(frozen=True, slots=True)
class _Crossing:
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


@dataclass(frozen=True, slots=True)
class _Trail:
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


@dataclass(slots=True)
class LinkPlan:
    """The links of one topology, and how messages may walk over them.

    The auditor's own walker: it shares no line with the mesh's table of forwarding.

    Attributes:
        prefix: Start of every topic name.
        zones: (sender, receiver) -> zones of their links; joins lead one way.
        crossings: The same, with what the rules ask of each.
    """

    prefix: str
    zones: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    crossings: Mapping[tuple[str, str], Sequence[_Crossing]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> LinkPlan:
        """Return the plan of a topology."""
        found: dict[tuple[str, str], list[_Crossing]] = {}
        for name, zone in topology.zones.items():
            if (join := zone.join) is not None:
                one = _Crossing(name, "join", join.hops)
                found.setdefault((join.source, join.target), []).append(one)
                continue
            crossing = _Crossing(name, zone.kind.value, is_direct_only=zone.direct_only)
            for first, second in [link.ends for link in zone.links]:
                found.setdefault((first, second), []).append(crossing)
                found.setdefault((second, first), []).append(crossing)
        zones = {pair: [one.zone for one in crossings] for pair, crossings in found.items()}
        return cls(topology.prefix, zones, found)

    def fault_of_path(
        self, path: Sequence[str], *, is_guaranteed: bool = False, zone: str | None = None
    ) -> tuple[FindingKind, str] | None:
        """Return why nodes in this order are no walk, or None if they are one.

        Args:
            path: The nodes, origin first.
            is_guaranteed: Whether the message is, so that direct-only zones are closed to it.
            zone: The zone of the last link, where it is known; else any that the rules allow.

        Spec: DESIGN 3, EMS-0, DMR-4, DMR-13, UM-10.
        """
        twice = [node for number, node in enumerate(path) if node in path[:number]]
        if twice:
            return FindingKind.LOOP, f"{twice[0]} stands twice in the path {'>'.join(path)}"
        trails = [_Trail()]
        for number, pair in enumerate(pairwise(path), start=2):
            crossings = self.crossings.get(pair, ())
            if number == len(path) and zone is not None:
                crossings = [one for one in crossings if one.zone == zone]
            tried = [
                _cross(trail, one, is_guaranteed=is_guaranteed)
                for trail in trails
                for one in crossings
            ]
            trails = [one for one in tried if isinstance(one, _Trail)]
            if not trails:
                told = [one for one in tried if isinstance(one, str)]
                why = told[0] if told else _no_link(zone if pair in self.crossings else None)
                text = f"the path {'>'.join(path)} goes from {pair[0]} to {pair[1]}: {why}"
                return FindingKind.UNPLANNED_PATH, text
        return None

    def reach(self, sender: str, receiver: str) -> Sequence[str]:
        """Return the nodes that messages can come to over a link, wherever they were before.

        None of a join. Every way is walked whose rules depend on nothing before the link, so these
        are all that a message may come to.
        """
        crossings = self.crossings.get((sender, receiver), ())
        if any(one.kind == "join" for one in crossings):
            return ()
        onward: dict[str, list[str]] = {}
        for here, there in self.crossings:
            onward.setdefault(here, []).append(there)
        walks: list[tuple[tuple[str, ...], _Trail, str]] = [((sender,), _Trail(), receiver)]
        found: dict[str, None] = {}
        seen: dict[tuple[str, _Trail], None] = {}
        for path, before, here in walks:
            for crossing in self.crossings[path[-1], here]:
                trail = _cross(before, crossing, is_guaranteed=False)
                if isinstance(trail, str) or (here, trail) in seen:
                    continue
                seen[here, trail] = found[here] = None
                visited = (*path, here)
                further = [one for one in onward.get(here, ()) if one not in visited]
                walks += [(visited, trail, one) for one in further]
        return sorted(found)

    def joined(self, other: LinkPlan) -> LinkPlan:
        """Return a plan with the links of both: messages may go by one and then by the other."""
        crossings = {
            pair: list(
                dict.fromkeys((*self.crossings.get(pair, ()), *other.crossings.get(pair, ())))
            )
            for pair in (*self.crossings, *other.crossings)
        }
        zones = {pair: [one.zone for one in found] for pair, found in crossings.items()}
        return LinkPlan(self.prefix, zones, crossings)

    def leads(self, path: Sequence[str], node: str) -> bool:
        """Return whether a guaranteed message may go on to a node that it has not visited.

        Where its way so far is no walk, there may be others that nobody planned.

        Args:
            path: The nodes that it has visited, where it is last.
            node: Where to.
        """
        trails = [_Trail()]
        for pair in pairwise(path):
            trails = [*self._crossed(trails, pair)]
        here = path[-1]
        if here == node or not trails:
            return True
        seen = dict.fromkeys((here, trail) for trail in trails)
        walks = list(seen)
        for at, trail in walks:
            for sender, receiver in self.crossings:
                if sender != at or receiver in path:
                    continue
                onward = [(receiver, one) for one in self._crossed([trail], (at, receiver))]
                if receiver == node and onward:
                    return True
                walks += [one for one in onward if one not in seen]
                seen |= dict.fromkeys(onward)
        return False

    def _crossed(self, trails: Sequence[_Trail], pair: tuple[str, str]) -> Iterator[_Trail]:
        """Yield what guaranteed messages carry behind a link that they may leave on."""
        for trail in trails:
            for crossing in self.crossings.get(pair, ()):
                found = _cross(trail, crossing, is_guaranteed=True)
                if isinstance(found, _Trail):
                    yield found

    def is_planned(self, finding: Finding) -> bool:
        """Return whether a way that was found fault with is one of this plan."""
        sender, is_frame, receiver = finding.link.partition("->")
        here = sender if is_frame else finding.endpoint.partition("/")[0]
        path = finding.path
        if not path or path[-1] != here or not finding.source.startswith(self._ingress(path[0])):
            return False
        is_guaranteed = finding.source.startswith(f"{self._ingress(path[0])}{GUARANTEED}/")
        if not is_frame:
            return self.fault_of_path(path, is_guaranteed=is_guaranteed) is None
        whole, zone = (*path, receiver), finding.anchor
        return self.fault_of_path(whole, is_guaranteed=is_guaranteed, zone=zone) is None

    def _ingress(self, node: str) -> str:
        return f"{self.prefix}{node}.in."

    def frame_fault(self, row: FrameRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that frames took, or None."""
        place = place_of(self.prefix, row.place.topic)
        fault = self._frame_fault(place, self._origin(row.source, names), row)
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
            node=place.node,
            evidence=(records(row.place, row.head.offset, row.tail.offset),),
        )

    def _origin(self, source: SourceKey, names: Names) -> TopicPlace | None:
        """Return the topic of a source taken apart, if it is known."""
        ingress = names.place(source)
        return None if ingress is None else place_of(self.prefix, ingress.topic)

    def _frame_fault(
        self, place: TopicPlace, origin: TopicPlace | None, row: FrameRow
    ) -> tuple[FindingKind, str] | None:
        sender, receiver, path = place.node, place.other, row.path
        if receiver in path:
            text = f"a message that has visited {receiver} is sent to it again, after"
            return FindingKind.LOOP, f"{text} {'>'.join(path)}"
        if not path or path[-1] != sender:
            text = f"{sender} sends a frame whose path {'>'.join(path)} does not end with it"
            return FindingKind.UNPLANNED_PATH, text
        is_guaranteed = place.letter == GUARANTEED
        whole = (*path, receiver)
        fault = self.fault_of_path(whole, is_guaranteed=is_guaranteed, zone=row.zone)
        return fault or _wrong_begin(path, origin, is_moved=row.is_moved)

    def delivery_fault(self, row: DeliveryRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that deliveries took, or None."""
        place = place_of(self.prefix, row.place.topic)
        fault = self._delivery_fault(place.node, self._origin(row.source, names), row)
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
            node=place.node,
            evidence=(records(row.place, row.record_first, row.record_last),),
        )

    def _delivery_fault(
        self, node: str, origin: TopicPlace | None, row: DeliveryRow
    ) -> tuple[FindingKind, str] | None:
        path = row.path
        is_guaranteed = origin is not None and origin.letter == GUARANTEED
        if (fault := self.fault_of_path(path, is_guaranteed=is_guaranteed)) is not None:
            return fault
        told = ">".join(path)
        if not path or path[-1] != node:
            return FindingKind.UNPLANNED_PATH, f"the path {told} does not end at {node}"
        return _wrong_begin(path, origin, is_moved=row.is_moved)


def _wrong_begin(
    path: Sequence[str], origin: TopicPlace | None, *, is_moved: bool
) -> tuple[FindingKind, str] | None:
    """Return that a way begins elsewhere than its messages, which no member of a queue sends on."""
    if origin is None or is_moved or path[0] == origin.node:
        return None
    text = f"the path {'>'.join(path)} does not begin at {origin.node}, where the message was"
    return FindingKind.UNPLANNED_PATH, f"{text} published"


def _cross(trail: _Trail, over: _Crossing, *, is_guaranteed: bool) -> _Trail | str:
    """Return what a message carries behind a link, or why it may not leave on it."""
    if over.is_direct_only and is_guaranteed:
        return f"guaranteed messages never cross the direct-only zone {over.zone}"
    if over.hops is not None:
        row = (*trail.row, over.hops)
        if len(row) > min(row) + 1:
            return f"{len(row)} joins in a row, of which one allows {min(row) + 1}"
        return _Trail("", trail.is_abroad, row)
    if over.kind in ONE_HOP_KINDS and over.zone == trail.zone:
        return f"a second link in a row within the {over.kind} zone {over.zone}"
    if over.kind == "external" and trail.is_abroad:
        return f"a second external link, in zone {over.zone}; there is no transit"
    return _Trail(over.zone, trail.is_abroad or over.kind == "external")


def _no_link(zone: str | None) -> str:
    return "no link joins them" if zone is None else f"no link of zone {zone} joins them"
