"""Subscriptions that are taken before their turn, where there is much to be read.

Spark reads a share of each topic in each batch. So an auditor that began on an old mesh came to
know its endpoints little by little, and with each batch all open blocks were looked at again, for
endpoints that nobody had known: with two hundred of them that was half of its Python.

What is taken early comes again when its turn has come. So that it says nothing new then, only
channels are taken that ask for something for the first time, up to the first record that says
anything else: an end, a change, a queue, which rests on the topology of its time. What is asked for
behind that is known as well, for direct messages, which anyone may get who ever asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mesh.errors import RemoteProtocolError, TransportUnavailableError
from mesh.model.control import EndpointKind, Subscription
from mesh.model.names import name_fault
from mesh.wire.control import decode_subscription
from mesh.wire.keys import parse_subscription_key
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.matching import is_filter
from streaming.connectors.source import Ranges
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.tables.rows import SmallRow, TopicPartition
from streaming.tables.topics import CLIENTS, place_of

AHEAD_MAX = 10_000
"""Records of one topic that are read early at once, at most."""


@dataclass(slots=True)
class EarlySubscriptions:
    """Finds what clients ask for further on, in the same topics as long as they are not recreated.

    Attributes:
        kafka_clusters: Those that are audited.
        reached: Topic of clients and its id -> up to where it was read early.
        halted: Of these, the ones of which the next record is not taken before its turn.
        seen: Of those, up to where they were looked through for what is asked for.
    """

    kafka_clusters: AuditedKafkaClusters
    reached: dict[tuple[TopicPartition, str], int] = field(default_factory=dict)
    halted: dict[TopicPartition, None] = field(default_factory=dict)
    seen: dict[tuple[TopicPartition, str], int] = field(default_factory=dict)

    def ranges(
        self, kafka: str, read: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> Ranges:
        """Return what is to be read early of a Kafka cluster; nothing if it does not answer.

        Args:
            kafka: The Kafka cluster.
            read: Next offset of every topic partition.
            ids: Topic -> id.
        """
        begins: dict[TopicPartition, int] = {}
        for place in self._places(kafka, read):
            reached = self.reached.get((place, ids.get(place.topic, "")), -1)
            if read[place] > reached:
                self.halted.pop(place, None)
            if place not in self.halted:
                begins[place] = max(read[place], reached)
        return self._read_ahead(kafka, begins, ids, self.reached)

    def unseen(
        self, kafka: str, read: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> Ranges:
        """Return what is to be looked through behind records that wait for their turn; likewise."""
        begins: dict[TopicPartition, int] = {}
        for place in self._places(kafka, read):
            key = place, ids.get(place.topic, "")
            if place in self.halted:
                begins[place] = max(read[place], self.reached.get(key, 0), self.seen.get(key, 0))
        return self._read_ahead(kafka, begins, ids, self.seen)

    def _read_ahead(
        self,
        kafka: str,
        begins: Mapping[TopicPartition, int],
        ids: Mapping[str, str],
        reached: dict[tuple[TopicPartition, str], int],
    ) -> Ranges:
        if not begins or not self.kafka_clusters.answers(kafka):
            return {}
        try:
            ends = self.kafka_clusters.brokers[kafka].stable_ends(begins)
        except TransportUnavailableError:
            self.kafka_clusters.note_silent(kafka)
            return {}
        found: dict[TopicPartition, tuple[int, int]] = {}
        for place, end in ends.items():
            if begins[place] < end:
                found[place] = begins[place], min(end, begins[place] + AHEAD_MAX)
                reached[place, ids.get(place.topic, "")] = found[place][1]
        return found

    def _places(self, kafka: str, read: Mapping[TopicPartition, int]) -> Sequence[TopicPartition]:
        """Return the topics of clients in a Kafka cluster: nodes read one partition. Spec: K13."""
        prefix = self.kafka_clusters.prefix
        return [
            place
            for place in read
            if not place.partition
            and place_of(prefix, place.topic).kind == CLIENTS
            and self.kafka_clusters.home_of(place.topic) == kafka
        ]

    def firsts(self, rows: Sequence[SmallRow], interest: SubscriptionHistory) -> Sequence[SmallRow]:
        """Return which records are taken, of those that were read early.

        Args:
            rows: Those of a topic in the order of their offsets.
            interest: What is known.
        """
        taken: list[SmallRow] = []
        asked: dict[EndpointKey, dict[str, Subscription]] = {}
        for row in rows:
            if row.place in self.halted:
                continue
            found = _channel_of(self.kafka_clusters.prefix, row)
            if found is not None:
                endpoint, filter_, subscription = found
                others = asked.setdefault(endpoint, {})
                if (
                    filter_ not in others
                    and all(one == subscription for one in others.values())
                    and interest.is_first(endpoint, filter_, subscription)
                ):
                    others[filter_] = subscription
                    taken.append(row)
                    continue
            self.halted[row.place] = None
        return taken


def asked_by(prefix: str, rows: Sequence[SmallRow]) -> Iterator[tuple[EndpointKey, str]]:
    """Yield which endpoints ask for which filters, or leave them, and so have asked."""
    for row in rows:
        with suppress(RemoteProtocolError):
            name, filter_ = parse_subscription_key(row.key.encode())
            if name_fault(name) is None and is_filter(filter_):
                yield EndpointKey(place_of(prefix, row.place.topic).node, name), filter_


def _channel_of(prefix: str, row: SmallRow) -> tuple[EndpointKey, str, Subscription] | None:
    """Return the channel, filter and subscription of a record; None: it is no such record."""
    with suppress(RemoteProtocolError):
        name, filter_ = parse_subscription_key(row.key.encode())
        if row.value is not None and name_fault(name) is None and is_filter(filter_):
            subscription = decode_subscription(row.value)
            if subscription.kind is EndpointKind.CHANNEL:
                endpoint = EndpointKey(place_of(prefix, row.place.topic).node, name)
                return endpoint, filter_, subscription
    return None
