"""What a worker sees to now and then: topics that somebody deleted, records that were passed.

Spec: K5, R6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import structlog

from mesh.errors import TransportError
from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.runtime.lanes.owned import Lanes
from mesh.runtime.topics.provision import endpoint_topic, node_topics
from mesh.runtime.topics.retention import Retention
from mesh.transport.port import Admin, KafkaCluster, TopicPartition, TopicSpec

RESTORE_MS = 1_000

AT_ONCE = 100
"""So many topics are made by one request."""

log = structlog.get_logger()


@dataclass(slots=True)
class Upkeep:
    """Looks after the topics of one node.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    _retention: Retention = field(init=False)
    _names: TopicNames = field(init=False)
    _restored_ms: int = -RESTORE_MS
    _ids: dict[str, bytes] = field(default_factory=dict)
    _asked: dict[str, MessageClass] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up what stays the same."""
        self._names = TopicNames(self.topology.prefix)
        self._retention = Retention(int(self.topology.keep_s * 1000))

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Look after the topics of another topology."""
        self.topology = relinked.topology
        self._retention.keep_ms = int(self.topology.keep_s * 1000)

    def ensure(self, endpoint: str, message_class: MessageClass) -> None:
        """Have an endpoint's topic exist when things are next seen to."""
        self._asked[endpoint] = message_class

    def _make(self) -> None:
        """Make the topics asked for: Kafka is asked once, however many subscriptions were read."""
        while some := dict(islice(self._asked.items(), AT_ONCE)):
            topics = [endpoint_topic(self.topology, self.node, *one) for one in some.items()]
            self.home.admin().create(topics)
            for endpoint in some:
                del self._asked[endpoint]

    def see_to(self, link_states: Mapping[str, LinkState] | None, now_ms: int) -> None:
        """Do what is due.

        Args:
            link_states: What neighbours have read of this node, if this worker leads, else None.
            now_ms: The present moment.

        Raises:
            TransportError: A topic of an endpoint cannot be made.
        """
        self._make()
        try:
            self._restore(now_ms)
            if self._retention.is_due(now_ms):
                self._trim(link_states, now_ms)
        except TransportError as error:
            log.warning("upkeep.failed", fault=str(error))

    def _restore(self, now_ms: int) -> None:
        """Make topics of this node again that somebody deleted; what was in them is lost."""
        lanes = self.lanes
        doubted = lanes.refusing | lanes.sources.vanished
        if not doubted or now_ms - self._restored_ms < RESTORE_MS:
            return
        self._restored_ms = now_ms
        lanes.refusing.clear()
        lanes.sources.vanished.clear()
        admin = self.home.admin()
        known = admin.describe(list(doubted))
        gone = [spec for spec in self._topics() if spec.name in doubted and spec.name not in known]
        if gone:
            admin.create(gone)
            log.warning("topics.restored", topics=[spec.name for spec in gone])

    def _topics(self) -> list[TopicSpec]:
        endpoints = self.lanes.machine.learner.own.endpoints
        return [
            *node_topics(self.topology, self.node),
            *(
                endpoint_topic(self.topology, self.node, name, endpoint.message_class)
                for name, endpoint in endpoints.items()
            ),
        ]

    def _trim(self, link_states: Mapping[str, LinkState] | None, now_ms: int) -> None:
        """Delete what readers passed long ago. Spec: K5.

        That is of the own ingress, and if this worker leads, of outboxes and endpoints.
        """
        admin = self.home.admin()
        self._forget_former(admin)
        passed = {at: told.needed for at, told in self.lanes.read_positions(None).items()}
        if link_states is not None:
            for told in [one for state in link_states.values() for one in state.positions]:
                if self._ids.get(told.topic, told.topic_id) == told.topic_id:
                    passed[TopicPartition(told.topic, told.partition)] = told.needed
            passed |= admin.consumed(
                [
                    self._names.endpoint(self.node, name)
                    for name, endpoint in self.lanes.machine.learner.own.endpoints.items()
                    if endpoint.message_class is MessageClass.GUARANTEED
                ],
                besides={self._names.lanes_group(node) for node in self.topology.nodes},
            )
        self._retention.passed(passed, now_ms)
        deletable = self._retention.deletable(now_ms)
        # A group may have committed what is not there yet.
        ends = admin.ends(list(deletable))
        admin.delete_before({at: min(deletable[at], end) for at, end in ends.items()})

    def _forget_former(self, admin: Admin) -> None:
        """Forget what was passed in topics that somebody deleted: others have their names now."""
        for name, info in admin.describe([spec.name for spec in self._topics()]).items():
            if self._ids.setdefault(name, info.topic_id) != info.topic_id:
                self._ids[name] = info.topic_id
                self._retention.forget(name)
