"""The outcome of a message that was handed over. Spec: K7, K9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.errors import MeshError
from mesh.model.frames import MessageClass
from mesh.view.messages import MessageIdentity


@dataclass(slots=True)
class Published:
    """One message that `publish` took; `flush` settles it.

    Attributes:
        subject: Mesh address.
        message_class: Its class.
        topic: Ingress topic of the node.
        topic_id: The broker's id of that topic, 32 hexadecimal digits.
        partition: Its partition; -1 until it is written.
        offset: Its offset there; -1 until it is written.
        error: Why Kafka has not acknowledged it; empty otherwise.
    """

    subject: str
    message_class: MessageClass
    topic: str
    topic_id: str
    partition: int = -1
    offset: int = -1
    error: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether Kafka has acknowledged it; a guaranteed message will then arrive."""
        return self.offset >= 0

    @property
    def id(self) -> str:
        """The id by which `mesh trace` finds it; empty until it is accepted."""
        return f"{self.topic}/{self.partition}/{self.offset}" if self.is_accepted else ""

    @property
    def identity(self) -> MessageIdentity | None:
        """Its identity as receivers see it; None until it is accepted.

        This does not hold for a topic that was ever truncated. A recreated topic is noticed by the
        first `publish` after a `flush`, five seconds after the last look: until then messages have
        the identity that the former one would have given.
        """
        if not self.is_accepted:
            return None
        return MessageIdentity(self.topic_id, self.partition, 0, self.offset)

    def settle(self, partition: int, offset: int, error: str) -> None:
        """Record the outcome; called by the writer."""
        self.partition, self.offset, self.error = partition, offset, error


class NotPublishedError(MeshError):
    """Kafka has not acknowledged some messages; they may be published again.

    A message that brokers refused, as the text says, was not written. A message without any
    answer may have been written, and then arrives twice.

    Attributes:
        failed: How many.
        refused: What `publish` returned for each of them; the first hundred thousand.
    """

    def __init__(self, text: str, *, failed: int, refused: Sequence[Published] = ()) -> None:
        self.failed = failed
        self.refused = tuple(refused)
        super().__init__(text)
