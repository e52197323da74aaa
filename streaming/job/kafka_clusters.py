"""The Kafka clusters that are audited: what concerns one of them never holds up the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from mesh.errors import TransportUnavailableError
from streaming.job.extent import LogExtent
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import CONFIG, ENDPOINT, INGRESS, OUTBOX, audited_pattern, place_of

_WRITTEN = (INGRESS, OUTBOX, ENDPOINT, "ledger", "clients")

RETRY_S = 15.0
"""A Kafka cluster that did not answer is not asked again for so long, in seconds."""


class Brokers(Protocol):
    """Queries to the brokers of one Kafka cluster."""

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset that is still there, of those partitions that exist."""

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record, open transactions included."""

    def stable_ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset up to which all is committed or given up."""

    def since(self, places: Iterable[TopicPartition], at_ms: int) -> Mapping[TopicPartition, int]:
        """Return the first offset with this time stamp or a later one; the end where none has."""

    def topics(self) -> Iterable[str]:
        """Return the names of all topics."""

    def compacted(self, topics: Sequence[str]) -> Collection[str]:
        """Return those topics of which records may be gone that have successors of their key."""

    def described(self, topics: list[str]) -> Mapping[str, tuple[str, int]]:
        """Return the id and the number of partitions of those topics that exist."""


