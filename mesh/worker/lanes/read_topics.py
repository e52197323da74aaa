"""The topics that a node reads: which they are, and what brokers say of them. Spec: K3, R6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mesh.errors import TransportError
from mesh.lane.sources import SourceTopic, source_topics
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, Reader, TopicInfo
from mesh.worker.process.questions import Questions

RETRY_MS = 1_000
"""How often to look for topics that are not there."""

VERIFY_MS = 5_000
"""How often to check that topics are still the same: their readers would not notice."""


@dataclass(slots=True)
class ReadTopics:
    """The own ingress and the outboxes that neighbours write for this node.

    Attributes:
        topology: In force.
        node: Whose they are.
        learner: Knows the links.
        admins: Per Kafka cluster.
        readers: Per Kafka cluster.
        questions: Asks brokers beside the loop.
        vanished: Topics of this very node that were looked for and not found.
        cluster_ids: Of the Kafka clusters that were looked at, by name.
    """

    topology: Topology
    node: str
    learner: Learner
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    questions: Questions
    vanished: dict[str, None] = field(default_factory=dict)
    cluster_ids: dict[str, str] = field(default_factory=dict)
    _by_name: dict[str, SourceTopic] = field(default_factory=dict)
    _wanted: dict[str, dict[str, None]] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS
    _verified_ms: int = 0

    def __post_init__(self) -> None:
        """List them."""
        self._list()

    def __getitem__(self, name: str) -> SourceTopic:
        """Return one that is read."""
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        """Return whether a topic is read."""
        return name in self._by_name

    def __iter__(self) -> Iterator[SourceTopic]:
        """Yield all of them."""
        return iter(self._by_name.values())

    @property
    def names(self) -> Sequence[str]:
        """Their names."""
        return list(self._by_name)

    @property
    def neighbours(self) -> Mapping[str, str]:
        """Who writes each outbox, by topic."""
        return {topic.name: topic.link.neighbour for topic in self if topic.link is not None}

    def gone(self) -> Sequence[str]:
        """Return those still read although the links in force have no use for them."""
        senders = {link.neighbour: None for link in self.learner.links if link.takes}
        return [name for name, neighbour in self.neighbours.items() if neighbour not in senders]

    def relink(self, topology: Topology, now_ms: int) -> None:
        """Read topics of new links, and stop reading those of removed links."""
        before, self.topology = self._by_name, topology
        self._list()
        for name, topic in self._by_name.items():
            topic.info = before[name].info if name in before else None
        self._tried_ms = now_ms - RETRY_MS  # look for the new ones at once

    def want(self, now_ms: int) -> bool:
        """Request topics that are not there, and now and then all; return whether that is due.

        Topics of a broker that does not answer are not requested: they stay as they are known.
        """
        if now_ms - self._tried_ms < RETRY_MS:
            return False
        self._tried_ms = now_ms
        wanted = [topic for topic in self if topic.info is None]
        if now_ms - self._verified_ms >= VERIFY_MS:
            self._verified_ms = now_ms
            known = [topic for topic in self if topic.info is not None]
            wanted += [topic for topic in known if self.readers[topic.kafka].reachable()]
        for topic in wanted:
            self._wanted.setdefault(topic.kafka, {})[topic.name] = None
        return True

    def take_answers(self) -> bool:
        """Take what brokers say about the requested topics; return whether any has answered."""
        has_answers = False
        for kafka, wanted in list(self._wanted.items()):
            try:
                looking = partial(_look, self.admins[kafka], list(wanted), self.cluster_id(kafka))
                told = self.questions.answer(("topics", kafka), looking)
            except TransportError:
                del self._wanted[kafka]
                continue
            if told is None:
                continue
            found, are_all, self.cluster_ids[kafka] = told
            del self._wanted[kafka]
            has_answers = True
            for topic in [self._by_name[name] for name in wanted if name in self._by_name]:
                topic.info = found.get(topic.name, topic.info)
                if are_all and topic.name not in found and topic.link is None:
                    self.vanished[topic.name] = None
        return has_answers

    def cluster_id(self, kafka: str) -> str:
        """Return the identity of a Kafka cluster, by its name; empty if it has not told it yet."""
        return self.cluster_ids.get(kafka, "")

    def _list(self) -> None:
        found = source_topics(self.topology, self.node, self.learner.links)
        self._by_name = {topic.name: topic for topic in found}


def _look(
    admin: Admin, topics: Sequence[str], cluster_id: str
) -> tuple[Mapping[str, TopicInfo], bool, str]:
    """Return what brokers say of topics, whether that is all, and which Kafka cluster they are."""
    found, are_all = answers_so_far(partial(admin.describe, topics))
    return found, are_all, cluster_id or admin.cluster_id()
