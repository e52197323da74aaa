"""Checks whether topics of the node that nobody else would miss are still the ones it knows.

Spec: K16, K24.

A reader notices most changes itself: its position is no longer in the log. But a topic that was
recreated and has outgrown that position, and a topic that a node writes and does not read, show
the change only by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportDeniedError, TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import node_topics
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, TopicInfo, TopicSpec
from mesh.worker.process.questions import Questions
from mesh.worker.topics.provision import create_each

LOOK_MS = 10_000
"""How often to look at the topics."""

log = structlog.get_logger()


@dataclass(slots=True)
class OwnTopics:
    """Checks some topics of a node now and then.

    Attributes:
        topology, node: The mesh, and the node that owns them.
        admin: Of the node's own Kafka cluster.
        questions: Asks beside the loop.
        wanted: Which topics.
        key: Distinguishes its questions from those of others.
    """

    topology: Topology
    node: str
    admin: Admin
    questions: Questions
    looked_ms: int
    wanted: Callable[[Topology, str], Sequence[TopicSpec]]
    key: str
    _found: Mapping[str, TopicInfo] = field(default_factory=dict)
    _written: dict[str, bytes] = field(default_factory=dict)

    def wrote(self, ids: Mapping[str, bytes]) -> None:
        """Record topics that were written: they may have been recreated by the next look."""
        self._written = dict(ids)

    def id_of(self, name: str) -> bytes | None:
        """Return the id of a topic at the last look, None before it."""
        found = self._found.get(name)
        return None if found is None else found.topic_id

    def partitions_of(self, name: str) -> int | None:
        """Return how many partitions a topic had at the last look, None before it."""
        found = self._found.get(name)
        return None if found is None else found.partitions

    def is_another(self, name: str) -> bool:
        """Return whether a topic at the last look is another than when it was written."""
        found = self.id_of(name)
        return found is not None and self._written.get(name, found) != found

    def changed(self, now_ms: int, read: Callable[[], Mapping[str, bytes]] = dict) -> Sequence[str]:
        """Return the topics that differ from the last look, or from when they were written.

        Topics that vanished are recreated, as long as the topology has the node.

        Args:
            now_ms: The present moment.
            read: Returns the ids that readers assume; only these let the first look find
                differences.
        """
        if now_ms - self.looked_ms < LOOK_MS:
            return ()
        try:
            found = self.questions.answer((self.key, "own"), self._look)
        except TransportError as error:
            log.warning("topics.not_looked_at", of=self.key, fault=str(error))
            self.looked_ms = now_ms
            return ()
        if found is None:
            return ()
        self.looked_ms = now_ms
        known = {**read(), **{name: one.topic_id for name, one in self._found.items()}}
        self._found = found
        return [
            name
            for name, one in found.items()
            if known.get(name, one.topic_id) != one.topic_id or self.is_another(name)
        ]

    def _look(self) -> Mapping[str, TopicInfo]:
        wanted = self.wanted(self.topology, self.node)
        return restored(self.admin, wanted, may_make=self.topology.nodes[self.node].is_member)


def control_topics(topology: Topology, node: str) -> Sequence[TopicSpec]:
    """Return the topics by which a node and its neighbours know each other, and their log.

    They include those by which its workers know each other: without the one nobody gets a lane,
    without the other nobody leads.
    """
    names = TopicNames(topology.prefix)
    streams = [names.to_control(node, other) for other in topology.neighbours(node)]
    own = (names.clients(node), names.control(node), names.control_log(node))
    wanted = (*own, names.learned(node), names.lanes(node), *streams)
    return [spec for spec in node_topics(topology, node) if spec.name in wanted]


def dispensable(topology: Topology, node: str) -> frozenset[str]:
    """Return the topics without which a node can be led: links', the log's, its clients'."""
    names = TopicNames(topology.prefix)
    links = [names.to_control(node, other) for other in topology.neighbours(node)]
    return frozenset([*links, names.control_log(node), names.clients(node)])


def tree_topics(topology: Topology, node: str) -> Sequence[TopicSpec]:
    """Return the topics through which applications and neighbours talk to the tree layer."""
    names = TopicNames(topology.prefix)
    frames = [names.to_trees(node, other) for other in topology.neighbours(node)]
    wanted = (names.roles(node), names.sends(node), names.routes(node), *frames)
    return [spec for spec in node_topics(topology, node) if spec.name in wanted]


def restored(
    admin: Admin, wanted: Sequence[TopicSpec], *, may_make: bool
) -> Mapping[str, TopicInfo]:
    """Create those topics that somebody has deleted; return all that exist, by name.

    A topic that the brokers refuse does not hold up the others.

    Args:
        admin: Of the node's Kafka cluster.
        wanted: The topics.
        may_make: Whether to create them. Topics of a node that has left stay deleted: else another
            node under its name would see that it has run before, but not where its lanes stood.

    Raises:
        TransportUnavailableError: Kafka does not answer.
    """
    described, _ = answers_so_far(partial(admin.describe, [spec.name for spec in wanted]))
    gone = [spec for spec in wanted if spec.name not in described]
    if gone and may_make:
        refused = create_each(admin, gone)
        made = [spec.name for spec in gone if spec.name not in refused]
        if made:
            log.warning("topics.restored", topics=made)
            with suppress(TransportDeniedError):  # without that right there is no id
                described = {**described, **admin.describe(made)}
    return described
