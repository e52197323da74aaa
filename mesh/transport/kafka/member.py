"""Group membership on real brokers. Spec: K15."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from mesh.transport.kafka.faults import MISSING, Site, error_of, is_denied, transport_error
from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.settings import Settings
from mesh.transport.port import keep_quiet


class KafkaMembership:
    """A member that owns partitions but reads none of them; one thread uses it.

    Assigned partitions are paused before anything could be fetched. The callbacks change the
    assignment step by step, which suits both group protocols.
    """

    def __init__(self, site: Site, name: str, settings: Settings, topic: str) -> None:
        self.name = name
        self.is_closed = False
        self.giving_up: Callable[[frozenset[int]], None] = keep_quiet
        self._site = site
        self._topic = topic
        self._lanes: frozenset[int] = frozenset()
        self._logged: set[int] = set()
        try:
            self._consumer = Consumer(settings)
            self._consumer.subscribe(
                [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException as exc:
            raise transport_error(site, f"join the group of {name}", error_of(exc)) from exc

    def _on_assign(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        # With an explicit offset the group is not asked for a committed one.
        places = [Place(place.topic, place.partition, 0) for place in partitions]
        consumer.incremental_assign(places)
        consumer.pause(places)
        self._lanes = self._lanes.union(place.partition for place in places)

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        # The group may give them to others as soon as they are unassigned.
        if not self.is_closed:
            self.giving_up(frozenset(place.partition for place in partitions))
        self._unassign(consumer, partitions)

    def _unassign(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        self._lanes = self._lanes.difference(place.partition for place in partitions)
        consumer.incremental_unassign(list(partitions))

    def _on_lost(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        LOG.warning(self._site.text(f"member {self.name} was taken for dead and lost its lanes"))
        self._unassign(consumer, partitions)

    def poll(self) -> None:
        """Keep the membership alive and learn of changes; never blocks.

        Raises:
            TransportDeniedError: The brokers refuse this member: rights, or a member timeout
                below their group.min.session.timeout.ms.
        """
        if self.is_closed:
            return
        event = self._consumer.poll(0)
        if event is None or (error := event.error()) is None:
            return
        code = error.code()
        if is_denied(error) and code not in MISSING:
            raise transport_error(self._site, f"be a member of {self.name}", error)
        if code not in MISSING and code not in self._logged:
            self._logged.add(code)
            LOG.warning(self._site.text(f"member {self.name}: {error.str()}"))

    def lanes(self) -> frozenset[int]:
        """Return the lanes owned as of the last poll."""
        return self._lanes

    def close(self) -> None:
        """Leave the group at once."""
        if self.is_closed:
            return
        self.is_closed = True
        self._consumer.close()
        self._lanes = frozenset()
