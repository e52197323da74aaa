"""What a worker maintains now and then: restores deleted topics, deletes records that were passed.

Spec: K5, R6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportDeniedError, TransportError
from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import FOREVER, endpoint_topic, node_topics
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, KafkaCluster, TopicPartition, TopicSpec
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.questions import Questions
from mesh.worker.topics.former_targets import FormerTargets
from mesh.worker.topics.left_outboxes import LeftOutboxes
from mesh.worker.topics.provision import create_each, set_to_keep
from mesh.worker.topics.readership import Readership
from mesh.worker.topics.retention import Retention

RESTORE_MS = 1_000

_LIMIT = "retention.bytes"

log = structlog.get_logger()


@dataclass(slots=True)
class Upkeep:
    """Looks after the topics of one node.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
        questions: What waits for brokers.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    questions: Questions
    _retention: Retention = field(init=False)
    _readership: Readership = field(init=False)
    _left: LeftOutboxes = field(init=False)
    _former: FormerTargets = field(init=False)
    _names: TopicNames = field(init=False)
    _restored_ms: int = -RESTORE_MS
    _ids: dict[str, bytes] = field(default_factory=dict)
    _work: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build what stays the same."""
        self._names = TopicNames(self.topology.prefix)
        self._retention = Retention(int(self.topology.keep_s * 1000))
        self._readership = Readership([])
        self._left = LeftOutboxes(self.lanes, self.questions)
        self._former = FormerTargets(self.lanes, self.questions)

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Switch to the topics of another topology."""
        self._left.relink()
        self._former.relink()
        self.topology = relinked.topology
        self._retention.keep_ms = int(self.topology.keep_s * 1000)

    def see_to(self, link_states: Mapping[str, LinkState] | None, now_ms: int) -> None:
        """Do what is due, beside the loop.

        Args:
            link_states: What neighbours have read of this node, if this worker leads, else None.
            now_ms: The present moment.
        """
        for outboxes in (self._left, self._former):
            if now_ms >= outboxes.due_ms:
                outboxes.look(now_ms)
        if consents := self.lanes.machine.learner.faults.accepted:
            self._left.end_deleted(consents, now_ms)
        doubted = self.lanes.refusals.topics | self.lanes.sources.topics.vanished
        if doubted and now_ms - self._restored_ms >= RESTORE_MS:
            self._restored_ms = now_ms
            self.lanes.refusals.topics.clear()
            self.lanes.sources.topics.vanished.clear()
            # With an empty one lanes would start from the beginning: people decide that.
            progress = self._names.progress(self.node)
            wanted = [one for one in self._topics() if one.name in doubted and one.name != progress]
            if self.topology.nodes[self.node].is_member:
                self._work["restore"] = partial(_restore, self.home.admin(), wanted)
        if "trim" not in self._work and self._retention.is_due(now_ms):
            self._work["trim"] = self._trimming(link_states, now_ms)
        for what, work in list(self._work.items()):
            try:
                done = self.questions.answer((what,), work)
            except TransportError as error:
                log.warning("upkeep.failed", fault=str(error))
                done = True
            if done:
                del self._work[what]

    def _outboxes_to(self, neighbour: str) -> Collection[str]:
        return {self._names.outbox(self.node, neighbour, one) for one in MessageClass}

    def _topics(self) -> list[TopicSpec]:
        endpoints = self.lanes.machine.learner.clients.wanted.endpoints
        return [
            *node_topics(self.topology, self.node),
            *(
                endpoint_topic(self.topology, self.node, name, endpoint.message_class)
                for name, endpoint in endpoints.items()
            ),
        ]

    def _trimming(
        self, link_states: Mapping[str, LinkState] | None, now_ms: int
    ) -> Callable[[], bool]:
        """Return a call that deletes what readers passed long ago. Spec: K5.

        It covers the own ingress and, if this worker leads, outboxes and endpoints. If a consumer
        group cannot be queried, endpoints wait, and nothing else does.
        """
        # A log may lose its end once more while its source is stopped, and nobody would see that.
        stopped = {at for lane in self.lanes.owned.values() for at in lane.progress.stopped}
        # A neighbour's word counts for its own outbox, and for no other topic.
        told_of = [
            *(one for at, one in self.lanes.read_positions(None).items() if at not in stopped),
            *(
                one
                for neighbour, state in (link_states or {}).items()
                for one in state.positions
                if one.topic in self._outboxes_to(neighbour)
            ),
        ]
        guaranteed = [
            self._names.endpoint(self.node, name)
            for name, one in self.lanes.machine.learner.clients.wanted.endpoints.items()
            if one.message_class is MessageClass.GUARANTEED
        ]
        self._readership.besides = {self._names.lanes_group(node) for node in self.topology.nodes}
        topics = [spec.name for spec in self._topics()]
        leads = link_states is not None

        def trim() -> bool:
            admin = self.home.admin()
            endpoints = self._with_unsubscribed(admin, guaranteed) if leads else ()
            unknown: Sequence[str] = ()
            self._forget_former(admin, [*topics, *endpoints])
            passed: dict[TopicPartition, int] = {}
            for told in told_of:  # a position says nothing about a recreated topic
                if self._ids.get(told.topic) == told.topic_id:
                    passed[TopicPartition(told.topic, told.partition)] = told.needed
            try:
                passed |= self._readership.passed(admin, endpoints) if leads else {}
            except TransportError as error:
                # Somebody may want what the others have passed; only the endpoints wait for that.
                unknown = endpoints
                log.warning("endpoints.not_trimmed", fault=str(error))
            self._retention.keep_only(passed, unknown)
            self._retention.passed(passed, now_ms)
            deletable = self._readership.agreed(admin, self._retention.deletable(now_ms, unknown))
            # A group may have committed offsets that do not exist yet.
            ends, _ = answers_so_far(partial(admin.ends, list(deletable)))
            admin.delete_before({at: min(deletable[at], end) for at, end in ends.items()})
            return True

        return trim

    def _with_unsubscribed(self, admin: Admin, guaranteed: Sequence[str]) -> Sequence[str]:
        """Return the topics of endpoints from which nothing is deleted before it is read.

        They include those without subscriptions: what waits there is still to be read. What
        consumers of queues gave up stays as long as its topic says, whoever reads it.
        """
        named = admin.named(self._names.endpoint(self.node, ""))
        named = [topic for topic in named if self._names.endpoint_of(self.node, topic)]
        kept = admin.settings([name for name in named if name not in guaranteed])
        return [
            *guaranteed,
            *(name for name, settings in kept.items() if settings.get(_LIMIT) == FOREVER),
        ]

    def _forget_former(self, admin: Admin, topics: Sequence[str]) -> None:
        """Forget readers' positions in topics that were deleted: others have their names now."""
        names = dict.fromkeys(topics)
        for name in [one for one in self._ids if one not in names]:
            del self._ids[name]
        for name, info in answers_so_far(partial(admin.describe, list(names)))[0].items():
            if self._ids.setdefault(name, info.topic_id) != info.topic_id:
                self._ids[name] = info.topic_id
                self._retention.forget(name)
                self._readership.begin_again(name)


def _restore(admin: Admin, wanted: Sequence[TopicSpec]) -> bool:
    """Recreate topics that somebody deleted; what was in them is lost."""
    known = admin.describe([spec.name for spec in wanted])
    if gone := [spec for spec in wanted if spec.name not in known]:
        refused = create_each(admin, gone)
        made = [spec.name for spec in gone if spec.name not in refused]
        if made:
            log.warning("topics.restored", topics=made)
            with suppress(TransportDeniedError):  # the doctor tells
                set_to_keep(admin, [spec for spec in gone if spec.name in made])
    return True
