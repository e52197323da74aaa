"""One message looked for among the records of outboxes and endpoints. Spec: K9, K11.

Messages of one source come in order, so a later one of the same source ends the search in a
partition, except for copies that come a little later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.errors import ProtocolError
from mesh.model.frames import FrameFlags, FrameHeader
from mesh.transport.headers import headers_of
from mesh.transport.port import Record
from mesh.view.messages import MessageIdentity, ReceivedMessage, received
from mesh.wire.frames import decode_header, decode_value
from mesh.wire.varint import zigzag

BEHIND_MAX = 1_000
"""Deliveries to an endpoint that are examined after the first later message."""

FRAMES_BEHIND_MAX = 100
"""Frames of an outbox, likewise: each has up to a megabyte."""


@dataclass(slots=True)
class Search:
    """What was seen so far, partition by partition.

    Attributes:
        identity: The message.
        passed: Topics (one partition of each is read) where a later message was seen, and how many
            records have come since.
        early: Topics where an earlier one was seen, so that the search began early enough.
    """

    identity: MessageIdentity
    passed: dict[str, int] = field(default_factory=dict)
    early: dict[str, None] = field(default_factory=dict)

    _topic_id: bytes = field(init=False)
    _offset: bytes = field(init=False)
    _source: tuple[str, int, int] = field(init=False)

    def __post_init__(self) -> None:
        one = self.identity
        self._topic_id, self._offset = bytes.fromhex(one.topic_id), zigzag(one.offset)
        self._source = one.topic_id, one.partition, one.generation

    def frame(self, record: Record) -> FrameHeader | None:
        """Return the header of a record of an outbox if the message is in it."""
        key = record.key() or b""
        # Most are of other sources: recognising that is cheaper than reading them.
        if self._topic_id not in key:
            return None
        try:
            header = decode_header(key)
            origin = header.origin
            source = (origin.source.topic_id.hex(), origin.source.partition, origin.generation)
            if source != self._source:
                return None
            if origin.first > self.identity.offset and not header.flags & FrameFlags.REPAIR:
                self.passed.setdefault(record.topic(), 0)
            if origin.last < self.identity.offset:
                self.early[record.topic()] = None
            if not origin.first <= self.identity.offset <= origin.last:
                return None
            offsets: Sequence[int] = [m.offset for m in decode_value(record.value() or b"", header)]
        except ProtocolError:
            return None
        return header if self.identity.offset in offsets else None

    def delivery(self, record: Record) -> ReceivedMessage | None:
        """Return what a record of an endpoint says if it is a delivery of the message."""
        headers = headers_of(record)
        said = (headers[-1][1] if headers else None) or b""
        if self._topic_id not in said:
            return None
        # A record that only shows that the message has passed need not be read if that is known.
        if self._offset not in said and record.topic() in self.passed:
            return None
        try:
            message = received(record)
        except ProtocolError:
            return None
        found = message.identity
        if (found.topic_id, found.partition, found.generation) != self._source:
            return None
        if found.offset > self.identity.offset:
            self.passed.setdefault(record.topic(), 0)
        elif found.offset < self.identity.offset:
            self.early[record.topic()] = None
        return message if found == self.identity else None

    def is_over(self, record: Record, behind_max: int) -> bool:
        """Return whether nothing more can be expected after a record of its partition."""
        count = self.passed.get(topic := record.topic())
        if count is None:
            return False
        self.passed[topic] = count + 1
        return count >= behind_max
