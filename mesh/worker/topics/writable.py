"""What can be written now, according to the brokers' metadata. Spec: K2, K20.

A transaction that touches a partition without a leader, or with too few copies in sync, cannot end,
and blocks its id, for successors too, until the partition is back. One that touches a partition
missing in a topic that somebody else created fails. So the writer looks first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from mesh.errors import TransportDeniedError
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, TopicPartition

MIN_IN_SYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a look.

    Attributes:
        away: Partitions that cannot be written, and why.
        in_sync: How many copies must be in sync, by topic.
        gone: Topics that do not exist.
    """

    away: Mapping[TopicPartition, str] = field(default_factory=dict)
    in_sync: Mapping[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()

    def unwritable(self, topics: Collection[str]) -> frozenset[str]:
        """Return those of some topics that cannot be written, at least in part."""
        return self.gone.union(at.topic for at in self.away).intersection(topics)


def look(admin: Admin, names: Mapping[str, int], known: Mapping[str, int]) -> Looked:
    """Look at every partition of these topics.

    Args:
        admin: Of their Kafka cluster.
        names: The topics, and how many partitions of each are written.
        known: How many copies must be in sync, for topics that are not queried again.

    Returns:
        Which partitions take no records now and why, how many copies must be in sync, and which of
        the topics do not exist.

    Raises:
        TransportError: No broker answers.
    """
    copies, are_all = answers_so_far(partial(admin.copies, list(names)))
    topics = {at.topic: None for at in copies}
    asked = [topic for topic in topics if topic not in known]
    settings: Mapping[str, Mapping[str, str]] = {}
    with suppress(TransportDeniedError):  # without that right, check only leaders
        settings = admin.settings(asked) if asked else {}
    in_sync = {topic: int(told.get(MIN_IN_SYNC, 1)) for topic, told in settings.items()}
    needed = {**known, **in_sync}
    away: dict[TopicPartition, str] = {}
    for at, one in copies.items():
        least = needed.get(at.topic, 1)
        if not one.has_leader:
            away[at] = f"partition {at.partition} has no leader"
        elif one.in_sync < least:
            text = f"partition {at.partition} has {one.in_sync} of {least} copies in sync"
            away[at] = text
    has = Counter(at.topic for at in copies)
    for topic in topics:
        for number in range(has[topic], names[topic]):
            away[TopicPartition(topic, number)] = (
                f"it has {has[topic]} of {names[topic]} partitions"
            )
    kept = {topic: needed[topic] for topic in topics if topic in needed}
    gone = frozenset(names).difference(topics) if are_all else frozenset[str]()
    return Looked(away, kept, gone)
