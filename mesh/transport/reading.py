"""Records of a part of some topics, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mesh.errors import TransportUnavailableError
from mesh.transport.port import BEGINNING, KafkaCluster, Record, TopicPartition

PATIENCE_MS = 20
"""The end of a log is noticed so late where it is a transaction marker; somebody waits for it."""
_READ_S = 0.1
_READS_MAX = 50


def read_logs(
    cluster: KafkaCluster,
    places: Sequence[TopicPartition],
    *,
    passed: Mapping[TopicPartition, int] | None = None,
    most: int | None = None,
    name: str = "range",
) -> Iterator[Record]:
    """Yield the committed records of partitions, as far as they exist, to their present ends.

    Args:
        cluster: Where they are.
        places: Which.
        passed: Where to begin, where that is still there; else at the beginning.
        most: Offsets before the end of each that are read at most; all if left out.
        name: Client name of the reader.

    Raises:
        TransportUnavailableError: As for `read_range`.
    """
    ends = cluster.admin().stable_ends(places)
    begins = {place: BEGINNING for place, end in ends.items() if end > 0}
    known = {place: passed[place] for place in places if place in passed} if passed else {}
    if known or most is not None:
        for place, start in cluster.admin().starts(places).items():
            newest = 0 if most is None else ends.get(place, 0) - most
            begins[place] = max(start, known.get(place, 0), newest)
    yield from read_range(cluster, begins, ends, name=name)


def read_tail(cluster: KafkaCluster, place: TopicPartition, count: int) -> Iterator[Record]:
    """Yield the committed records among the last `count` entries of a log, if it exists.

    Raises:
        TransportUnavailableError: As for `read_range`.
    """
    yield from read_logs(cluster, [place], most=count)


def read_range(
    cluster: KafkaCluster,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    name: str = "range",
    until: Callable[[Record], bool] | None = None,
) -> Iterator[Record]:
    """Yield the committed records from `begins` below `ends`.

    What is deleted meanwhile is left out.

    Args:
        cluster: Where they are.
        begins: Where to begin in each partition.
        ends: Where to end; partitions without a begin are left out.
        name: Client name of the reader.
        until: Says of a record whether the rest of its partition is left unread.

    Raises:
        TransportUnavailableError: An end was not reached, and nothing came for five seconds: what
            was yielded is not all there is.
    """
    waiting = {place: end for place, end in ends.items() if begins.get(place, end) < end}
    if not waiting:
        return
    reader = cluster.reader(name, patience_ms=PATIENCE_MS)
    try:
        reader.assign({place: begins[place] for place in waiting})
        idle = 0
        while waiting := {p: end for p, end in waiting.items() if reader.position(p) < end}:
            records = reader.read(_READ_S, 1_000)
            idle = 0 if records else idle + 1
            for record in records:
                place = TopicPartition(record.topic(), record.partition())
                end = waiting.get(place)
                if end is not None and record.offset() < end:
                    yield record
                    if until is not None and until(record):
                        del waiting[place]
                        reader.unassign([place])
            if deleted := [place for place in reader.lost() if place in waiting]:
                reader.assign(cluster.admin().starts(deleted))
            if idle >= _READS_MAX:
                place, end = next(iter(waiting.items()))
                raise TransportUnavailableError(
                    f"{place}: offset {end} was not reached and nothing "
                    f"came for {_READS_MAX * _READ_S:.0f} s; give the command again"
                )
    finally:
        reader.close()
