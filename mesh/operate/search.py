"""One message looked for among the records of outboxes and endpoints. Spec: K9, K11.

Messages of one source come in order, so a later one of the same source ends the search in a
partition, but for copies that come a little later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.codec.frames import decode_header, decode_value
from mesh.errors import ProtocolError
from mesh.model.frames import FrameFlags, FrameHeader
from mesh.transport.headers import headers_of
from mesh.transport.port import Record, TopicPartition
from mesh.view.messages import MessageIdentity, ReceivedMessage, received

BEHIND_MAX = 1_000
"""Records of a partition that are looked at behind the first later message."""


@dataclass(slots=True)
class Search:
    """What was seen so far, partition by partition.

    Attributes:
        identity: The message.
        passed: Partitions where a later message was seen, and how many records since then.
        has_earlier: Whether an earlier one was seen, so that the search began early enough.
    """

    identity: MessageIdentity
    passed: dict[TopicPartition, int] = field(default_factory=dict)
    has_earlier: bool = False

    @property
    def _source(self) -> tuple[str, int, int]:
        return self.identity.topic_id, self.identity.partition, self.identity.generation

    def frame(self, record: Record) -> FrameHeader | None:
        """Return the header of a record of an outbox if the message is in it."""
        key = record.key() or b""
        # Most are of other sources: telling that costs less than reading them.
        if bytes.fromhex(self.identity.topic_id) not in key:
            return None
        try:
            header = decode_header(key)
            origin = header.origin
            source = (origin.source.topic_id.hex(), origin.source.partition, origin.generation)
            if source != self._source:
                return None
            if origin.first > self.identity.offset and not header.flags & FrameFlags.REPAIR:
                self.passed.setdefault(_place(record), 0)
            self.has_earlier |= origin.last < self.identity.offset
            if not origin.first <= self.identity.offset <= origin.last:
                return None
            offsets: Sequence[int] = [m.offset for m in decode_value(record.value() or b"", header)]
        except ProtocolError:
            return None
        return header if self.identity.offset in offsets else None

    def delivery(self, record: Record) -> ReceivedMessage | None:
        """Return what a record of an endpoint says if it is a delivery of the message."""
        last = headers_of(record)[-1:]
        if not any(bytes.fromhex(self.identity.topic_id) in (value or b"") for _, value in last):
            return None
        try:
            message = received(record)
        except ProtocolError:
            return None
        found = message.identity
        if (found.topic_id, found.partition, found.generation) != self._source:
            return None
        if found.offset > self.identity.offset:
            self.passed.setdefault(_place(record), 0)
        self.has_earlier |= found.offset < self.identity.offset
        return message if found == self.identity else None

    def is_over(self, record: Record) -> bool:
        """Say whether nothing is to be expected any more behind a record of its partition."""
        place = _place(record)
        if place not in self.passed:
            return False
        self.passed[place] += 1
        return self.passed[place] > BEHIND_MAX


def _place(record: Record) -> TopicPartition:
    return TopicPartition(record.topic(), record.partition())
