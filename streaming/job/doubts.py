"""What intervals left open, and what reading it again message by message made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mesh.errors import TransportUnavailableError
from mesh.model.findings import FindingKind
from streaming.audits.cases import BlockFault, endpoint_finding, fault
from streaming.audits.finding_register import Finding, message_id, message_range, records
from streaming.audits.interest import EndpointKey
from streaming.audits.order import DeliverySuspicion
from streaming.audits.origins import FrameSuspicion
from streaming.audits.unwanted_deliveries import AbridgedDeliveries
from streaming.job.reread_answers import Repeats
from streaming.job.rereads import Rereader
from streaming.job.state import State
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import OUTBOX, place_of

T = TypeVar("T")


@dataclass(slots=True)
class Doubts:
    """Reads again, for suspicions and for where unsubscribes took effect.

    Those in a Kafka cluster that does not answer wait for it.

    Attributes:
        rereader: Reads.
        state: The audits.
        prefix: Start of every topic name.
    """

    rereader: Rereader
    state: State
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        """Know how topics are called."""
        self.prefix = self.rereader.topology.prefix

    def settle(self) -> None:
        """Read what can be read now; the findings go to the register."""
        state, can_read = self.state, self.rereader.kafka_clusters.can_read
        deliveries = [one for one in state.delivery_doubts if can_read([one.key.endpoint])]
        frames = [one for one in state.frame_doubts if can_read(one.outboxes)]
        abridged, state.unwanted.abridged = state.unwanted.abridged, []
        is_there = {place: can_read([place]) for place in {one.row.place for one in abridged}}
        readable = [one for one in abridged if is_there[one.row.place]]
        unread = [one for one in abridged if not is_there[one.row.place]]
        state.unwanted.abridged += [*unread, *self._settle(readable, self._abridged)]
        left = self._settle(deliveries, self._deliveries)
        doubts = state.delivery_doubts
        state.delivery_doubts = [one for one in doubts if one in left or one not in deliveries]
        left_frames = self._settle(frames, self._frames)
        state.frame_doubts = [
            one for one in state.frame_doubts if one in left_frames or one not in frames
        ]

    def _settle(
        self, doubts: Sequence[T], read: Callable[[Sequence[T]], Iterator[Finding]]
    ) -> Sequence[T]:
        """Read doubts together, or where that fails one by one; return those still open."""
        try:
            found = list(read(doubts))
        except TransportUnavailableError:
            if len(doubts) == 1:
                return doubts  # it is asked again at the next judgement
            return [left for one in doubts for left in self._settle([one], read)]
        for finding in found:
            self.state.register.add(finding)
        return ()

    def find_ends(self) -> None:
        """Read where unsubscribes took effect, if some did."""
        interest, read = self.state.interest, self.state.read
        ended, uuids = interest.ended_versions(), self.state.names.uuids
        unknown = interest.lanes.unknown_ends(ended, uuids, self._reader_of)
        # A cut tells a position; one that nobody has read up to yet may be beyond any log.
        reached = [key for key in unknown if key.position <= read.get(key.outbox, 0)]
        keys = [key for key in reached if self.rereader.kafka_clusters.can_read([key.outbox])]
        if not keys:
            return
        try:
            answers = self.rereader.ends(keys)
        except TransportUnavailableError:
            return  # they are asked for again
        for key, last in zip(keys, answers, strict=True):
            interest.lanes.ended(key, dict(last))

    def _reader_of(self, topic: str) -> str:
        place = place_of(self.prefix, topic)
        return place.other if place.kind == OUTBOX else ""

    def _deliveries(self, doubts: Sequence[DeliverySuspicion]) -> Iterator[Finding]:
        if not doubts:
            return
        begins = [self._begin_of(one) for one in doubts]
        logs = self.rereader.kafka_clusters.beginnings({one.key.endpoint: None for one in doubts})
        answers = self.rereader.deliveries(doubts, begins)
        for doubt, begin, found in zip(doubts, begins, answers, strict=True):
            topic = place_of(self.prefix, doubt.key.endpoint.topic)
            endpoint = EndpointKey(topic.node, topic.other)
            place = records(doubt.key.endpoint, doubt.since, doubt.until)
            source = self.state.names.place(doubt.key.source) or TopicPartition(*doubt.key.source)
            is_sure = doubt.first <= doubt.reached
            if is_sure and not found and logs.get(doubt.key.endpoint, 0) > begin:
                yield self._repeated(doubt, endpoint, source, place)
            for repeats in found:
                for kind, count, offsets in _kinds(repeats):
                    told = (endpoint, count, offsets, doubt.key.generation, [place])
                    yield fault(kind, source, repeats.block, *told)

    def _repeated(
        self, doubt: DeliverySuspicion, endpoint: EndpointKey, source: TopicPartition, place: str
    ) -> Finding:
        """Return the finding for a copy, or a late message, whose earlier records are deleted."""
        last = min(doubt.reached, doubt.last)
        told = message_range(str(source), doubt.key.generation, doubt.first, last)
        return endpoint_finding(
            FindingKind.DUPLICATE,
            f"{endpoint} got messages of {source} after it had got all up to {doubt.reached}:"
            " again, as far as can be told, for what had come is deleted",
            endpoint,
            source,
            *(doubt.first, last, 1),
            anchor=f"deleted {doubt.first // BLOCK_OFFSETS}",
            ids=(told,),
            evidence=(place,),
        )

    def _abridged(self, doubts: Sequence[AbridgedDeliveries]) -> Iterator[Finding]:
        if not doubts:
            return
        begins = self.rereader.kafka_clusters.beginnings({one.row.place: None for one in doubts})
        for doubt, found in zip(doubts, self.rereader.strange(doubts), strict=True):
            told = (doubt, found, begins.get(doubt.row.place, 0), self.state.interest)
            yield from self.state.unwanted.reread(*told)

    def _begin_of(self, doubt: DeliverySuspicion) -> int:
        """Return from where on messages of the doubted blocks can be in the endpoint."""
        place = self.state.names.place(doubt.key.source)
        if place is None:
            return 0
        return self.state.certifier.blocks.begin_of(place, doubt.key.endpoint, doubt.first)

    def _frames(self, doubts: Sequence[FrameSuspicion]) -> Iterator[Finding]:
        if not doubts:
            return
        answers = self.rereader.frames(doubts, self.state.read)
        for doubt, found in zip(doubts, answers, strict=True):
            for repeats in found:
                for kind, count, offsets in _kinds(repeats):
                    yield self._finding(doubt, repeats.block, kind, count, offsets)

    def _finding(
        self,
        doubt: FrameSuspicion,
        block: int,
        kind: FindingKind,
        count: int,
        offsets: Sequence[int],
    ) -> Finding:
        source = self.state.names.text(doubt.source)
        links = list(dict.fromkeys(place_of(self.prefix, one.topic).link for one in doubt.outboxes))
        told = ", ".join(links)
        if len(links) > 1:
            text = f"{doubt.receiver} gets messages of {source} over several links: {told}"
        elif kind is FindingKind.DUPLICATE:
            text = f"messages of {source} cross {told} more than once"
        else:
            text = f"messages of {source} cross {told} after later ones"
        return Finding(
            kind=kind,
            text=text,
            ids=tuple(message_id(source, doubt.generation, offset) for offset in offsets),
            link=told,
            source=source,
            first=min(offsets),
            last=max(offsets),
            count=count,
            anchor=str(block),
            node=links[0].partition("->")[0],
            evidence=()
            if doubt.receiver
            else (records(doubt.outboxes[0], doubt.since, doubt.until),),
        )


def _kinds(repeats: Repeats) -> Sequence[tuple[BlockFault, int, tuple[int, ...]]]:
    kinds: Sequence[tuple[BlockFault, int, tuple[int, ...]]] = (
        (FindingKind.DUPLICATE, repeats.duplicate, repeats.duplicate_offsets),
        (FindingKind.DISORDER, repeats.disorder, repeats.disorder_offsets),
    )
    return [one for one in kinds if one[1]]
