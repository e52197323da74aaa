"""What consumer groups release for deletion, and what a member has taken up. Spec: K5."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mesh.transport.port import BEGINNING, Passed, Record, TopicPartition

R = TypeVar("R", bound=Record)


def of_topics(
    group: Mapping[TopicPartition, int], topics: Collection[str]
) -> Mapping[TopicPartition, int]:
    """Return what a group has committed for some topics."""
    return {place: offset for place, offset in group.items() if place.topic in topics}


def slowest(
    groups: Sequence[Mapping[TopicPartition, int]], topics: Sequence[str]
) -> Mapping[TopicPartition, int]:
    """Return the offsets that all groups of each topic have passed; see `Admin.consumed`.

    Args:
        groups: What each group has committed, of any topics.
        topics: The topics in question.
    """
    found: dict[TopicPartition, int] = {}
    for topic in topics:
        readers = [
            {place: offset for place, offset in group.items() if place.topic == topic}
            for group in groups
        ]
        readers = [reader for reader in readers if reader]
        for place in set().union(*readers):
            offsets = [reader[place] for reader in readers if place in reader]
            if len(offsets) == len(readers):
                found[place] = min(offsets)
    return found


@dataclass(slots=True)
class Takings:
    """The partitions of one member.

    Offsets of one log only rise. A record at an offset where others were read is of another log:
    the topic was recreated, or has lost its end. Mistaken for one already read, it would be
    skipped silently.

    Attributes:
        owned: Where each was taken up: another object is another taking.
    """

    owned: dict[TopicPartition, Passed] = field(default_factory=dict)
    _next: dict[TopicPartition, int] = field(default_factory=dict)

    def begin(self, at: TopicPartition, passed: Passed) -> None:
        """Take a partition up."""
        self.owned[at] = passed
        self._next.pop(at, None)

    def begin_again(self) -> None:
        """Treat all that is owned as new logs, of which nothing was read."""
        for at in self.owned:
            self.begin(at, Passed(BEGINNING, is_rewound=True))

    def end(self, at: TopicPartition) -> None:
        """Give a partition up to another member."""
        self.owned.pop(at, None)
        self._next.pop(at, None)

    def end_all(self) -> None:
        """Give everything up."""
        self.owned.clear()
        self._next.clear()

    def follow(self, records: list[R]) -> list[R]:
        """Return what was read, without records of logs that have ended meanwhile.

        Args:
            records: In the order in which they were read.
        """
        rewound: dict[TopicPartition, int] = {}
        for index, record in enumerate(records):
            at, offset = TopicPartition(record.topic(), record.partition()), record.offset()
            if offset < self._next.get(at, offset):
                self.owned[at] = Passed(offset, is_rewound=True)
                rewound[at] = index
            self._next[at] = offset + 1
        if not rewound:
            return records
        return [
            one
            for index, one in enumerate(records)
            if index >= rewound.get(TopicPartition(one.topic(), one.partition()), 0)
        ]
