"""Whether a path is a walk by the rules of the topology's zones. Spec: DESIGN 3, DESIGN 7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.topics import SourceName, TopicNames
from mesh.model.topology import Topology
from streaming.audits.finding_register import Finding
from streaming.audits.names import Names
from streaming.audits.row_findings import row_finding
from streaming.audits.walks import START, Crossing, Pair, Trail, crossed, crossings_of, receivers_of
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey
from streaming.tables.topics import GUARANTEED, OUTBOX, TopicPlace, place_of

NO_QUEUE = "no queue"
"""Anchor of what was moved from a node without a queue: the name of a zone has no blank."""


@dataclass(slots=True)
class LinkPlan:
    """The links of one topology, and how messages may walk over them.

    Attributes:
        prefix: Start of every topic name.
        crossings: The links by sender and receiver; joins lead one way.
    """

    prefix: str
    crossings: Mapping[Pair, Sequence[Crossing]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> LinkPlan:
        """Return the plan of a topology."""
        return cls(topology.prefix, crossings_of(topology))

    def fault_of_path(
        self, path: Sequence[str], *, is_guaranteed: bool = False, zone: str | None = None
    ) -> tuple[FindingKind, str] | None:
        """Return why nodes in this order are no walk, or None if they are one.

        Args:
            path: The nodes, origin first.
            is_guaranteed: Whether the message is, so that direct-only zones are closed to it.
            zone: The zone of the last link, where it is known; else any that the rules allow.

        Spec: DESIGN 3.
        """
        twice = [node for number, node in enumerate(path) if node in path[:number]]
        if twice:
            return FindingKind.LOOP, f"{twice[0]} stands twice in the path {'>'.join(path)}"
        trails = [START]
        for number, pair in enumerate(pairwise(path), start=2):
            crossings = self.crossings.get(pair, ())
            if number == len(path) and zone is not None:
                crossings = [one for one in crossings if one.zone == zone]
            tried = [
                crossed(trail, one, is_guaranteed=is_guaranteed)
                for trail in trails
                for one in crossings
            ]
            trails = [one for one in tried if isinstance(one, Trail)]
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
        if any(one.is_join for one in crossings):
            return ()
        receivers = receivers_of(self.crossings)
        walks: list[tuple[tuple[str, ...], Trail, str]] = [((sender,), START, receiver)]
        found: dict[str, None] = {}
        seen: dict[tuple[str, Trail], None] = {}
        for path, before, here in walks:
            for crossing in self.crossings[path[-1], here]:
                trail = crossed(before, crossing, is_guaranteed=False)
                if isinstance(trail, str) or (here, trail) in seen:
                    continue
                seen[here, trail] = found[here] = None
                visited = (*path, here)
                further = [one for one in receivers.get(here, ()) if one not in visited]
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
        return LinkPlan(self.prefix, crossings)

    def leads(self, path: Sequence[str], node: str) -> bool:
        """Return whether a guaranteed message may go on to a node that it has not visited.

        Where its way so far is no walk, there may be others that nobody planned.

        Args:
            path: The nodes that it has visited, where it is last.
            node: Where to.
        """
        trails = [START]
        for pair in pairwise(path):
            trails = [*self._crossed(trails, pair)]
        here = path[-1]
        if here == node or not trails:
            return True
        seen = dict.fromkeys((here, trail) for trail in trails)
        walks = list(seen)
        receivers = receivers_of(self.crossings)
        for at, trail in walks:
            for receiver in receivers.get(at, ()):
                if receiver in path:
                    continue
                onward = [(receiver, one) for one in self._crossed([trail], (at, receiver))]
                if receiver == node and onward:
                    return True
                walks += [one for one in onward if one not in seen]
                seen |= dict.fromkeys(onward)
        return False

    def _crossed(self, trails: Sequence[Trail], pair: Pair) -> Iterator[Trail]:
        """Yield what guaranteed messages carry behind a link that they may leave on."""
        for trail in trails:
            for crossing in self.crossings.get(pair, ()):
                found = crossed(trail, crossing, is_guaranteed=True)
                if isinstance(found, Trail):
                    yield found

    def is_planned(self, finding: Finding) -> bool:
        """Return whether a way that was found fault with is one of this plan."""
        ingress, path = _ingress_of(self.prefix, finding), finding.path
        if ingress is None or not may_be_way(self.prefix, finding):
            return False
        _, is_frame, receiver = finding.link.partition("->")
        is_guaranteed = ingress.message_class is MessageClass.GUARANTEED
        if not is_frame:
            return self.fault_of_path(path, is_guaranteed=is_guaranteed) is None
        whole, zone = (*path, receiver), finding.anchor
        return self.fault_of_path(whole, is_guaranteed=is_guaranteed, zone=zone) is None

    def frame_fault(self, row: FrameRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that frames took, or None."""
        place = place_of(self.prefix, row.place.topic)
        fault = self._frame_fault(place, self._origin(row.source, names), row)
        if fault is None:
            return None
        source = names.text(row.source)
        return row_finding(*fault, row, self.prefix, source, path=row.path, anchor=row.zone)

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
        begin = None if origin is None else began_at(origin, row)
        return fault or _wrong_begin(path, begin, is_moved=row.is_moved)

    def delivery_fault(self, row: DeliveryRow, names: Names) -> Finding | None:
        """Return what is wrong with the way that deliveries took, or None."""
        place = place_of(self.prefix, row.place.topic)
        fault = self._delivery_fault(place.node, self._origin(row.source, names), row)
        if fault is None:
            return None
        return row_finding(*fault, row, self.prefix, names.text(row.source), path=row.path)

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
        begin = None if origin is None else origin.node
        return _wrong_begin(path, begin, is_moved=row.is_moved)


def began_at(origin: TopicPlace, row: FrameRow) -> str:
    """Return the node where the way of frames began, by the topic that they name.

    What holds no message announces a loss or ends a repair, and names what its sender reads.
    """
    return origin.node if row.messages or origin.kind != OUTBOX else origin.other


def may_be_way(prefix: str, finding: Finding) -> bool:
    """Return whether some topology could have a way that was found fault with.

    It ends at the node that sends or has the messages, and begins where they were published, at
    the reader of what a frame without messages names, or at a queue from which they were moved.
    """
    ingress, path = _ingress_of(prefix, finding), finding.path
    here = finding.link.partition("->")[0] or finding.endpoint.partition("/")[0]
    if ingress is None or not path or path[-1] != here or finding.anchor == NO_QUEUE:
        return False
    return finding.is_moved or ingress.reader == path[0]


def _ingress_of(prefix: str, finding: Finding) -> SourceName | None:
    return TopicNames(prefix).source_of(finding.source.partition("/")[0])


def _wrong_begin(
    path: Sequence[str], begin: str | None, *, is_moved: bool
) -> tuple[FindingKind, str] | None:
    """Return that a way begins elsewhere than its messages, which no member of a queue sends on."""
    if begin is None or is_moved or path[0] == begin:
        return None
    text = f"the path {'>'.join(path)} does not begin at {begin}, where the message was"
    return FindingKind.UNPLANNED_PATH, f"{text} published"


def _no_link(zone: str | None) -> str:
    return "no link joins them" if zone is None else f"no link of zone {zone} joins them"
