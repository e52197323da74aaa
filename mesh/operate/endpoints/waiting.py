"""How many records wait for a reader: counted, because there are more offsets than records.

Transaction markers take up offsets too, and nobody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range

COUNTED_MAX = 5_000
"""Up to this many offsets the records are counted; beyond that offsets are."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits.

    Attributes:
        count: Records, or offsets if there are too many to look at.
        is_counted: Whether these are records.
        by: How many there are of each kind, if that was requested and they are counted.
    """

    count: int = 0
    is_counted: bool = True
    by: Mapping[str, int] = field(default_factory=dict)


def waiting_behind(
    kafka: KafkaCluster,
    passed: Mapping[TopicPartition, int],
    places: Sequence[TopicPartition],
    kind_of: Callable[[Record], str] = lambda _: "",
) -> Waiting:
    """Return what lies after the positions of a reader.

    Args:
        kafka: Their Kafka cluster.
        passed: The next offset to read; the start of the log if there is none.
        places: Partitions; those that do not exist hold nothing.
        kind_of: The kind by which to count separately.

    Raises:
        TransportError: Brokers did not answer.
    """
    starts, ends = kafka.admin().starts(places), kafka.admin().stable_ends(places)
    begins = {at: max(passed.get(at, 0), starts.get(at, 0)) for at in ends}
    behind = {at: begin for at, begin in begins.items() if begin < ends[at]}
    offsets = sum(ends[at] - begin for at, begin in behind.items())
    if offsets > COUNTED_MAX:
        return Waiting(offsets, is_counted=False)
    by: dict[str, int] = {}
    for record in read_range(kafka, behind, ends, name="waiting"):
        kind = kind_of(record)
        by[kind] = by.get(kind, 0) + 1
    return Waiting(sum(by.values()), by=dict(sorted(by.items())))
