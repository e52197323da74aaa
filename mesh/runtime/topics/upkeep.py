"""What a worker sees to now and then: topics that somebody deleted, records that were passed.

Spec: K5, R6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from mesh.runtime.topics.provision import FOREVER, endpoint_topic, node_topics, set_to_keep
from mesh.runtime.topics.readership import Readership
from mesh.runtime.topics.retention import Retention
from mesh.transport.port import Admin, KafkaCluster, TopicPartition, TopicSpec

RESTORE_MS = 1_000

AT_ONCE = 100
"""So many topics are made by one request."""

_LIMIT = "retention.bytes"

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
    _readership: Readership = field(init=False)
    _names: TopicNames = field(init=False)
    _restored_ms: int = -RESTORE_MS
    _ids: dict[str, bytes] = field(default_factory=dict)
    _asked: dict[str, MessageClass] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up what stays the same."""
        self._names = TopicNames(self.topology.prefix)
        self._retention = Retention(int(self.topology.keep_s * 1000))
        self._readership = Readership([])

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
            for topic, fault in set_to_keep(self.home.admin(), topics).items():
                log.error("endpoint.unsafe", topic=topic, fault=fault, text="`mesh doctor` tells")
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
        endpoints: Sequence[str] = []
        unknown: Sequence[str] = []
        if link_states is not None:
            endpoints = self._guaranteed_endpoints(admin)
        self._forget_former(admin, endpoints)
        passed = {at: told.needed for at, told in self.lanes.read_positions(None).items()}
        if link_states is not None:
            for told in [one for state in link_states.values() for one in state.positions]:
                if self._ids.get(told.topic, told.topic_id) == told.topic_id:
                    passed[TopicPartition(told.topic, told.partition)] = told.needed
            self._readership.besides = {
                self._names.lanes_group(node) for node in self.topology.nodes
            }
            try:
                passed |= self._readership.passed(admin, endpoints)
            except TransportError as error:
                # Somebody may want what the others have passed; only the endpoints wait for him.
                unknown = endpoints
                log.warning("endpoints.not_trimmed", fault=str(error))
        self._retention.passed(passed, now_ms)
        deletable = self._retention.deletable(now_ms, unknown)
        # A group may have committed what is not there yet.
        ends = admin.ends(list(deletable))
        admin.delete_before({at: min(deletable[at], end) for at, end in ends.items()})

    def _guaranteed_endpoints(self, admin: Admin) -> Sequence[str]:
        """Return the topics of endpoints from which nothing is deleted before it is read.

        Those that nobody subscribes any more too: what waits there is still to be read.
        """
        own = self.lanes.machine.learner.own.endpoints
        guaranteed = {
            self._names.endpoint(self.node, name): None
            for name, one in own.items()
            if one.message_class is MessageClass.GUARANTEED
        }
        named = admin.named(self._names.endpoint(self.node, ""))
        kept = admin.settings([name for name in named if name not in guaranteed])
        return [
            *guaranteed,
            *(name for name, settings in kept.items() if settings.get(_LIMIT) == FOREVER),
        ]

    def _forget_former(self, admin: Admin, endpoints: Sequence[str]) -> None:
        """Forget what was passed in topics that somebody deleted: others have their names now."""
        names = dict.fromkeys([*(spec.name for spec in self._topics()), *endpoints])
        for name in [one for one in self._ids if one not in names]:
            del self._ids[name]
        for name, info in admin.describe(list(names)).items():
            if self._ids.setdefault(name, info.topic_id) != info.topic_id:
                self._ids[name] = info.topic_id
                self._retention.forget(name)
