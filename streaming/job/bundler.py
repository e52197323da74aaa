"""Which filters tell subjects apart where they are read: all that are known by then."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from mesh.errors import TransportUnavailableError
from mesh.model.topology import Topology
from streaming.audits.interest import SubscriptionHistory
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.rereads import Rereader
from streaming.tables.bundles import Bundles
from streaming.tables.filters import Filters
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import CLIENTS, place_of


@dataclass(slots=True)
class Bundler:
    """How the next batch takes subjects together.

    Attributes:
        rereader: Reads what clients ask for further on.
        kafka_clusters: Those that are audited.
        prefix: Start of every topic name.
        filters: All that claims have named; what was read by them is kept by their numbers.
        bundles: How subjects are taken together by them; None: each alone.
        looked: Up to where topics of clients were looked through for filters.
        heard: Kafka clusters of which it is known what clients ask for there.
        lock: Held by the batch that looks: those of other Kafka clusters, which begin together,
            wait for what it finds.
    """

    rereader: Rereader
    kafka_clusters: AuditedKafkaClusters
    prefix: str
    filters: Filters = field(default_factory=Filters)
    bundles: Bundles | None = None
    looked: dict[TopicPartition, int] = field(default_factory=dict)
    heard: dict[str, None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def adopt(self, interest: SubscriptionHistory) -> None:
        """Have a state that was saved, or kept aside, know the same filters by the same numbers."""
        known = interest.filters
        if known.known > self.filters.known:
            self.filters.numbers, self.filters.known = dict(known.numbers), known.known
        self.filters.know(known.numbers)
        interest.filters = self.filters

    def forget(self, interest: SubscriptionHistory, topologies: Sequence[Topology]) -> None:
        """Forget the filters that neither subscriptions nor topologies name."""
        standing = [one for topology in topologies for one in _standing(topology)]
        self.filters.keep((*interest.named(), *standing))
        self._tell_apart()

    def follow(self, topologies: Sequence[Topology]) -> None:
        """Know what joins and nodes of topologies name, and go by all that is known."""
        for topology in topologies:
            self.filters.know(_standing(topology))
        self._tell_apart()

    def of(self, news: Collection[str], *, is_small: bool) -> Bundles | None:
        """Return how subjects of a batch are taken together.

        Of a small batch each stays alone where nothing is known yet of what clients ask for: in
        the batch itself, or in a Kafka cluster of which none has been taken. What was published in
        one of them is asked for in all.

        Args:
            news: Topics that it reads on.
            is_small: Whether it is the work of one task.
        """
        homes = map(self.kafka_clusters.home_of, filter(self._is_of_clients, news))
        is_asking = any(home in self.kafka_clusters.brokers for home in homes)
        if is_asking or not self._is_all_heard():
            if is_small:
                return None
            with self.lock:
                self._look_ahead()
        return self.bundles

    def _is_all_heard(self) -> bool:
        """Return whether a batch was taken, or looked ahead, of every Kafka cluster needed."""
        self.heard.update(dict.fromkeys(self.kafka_clusters.answering))
        return all(kafka in self.heard for kafka in self._needed())

    def _needed(self) -> Sequence[str]:
        return [
            one for one in sorted(self.kafka_clusters.brokers) if self.kafka_clusters.is_needed(one)
        ]

    def _look_ahead(self) -> None:
        """Know the filters that clients ask for further on: of much, Spark reads little of all.

        Where that is not known of some Kafka cluster, blocks are read again message by message.
        """
        for kafka in filter(self.kafka_clusters.is_worth_asking, self._needed()):
            try:
                places = self.kafka_clusters.places(kafka, self._is_of_clients)
                ends = self.kafka_clusters.brokers[kafka].ends(places)
                ranges = {place: (self.looked.get(place, 0), end) for place, end in ends.items()}
                news = {place: range_ for place, range_ in ranges.items() if range_[0] < range_[1]}
                self.filters.know(self.rereader.asked(kafka, news) if news else ())
            except TransportUnavailableError:
                self.kafka_clusters.note_silent(kafka)
                continue  # what is not known now makes others be read again
            self.looked.update(ends)
            self.heard[kafka] = None
        self._tell_apart()

    def _is_of_clients(self, topic: str) -> bool:
        return place_of(self.prefix, topic).kind == CLIENTS

    def _tell_apart(self) -> None:
        known = self.filters.known  # those that come meanwhile are told apart and not known
        shapes = self.filters.by_shape()
        count = sum(map(len, shapes.values()))
        before = self.bundles
        if before is None or (before.known, before.count) != (known, count):
            self.bundles = Bundles(shapes, known) if shapes else None


def _standing(topology: Topology) -> Iterator[str]:
    """Yield the filters that a topology names."""
    yield from (join.filter for join in topology.joins.values())
    yield from (one.filter for one in topology.interest)
