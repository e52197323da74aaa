"""What arrived in topics: records, and the numbers that messages carry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mesh.errors import StartError
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from tests.bench.load import NUMBER

LIMIT_S = 300.0
BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What arrived in one topic.

    Attributes:
        topic: Which.
        expected: Messages that should be there.
        missing: Of those, how many are not.
        surplus: Records that are there twice, or should not be there at all.
    """

    topic: str
    expected: int
    missing: int
    surplus: int

    @property
    def is_whole(self) -> bool:
        """Return whether every message is there exactly once, and nothing else."""
        return not self.missing and not self.surplus


def count_numbers(
    kafka: KafkaCluster,
    begins: Mapping[TopicPartition, int],
    is_expected: Callable[[int], bool],
    count: int,
) -> Numbers:
    """Read the committed records of a topic to its end and check the number of each.

    Args:
        kafka: Where it is.
        begins: Its partitions, and where in each to begin.
        is_expected: Whether the message of a number should be there.
        count: Numbers are below it.

    Raises:
        StartError: It could not be read to its end in time.
    """
    missing = bytearray(is_expected(number) for number in range(count))
    expected, surplus = sum(missing), 0
    for record in records_from(kafka, begins):
        value = record.value() or b""
        number = NUMBER.unpack_from(value)[0] if len(value) >= NUMBER.size else count
        if number < count and missing[number]:
            missing[number] = 0
        else:
            surplus += 1
    topic = next(iter(begins)).topic
    return Numbers(topic=topic, expected=expected, missing=sum(missing), surplus=surplus)


def records_from(kafka: KafkaCluster, begins: Mapping[TopicPartition, int]) -> Iterator[Record]:
    """Return the committed records of partitions from some offsets on, up to their present ends.

    Raises:
        StartError: They could not be read to their ends in time.
    """
    ends = kafka.admin().ends(list(begins))
    reader = kafka.reader("bench-count")
    try:
        reader.assign(begins)
        deadline_s = time.monotonic() + LIMIT_S
        while any(reader.position(place) < end for place, end in ends.items()):
            yield from reader.read(0.2, BATCH)
            if time.monotonic() > deadline_s:
                raise StartError(f"{next(iter(ends)).topic} could not be read to its end")
    finally:
        reader.close()