@dataclass(slots=True)
class AuditedKafkaClusters:
    """All Kafka clusters, by name.

    Attributes:
        prefix: Start of every topic name.
        brokers: Those that can be reached.
        homes: Node -> Kafka cluster, also of nodes that a change of the topology has brought.
        clock: Seconds that only rise.
        unread: Kafka cluster -> why it is not read just now; for people.
        silent: Kafka cluster -> when it did not answer.
        read: Kafka cluster -> all that was written there before this moment has been read.
        needed: Those with nodes, now or a moment ago: the others hold nobody up. None: all.
        extent: How much of the logs is judged: of a past range they are not read to their ends.
    """

    prefix: str
    brokers: dict[str, Brokers] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = lambda: 0.0
    unread: dict[str, str] = field(default_factory=dict)
    silent: dict[str, float] = field(default_factory=dict)
    read: dict[str, float] = field(default_factory=dict)
    needed: Mapping[str, None] | None = None
    extent: LogExtent = field(default_factory=LogExtent)

    @property
    def read_s(self) -> float:
        """Return before which moment all that was written has been read, everywhere."""
        return min((self.read.get(kafka, -inf) for kafka in self.counted), default=inf)

    @property
    def counted(self) -> Collection[str]:
        """Return the Kafka clusters that can concern anybody, be they known or not."""
        return self.brokers if self.needed is None else self.needed

    def read_ms(self, kafka: str, wall_ms: int) -> int | None:
        """Return as the time of day before which moment all that was written has been read.

        Args:
            kafka: A Kafka cluster.
            wall_ms: Now.
        """
        read_s = self.read.get(kafka)
        return None if read_s is None else wall_ms - int((self.clock() - read_s) * 1000)

    def read_until(self) -> dict[str, float]:
        """Return by node before which moment all that it wrote has been read, where it is read."""
        return {
            node: self.read[kafka]
            for node, kafka in self.homes.items()
            if kafka in self.read and kafka not in self.unread
        }

    def nodes_of(self, kafka: str) -> list[str]:
        """Return the nodes of a Kafka cluster."""
        return [node for node, home in self.homes.items() if home == kafka]

    def is_needed(self, kafka: str) -> bool:
        """Return whether what a Kafka cluster holds can concern anybody."""
        return self.needed is None or kafka in self.needed

    @property
    def answering(self) -> list[str]:
        """Return the Kafka clusters that are read."""
        return [kafka for kafka in self.brokers if kafka not in self.unread]

    def home_of(self, topic: str) -> str:
        """Return the Kafka cluster of a topic, or nothing if no topology knows its node."""
        return self.homes.get(place_of(self.prefix, topic).node, "")

    def is_at_home(self, kafka: str, topic: str) -> bool:
        """Return whether a Kafka cluster may have a topic of this name.

        A topic of the same name elsewhere is another topic; that of a node that no topology knows
        yet may turn out to be at home.
        """
        return place_of(self.prefix, topic).kind == CONFIG or self.home_of(topic) in ("", kafka)

    def answers(self, kafka: str) -> bool:
        """Return whether it makes sense to ask a Kafka cluster."""
        is_known = kafka in self.brokers and kafka not in self.unread
        return is_known and self.is_worth_asking(kafka)

    def is_worth_asking(self, kafka: str) -> bool:
        """Return whether a Kafka cluster did not fail to answer just now, read or not."""
        silent_s = self.silent.get(kafka)
        return silent_s is None or not 0 <= self.clock() - silent_s < RETRY_S

    def note_silent(self, kafka: str) -> None:
        """Note that a Kafka cluster did not answer just now."""
        self.silent[kafka] = self.clock()

    def can_read(self, places: Iterable[TopicPartition]) -> bool:
        """Return whether all Kafka clusters answer that partitions are in."""
        homes = {self.home_of(place.topic): None for place in places}
        return all(self.answers(home) for home in homes if home)

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where logs begin; what is gone or does not answer is left out."""
        found: dict[TopicPartition, int] = {}
        for kafka, wanted in self.by_home(places).items():
            if self.answers(kafka):
                try:
                    found.update(self.brokers[kafka].beginnings(wanted))
                except TransportUnavailableError:
                    self.note_silent(kafka)
        return found

    def ends(self) -> Callable[[str], Mapping[TopicPartition, int] | None]:
        """Return what tells the ends of all that a node and its clients write; None: no answer.

        Each Kafka cluster is asked once, for all its nodes: it is for one judgement.
        """
        asked: dict[str, Mapping[str, Mapping[TopicPartition, int]] | None] = {}

        def of(node: str) -> Mapping[TopicPartition, int] | None:
            kafka = self.homes.get(node, "")
            if kafka not in asked:
                asked[kafka] = self._ends(kafka) if self.answers(kafka) else None
            told = asked[kafka]
            return None if told is None else told.get(node, {})

        return of

    def _ends(self, kafka: str) -> Mapping[str, Mapping[TopicPartition, int]] | None:
        """Return the ends of all that the nodes of a Kafka cluster write, by node."""

        def is_written(topic: str) -> bool:
            place = place_of(self.prefix, topic)
            return place.kind in _WRITTEN and self.homes.get(place.node) == kafka

        try:
            ends = self.brokers[kafka].ends(self.places(kafka, is_written))
        except TransportUnavailableError:
            self.note_silent(kafka)
            return None
        found: dict[str, dict[TopicPartition, int]] = {}
        for place, end in ends.items():
            node = place_of(self.prefix, place.topic).node
            found.setdefault(node, {})[place] = self.extent.until(place, end)
        return found

    def places(self, kafka: str, is_wanted: Callable[[str], bool]) -> Sequence[TopicPartition]:
        """Return the partitions of audited topics of one Kafka cluster, as it says itself.

        Raises:
            TransportUnavailableError: It does not answer.
        """
        topics = self._topics(kafka, is_wanted)
        return [
            TopicPartition(topic, partition)
            for topic, (_, partitions) in self.brokers[kafka].described(topics).items()
            for partition in range(partitions)
        ]

    def _topics(self, kafka: str, is_wanted: Callable[[str], bool]) -> list[str]:
        """Return the audited topics of one Kafka cluster, as it says itself; raise likewise."""
        pattern = re.compile(audited_pattern(self.prefix))
        topics = self.brokers[kafka].topics()
        return [one for one in topics if pattern.fullmatch(one) and is_wanted(one)]

    def ids_at_home(self, kafka: str) -> Mapping[str, str]:
        """Return topic -> id (hexadecimal) of all that the nodes of one Kafka cluster read.

        Raises:
            TransportUnavailableError: It does not answer.
        """

        def is_read(topic: str) -> bool:
            is_source = place_of(self.prefix, topic).kind in (INGRESS, OUTBOX)
            return is_source and self.home_of(topic) == kafka

        told = self.brokers[kafka].described(self._topics(kafka, is_read))
        return {topic: id_ for topic, (id_, _) in told.items()}

    def ids_of(self, kafka: str, topics: Iterable[str]) -> Mapping[str, str]:
        """Return topic -> id (hexadecimal) in one Kafka cluster; empty if it does not answer."""
        wanted = sorted(topics)
        if not wanted or not self.answers(kafka):
            return {}
        try:
            told = self.brokers[kafka].described(wanted)
        except TransportUnavailableError:
            self.note_silent(kafka)
            return {}
        return {topic: id_ for topic, (id_, _) in told.items()}

    def by_home(self, places: Iterable[TopicPartition]) -> Mapping[str, list[TopicPartition]]:
        """Return partitions by Kafka cluster; those of unknown nodes are left out."""
        found: dict[str, list[TopicPartition]] = {}
        for place in places:
            home = self.home_of(place.topic)
            if home:
                found.setdefault(home, []).append(place)
        return dict(sorted(found.items()))
