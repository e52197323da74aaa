"""Records of a part of some topics, read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.transport.port import KafkaCluster, Record, TopicPartition

_READ_S = 0.1
_READS_MAX = 50


def read_range(
    cluster: KafkaCluster,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    name: str = "range",
) -> Iterator[Record]:
    """Yield the committed records from `begins` below `ends`, for as long as they come."""
    if not begins:
        return
    reader = cluster.reader(name)
    try:
        reader.assign(begins)
        idle = 0
        while idle < _READS_MAX:
            if all(reader.position(place) >= ends[place] for place in begins):
                return
            records = reader.read(_READ_S, 1_000)
            idle = 0 if records else idle + 1
            for record in records:
                if record.offset() < ends[TopicPartition(record.topic(), record.partition())]:
                    yield record
    finally:
        reader.close()
