"""Where nothing may be written now, because no transaction that touches it could end. Spec: K20."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.transport.port import TopicPartition


@dataclass(frozen=True, slots=True)
class Unwritable:
    """Topics and partitions that take no records.

    Attributes:
        topics: Those of which no partition does, and why.
        parts: Single partitions, and why.
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[TopicPartition, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.topics or self.parts)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition takes no records."""
        return topic in self.topics or TopicPartition(topic, partition) in self.parts

    def of_lane(self, number: int, lanes: int) -> Mapping[str, str]:
        """Return the topics of which a lane may not write all of its partitions, and why."""
        parts = {at.topic: why for at, why in self.parts.items() if at.partition % lanes == number}
        return {**parts, **self.topics}


ALL_WRITABLE = Unwritable()
"""Everything may be written."""
