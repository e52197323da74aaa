"""A record that its target refuses for good is quarantined, and announced as lost there. R12, K20.

A target refuses records in groups: a broker takes or refuses a request as a whole. So the records
of one source record are written in ever smaller groups, each waited for, until it is clear which
ones are refused on their own. Announcements replace them; they become dead letters.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from itertools import count

from mesh.errors import TransportRecordError
from mesh.lane.batch import Rows
from mesh.lane.messages.gaps import EMPTY
from mesh.lane.messages.refusing import letter_row
from mesh.lane.run import Run
from mesh.model.frames import FrameKind, MessageClass, Origin, SourcePartition
from mesh.model.reasons import DropReason
from mesh.model.record_headers import MESH_HEADER
from mesh.model.state import DeadLetter, LossReason
from mesh.model.topics import TopicNames
from mesh.transport.port import Headers, Record, Row, TopicPartition, Writer
from mesh.wire.announcements import announcement_ext, encode_announcement, loss_of
from mesh.wire.deliveries import delivery_of
from mesh.wire.frames import decode_header, encode_header
from mesh.worker.lanes.second_writer import second_partition_of
from mesh.worker.second_writer.catching_up import CHUNK


@dataclass(frozen=True, slots=True)
class PutAside:
    """A record of a target that was not written.

    Attributes:
        identity: Of the message, or of the first and last of a frame.
        messages: How many it holds.
        message_class: Of them.
        key, value, headers: What it would have been.
    """

    identity: str
    messages: int
    message_class: MessageClass
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(slots=True)
class Suspect:
    """A target that refused a record for its content: records are written one by one. Spec: R12.

    Attributes:
        at, offset: The source record refused last.
        tries: How often it was refused in a row.
        left: Number of records still to be written alone; after that many go at once as usual.
    """

    at: TopicPartition | None = None
    offset: int = -1
    tries: int = 0
    left: int = CHUNK

    def refused(self, at: TopicPartition, offset: int) -> None:
        """Note that a source record was refused on its own."""
        self.tries = self.tries + 1 if (at, offset) == (self.at, self.offset) else 1
        self.at, self.offset = at, offset

    def passed(self) -> bool:
        """Note that a record was written; return whether those are enough."""
        self.tries, self.at = 0, None
        self.left -= 1
        return self.left <= 0


@dataclass(slots=True)
class Trial:
    """Finds out which records a target refuses, and leaves them out.

    Attributes:
        target: The topic in doubt; others are written as usual.
        node, names: The node that announces what is left out, and its topics.
        endpoint, neighbour: The owner of the topic: one of both.
        refusal: The broker's last error.
        edges: Numbers of its records before which earlier ones are waited for.
        left_out: Numbers of those that are refused on their own.
        aside: What was left out this time.
    """

    target: str
    node: str
    names: TopicNames
    endpoint: str = ""
    neighbour: str = ""
    refusal: TransportRecordError | None = None
    edges: list[int] = field(default_factory=list)
    left_out: set[int] = field(default_factory=set)
    aside: list[PutAside] = field(default_factory=list)
    _count: int = 0
    _begun: int = 0

    def replace_in(self, rows: Rows) -> None:
        """Replace the records that are left out with announcements, and note those records."""
        self.aside.clear()
        numbers = count()
        for some in [some for (topic, _), some in rows.items() if topic == self.target]:
            for at, (value, key, stamp, headers) in enumerate(some):
                if next(numbers) in self.left_out:
                    is_link = bool(self.neighbour)
                    self.aside.append(_put_aside(key, value, headers or (), is_link=is_link))
                    some[at] = self._announcement(key, stamp, headers or ())

    def transact(self, writer: Writer, rows: Rows) -> None:
        """Write rows in a transaction; those of the target in the groups that the edges define.

        Raises:
            TransportRecordError: The target refuses the records since the last edge.
        """
        self._count = self._begun = 0
        writer.begin()
        for (topic, partition), some in rows.items():
            if topic != self.target:
                writer.produce_all(topic, partition, some)
                continue
            for row in some:
                if self._count in self.edges:
                    self._wait(writer)
                writer.produce_all(topic, partition, [row])
                self._count += 1
        self._wait(writer)
        writer.commit()

    def _wait(self, writer: Writer) -> None:
        if writer.flush():
            writer.commit()  # reports what was refused
        self._begun = self._count

    def narrow(self) -> bool:
        """Halve the group that was refused, or leave it out if it is a single record.

        Returns:
            Whether there is anything to narrow: not if an announcement was refused as well.
        """
        first, end = self._begun, self._count
        if end - first > 1:
            for edge in {first, (first + end) // 2, end} - set(self.edges):
                insort(self.edges, edge)
            return True
        if end == first or first in self.left_out:
            return False
        self.left_out.add(first)
        return True

    def _announcement(self, key: bytes | None, stamp: int, headers: Headers) -> Row:
        """Return the announcement that replaces a record."""
        reason = LossReason.QUARANTINED
        if not self.neighbour:
            return None, None, stamp, [loss_header(headers, self.node, self.names, reason)]
        header = decode_header(key or b"")
        topic = self.names.ingress(header.origin.node, MessageClass.GUARANTEED)
        origin = replace(header.origin, count=0, subjects=())
        ext = {**header.ext, **announcement_ext(topic, reason)}
        told = replace(header, origin=origin, kind=FrameKind.GAP, ext=ext)
        return EMPTY, encode_header(told), stamp, None


def loss_header(
    headers: Headers, node: str, names: TopicNames, reason: str
) -> tuple[str, bytes | None]:
    """Return the one header that tells an endpoint that a delivery to it is lost.

    Args:
        headers: Of the delivery.
        node: The announcing node.
        names: Of the mesh.
        reason: A `LossReason`.

    Raises:
        DecodeError: The mesh did not write it.
    """
    delivery = delivery_of(headers)
    origin = Origin(
        node=node,
        source=delivery.source,
        generation=delivery.generation,
        first=delivery.offset,
        last=delivery.offset,
        count=0,
        subjects=(),
    )
    topic = names.ingress(delivery.path[0], delivery.message_class)
    return encode_announcement(loss_of(origin, announcement_ext(topic, reason), [node]))


def _put_aside(
    key: bytes | None, value: bytes | None, headers: Headers, *, is_link: bool
) -> PutAside:
    if is_link:
        origin = decode_header(key or b"").origin
        span = f"{origin.first}-{origin.last}" if origin.last > origin.first else f"{origin.first}"
        told = identity_text(origin.source, origin.generation, span)
        return PutAside(told, origin.count, MessageClass.GUARANTEED, key, value, headers)
    return delivered_aside(key, value, headers)


def delivered_aside(key: bytes | None, value: bytes | None, headers: Headers) -> PutAside:
    """Return a delivery as a dead letter has it: what the client wrote, and its identity.

    Raises:
        DecodeError: The mesh did not write it.
    """
    delivery = delivery_of(headers)
    told = identity_text(delivery.source, delivery.generation, str(delivery.offset))
    kept = [(name, content) for name, content in headers if name != MESH_HEADER]
    return PutAside(told, 1, delivery.message_class, key, value, kept)


def identity_text(source: SourcePartition, generation: int, offset: str) -> str:
    """Return an identity as people and `mesh trace` write it."""
    return f"{source.topic_id.hex()}/{source.partition}/{generation}/{offset}"


def keep_aside(trial: Trial, run: Run, record: Record) -> None:
    """Write the dead letters of what a trial left out, and account for it.

    Args:
        trial: The trial.
        run: Of its catch-up: what the record was read of.
        record: The record.
    """
    catch_up, batch, source = run.lane, run.batch, run.source
    letters = catch_up.names.dead_letters(catch_up.node)
    for one in trial.aside:
        letter = DeadLetter(
            reason=LossReason.QUARANTINED.upper(),
            detail=str(trial.refusal),
            topic=source.at.topic,
            partition=source.at.partition,
            offset=record.offset(),
            topic_id=source.topic_id,
            target=trial.target,
            identity=one.identity,
        )
        row = letter_row(letter, one.key, one.value, one.headers)
        batch.write_rows(letters, second_partition_of(catch_up), [row])
        batch.count_lost(
            DropReason.QUARANTINED,
            source.at,
            one.messages,
            one.message_class,
            endpoint=trial.endpoint,
            neighbour=trial.neighbour,
        )
