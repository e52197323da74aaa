"""What consumer groups of clients leave to be deleted. Spec: K5."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mesh.transport.port import TopicPartition


def of_topics(
    group: Mapping[TopicPartition, int], topics: Collection[str]
) -> Mapping[TopicPartition, int]:
    """Return what a group has committed of some topics."""
    return {place: offset for place, offset in group.items() if place.topic in topics}


def slowest(
    groups: Sequence[Mapping[TopicPartition, int]], topics: Sequence[str]
) -> Mapping[TopicPartition, int]:
    """Return what `Admin.consumed` promises.

    Args:
        groups: What each group has committed, of any topics.
        topics: Those asked about.
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
