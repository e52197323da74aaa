"""What is wrong with the node's sources: reading that stopped, chains that broke.

Lanes detect and repair; the node reports to people and neighbours, and awaits operators' consent.
Spec: K11, R6, DESIGN 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.control import EndpointStatus, LinkStatus, RepairRequest, Stop
from mesh.model.effects import ResumeSource, WriteRepair, WriteStop
from mesh.model.inputs import (
    GapFound,
    GapMended,
    LossAccepted,
    NeighbourAwaited,
    OutboxFull,
    SourceResumed,
    SourceStopped,
)
from mesh.model.words import LinkWord

AWAITED = "lanes wait until this worker has heard all that their former owner knew of it"

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class Faults:
    """Stops and gaps of all lanes of the node, as far as this worker knows.

    Attributes:
        stops: By place: the neighbour, empty for the own ingress, and the stop.
        gaps: Open repair requests, with the neighbour asked.
        mended_chains: Those whose request this leader has ended: lanes report that more than once.
        accepted: What operators accept now, by place.
        endpoints: Status of the endpoints that have something to report.
        full: By neighbour: why no more may wait for it, or nothing.
        awaited: Neighbours that lanes must hear more from before they read anything.
    """

    stops: dict[Place, tuple[str, Stop]] = field(default_factory=dict)
    gaps: dict[tuple[str, str, int, bytes, int], RepairRequest] = field(default_factory=dict)
    mended_chains: set[tuple[str, str, int, bytes, int]] = field(default_factory=set)
    accepted: dict[Place, Stop] = field(default_factory=dict)
    full: dict[str, str] = field(default_factory=dict)
    awaited: dict[str, None] = field(default_factory=dict)
    endpoints: dict[str, EndpointStatus] = field(default_factory=dict)

    def take(
        self, input_: SourceStopped | SourceResumed | LossAccepted | GapFound | GapMended
    ) -> Iterator[WriteStop | WriteRepair | ResumeSource]:
        """Record what a lane found or an operator wrote."""
        match input_:
            case SourceStopped(neighbour, stop):
                yield from self.stopped(neighbour, stop)
            case SourceResumed(topic, partition):
                yield from self.resumed(topic, partition)
            case LossAccepted(topic, partition, stop):
                if stop is None:
                    self.accepted.pop((topic, partition), None)
                else:
                    yield from self.accept(stop)
            case GapFound(neighbour, request):
                yield from self.found(neighbour, request)
            case GapMended(neighbour, request):
                yield from self.mended(neighbour, request)

    def stopped(self, neighbour: str, stop: Stop) -> Iterator[WriteStop | ResumeSource]:
        """Record a stop; it may be accepted already."""
        place = (stop.topic, stop.partition)
        if self.stops.get(place) != (neighbour, stop):
            self.stops[place] = (neighbour, stop)
            yield WriteStop(*place, stop)
        if self.accepted.get(place) == stop:
            yield ResumeSource(stop)

    def resumed(self, topic: str, partition: int) -> Iterator[WriteStop]:
        """Record that a source is read again."""
        if self.stops.pop((topic, partition), None) is not None:
            yield WriteStop(topic, partition, None)

    def accept(self, stop: Stop) -> Iterator[ResumeSource]:
        """Take an operator's consent: it applies to exactly this loss and no other."""
        place = (stop.topic, stop.partition)
        self.accepted[place] = stop
        if (found := self.stops.get(place)) is not None and found[1] == stop:
            yield ResumeSource(stop)

    def endpoint_seen(self, endpoint: str, status: EndpointStatus | None) -> None:
        """Record an endpoint's status, or that it has nothing to report."""
        self.endpoints.pop(endpoint, None)
        if status is not None:
            self.endpoints[endpoint] = status

    def found(self, neighbour: str, request: RepairRequest) -> Iterator[WriteRepair]:
        """Record a broken chain."""
        key = _key(neighbour, request)
        self.mended_chains.discard(key)
        if self.gaps.get(key) != request:
            self.gaps[key] = request
            yield WriteRepair(neighbour, request, is_open=True)

    def mended(self, neighbour: str, request: RepairRequest) -> Iterator[WriteRepair]:
        """Record that a chain is whole again; a request of a former leader may still be there."""
        key = _key(neighbour, request)
        if self.gaps.pop(key, None) is not None or key not in self.mended_chains:
            self.mended_chains.add(key)
            yield WriteRepair(neighbour, request, is_open=False)

    def everything(self, written: Sequence[Place]) -> Iterator[WriteStop | WriteRepair]:
        """Yield what a new leader writes, given the stops that are written already."""
        self.mended_chains.clear()
        for place, (_, stop) in sorted(self.stops.items(), key=lambda item: item[0]):
            yield WriteStop(*place, stop)
        for place in written:
            if place not in self.stops:
                yield WriteStop(*place, None)
        for key, request in sorted(self.gaps.items(), key=lambda item: item[0]):
            yield WriteRepair(key[0], request, is_open=True)

    def forget(self, gone: Sequence[str]) -> None:
        """Request nothing of neighbours whose links were removed; lanes report the end of stops."""
        for key in [one for one in self.gaps if one[0] in gone]:
            del self.gaps[key]
        self.mended_chains = {key for key in self.mended_chains if key[0] not in gone}
        for name in gone:
            self.full.pop(name, None)
            self.awaited.pop(name, None)

    def link_reported(self, input_: OutboxFull | NeighbourAwaited) -> None:
        """Record why a link is not well, or is again."""
        match input_:
            case OutboxFull(neighbour, text):
                self.full[neighbour] = text
            case NeighbourAwaited(neighbour, is_awaited=True):
                self.awaited[neighbour] = None
            case NeighbourAwaited(neighbour):
                self.awaited.pop(neighbour, None)

    def seen(self, link: LinkStatus) -> LinkStatus:
        """Return how people and clients are to see a link: full before anything else.

        A link whose other end is awaited is not up: the node reads nothing before.
        """
        if link.neighbour in self.awaited:
            state = LinkWord.UNPROVEN if link.state == LinkWord.UP else link.state
            return replace(
                link, state=state, reason="; ".join(filter(None, [link.reason, AWAITED]))
            )
        if not (text := self.full.get(link.neighbour, "")):
            return link
        reasons = [text] if link.state == LinkWord.UP else [text, link.state, link.reason]
        return replace(link, state=LinkWord.FULL, reason="; ".join(filter(None, reasons)))

    def of_neighbour(self, neighbour: str) -> Sequence[Stop]:
        """Return the stops of a neighbour's outboxes."""
        return [stop for name, stop in self.stops.values() if name == neighbour]


def _key(neighbour: str, request: RepairRequest) -> tuple[str, str, int, bytes, int]:
    return (
        neighbour,
        request.outbox,
        request.outbox_partition,
        request.topic_id,
        request.partition,
    )
