"""A lane of node b in the chain a-b-c, given records one run at a time; nothing else is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mesh.config.topology_file import topology_from_mapping
from mesh.core.interest import Member
from mesh.core.local_links import LocalLink
from mesh.lane.lane import Lane
from mesh.lane.messages.poison import Poison
from mesh.lane.progress import Progress
from mesh.lane.sources import Source, SourceTopic
from mesh.lane.step import StepResult, step
from mesh.model.control import Interest
from mesh.model.facts import Fact, FactKey
from mesh.model.frames import (
    Chain,
    FrameFlags,
    FrameHeader,
    FrameKind,
    Hop,
    Message,
    MessageClass,
    Origin,
    SourcePartition,
)
from mesh.model.reasons import DropReason
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.node.machine import NodeMachine
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Row, TopicPartition
from mesh.wire.frames import encode_value
from mesh.wire.header import decode_header, encode_header

Kind = TypeVar("Kind")

SPEC: Mapping[str, object] = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}, "c": {}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}
NOW_MS = 1_000_000
FROM_A = TopicPartition("mesh.a.to.b.g", 0)
FROM_A_DIRECT = TopicPartition("mesh.a.to.b.d", 0)
FROM_C = TopicPartition("mesh.c.to.b.g", 0)
INGRESS = TopicPartition("mesh.b.in.g", 0)
INGRESS_DIRECT = TopicPartition("mesh.b.in.d", 0)
TO_A, TO_C = (TopicPartition(f"mesh.b.to.{name}.g", 0) for name in "ac")
ENDPOINT = TopicPartition("mesh.b.ep.e", 0)
DEAD_LETTERS = TopicPartition("mesh.b.dlq", 0)
OF_A = SourcePartition(b"ingress of a....", 0)
"""What a publishes, by identity: frames that come from a are of its chain."""


def topic_id(at: TopicPartition) -> bytes:
    """Return the id that a topic has here."""
    return at.topic.encode().ljust(16, b".")[:16]


class Alone:
    """The lane, what it reads, and what it has decided. b has endpoint `e`; all want `x` there.

    c wants everything, a nothing but `back`.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        topology = topology_from_mapping(SPEC)
        self.machine = NodeMachine(topology, "b", "uuid-b")
        self.learner = self.machine.learner
        router = self.learner.router
        router.modes.clear()
        for filter_, member in (
            ("x", Member("", "e")),
            (">", Member("Z", "c")),
            ("back", Member("Z", "a")),
        ):
            router.table.put(filter_, member, Interest())
        router.forget()
        self.learner.classes = {"e": MessageClass.GUARANTEED}
        self.lane = Lane(topology, "b", 0, self.learner, progress or Progress(epoch=7))
        self.lane.following.awaited = {}
        self.poison = Poison()

    def link(self, neighbour: str) -> LocalLink:
        """Return the link to a neighbour."""
        return self.lane.link(neighbour)

    def topic(self, at: TopicPartition) -> SourceTopic:
        """Return what is known of a topic that b reads."""
        message_class = MessageClass.DIRECT if at.topic.endswith(".d") else MessageClass.GUARANTEED
        name = self.lane.names.source_of(at.topic)
        is_own = at.topic.startswith("mesh.b.in.")
        link = None if is_own or name is None else self.link(name.owner)
        return SourceTopic(at.topic, "k", message_class, link)

    def read(self, at: TopicPartition) -> Source:
        """Have the lane read a source from now on."""
        return self.lane.assign(at, self.topic(at), topic_id(at))

    def step(self, at: TopicPartition, *records: MemoryRecord, now_ms: int = NOW_MS) -> StepResult:
        """Hand the lane a run of records, as its owner does."""
        source = self.lane.sources.get(at) or self.read(at)
        return step(self.lane, source, records, now_ms, records_max=1_000, poison=self.poison)

    @property
    def facts(self) -> Sequence[Fact]:
        """What the open batch is to record."""
        return [one for one in self.lane.open(NOW_MS).facts.values() if one is not None]

    def facts_of(self, kind: type[Kind]) -> Sequence[Kind]:
        """Return the facts of one kind that the open batch is to record."""
        return [one for one in self.facts if isinstance(one, kind)]

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """How many messages went nowhere, by reason."""
        return {one.reason: one.messages for one in self.lane.open(NOW_MS).ledger().dropped}

    def rows(self, at: TopicPartition) -> Sequence[Row]:
        """Return what is to be written somewhere in the lane's transaction."""
        return self.lane.open(NOW_MS).rows.get((at.topic, at.partition), [])

    def chains(self, at: TopicPartition) -> Sequence[tuple[int, int, int]]:
        """Return (previous, first, last) of the frames to be written to an outbox."""
        chains = [decode_header(row[1] or b"").hop.chain for row in self.rows(at)]
        return [(one.previous, one.first, one.last) for one in chains]

    def kinds(self, at: TopicPartition) -> Sequence[FrameKind]:
        """Return the kinds of the frames to be written to an outbox."""
        return [decode_header(row[1] or b"").kind for row in self.rows(at)]

    def commit(self, now_ms: int = NOW_MS) -> Mapping[FactKey, Fact | None]:
        """Have the open batch committed, and return its facts; what it wrote is gone from it."""
        batch = self.lane.open(now_ms)
        self.lane.close(batch, now_ms)
        batch.rows.clear()
        assert self.lane.closing is not None
        self.lane.committed(self.lane.closing)
        return batch.facts

    def recovered(self, *facts: Fact, epoch: int = 8) -> Alone:
        """Return a lane that was taken, of which these facts were kept."""
        progress = Progress(epoch=epoch)
        for fact in facts:
            progress.apply(fact)
        return Alone(progress)


def published(
    offset: int,
    subject: str = "x",
    at: TopicPartition = INGRESS,
    payload: bytes = b"payload",
    epoch: int = 0,
) -> MemoryRecord:
    """Return a record as a client writes it."""
    headers: list[tuple[str, bytes | None]] = [(SUBJECT_HEADER, subject.encode())]
    return MemoryRecord(at.topic, at.partition, offset, None, payload, headers, (1, NOW_MS), epoch)


def frame(
    offset: int,
    previous: int,
    first: int,
    last: int,
    *,
    at: TopicPartition = FROM_A,
    subjects: Sequence[str] = ("x",),
    path: Sequence[str] = ("a",),
    kind: FrameKind = FrameKind.DATA,
    flags: FrameFlags = FrameFlags.NONE,
    epoch: int = 1,
    is_empty: bool = False,
) -> MemoryRecord:
    """Return a frame of what a published from `first` to `last`, at an offset of its outbox."""
    count = 0 if is_empty or kind is FrameKind.GAP else last - first + 1
    origin = Origin(
        node="a",
        source=OF_A,
        generation=0,
        first=first,
        last=last,
        count=count,
        subjects=subjects if count else (),
    )
    hop = Hop(
        zone="Z",
        hops=1,
        join_hops=0,
        crossed_external=False,
        lane_epoch=epoch,
        path=tuple(path),
        chain=Chain(source=OF_A, previous=previous, first=first, last=last),
    )
    messages = [
        Message(
            offset=first + number,
            subject=subjects[number % len(subjects)],
            timestamp=NOW_MS,
            key=None,
            headers=(),
            payload=b"%d" % (first + number),
        )
        for number in range(count)
    ]
    key = encode_header(FrameHeader(hop=hop, origin=origin, kind=kind, flags=flags))
    value = encode_value(messages, origin)
    return MemoryRecord(at.topic, at.partition, offset, key, value, None, (1, NOW_MS))
