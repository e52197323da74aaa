"""What the nodes call themselves and their topics. Spec: K4.

Nodes tell their topics on `control`; where a broker has told the id of a topic, its word counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.control import Identity
from streaming.tables.rows import SourceKey, TopicPartition


@dataclass(slots=True)
class Names:
    """Names for intrinsic identities, and back.

    Attributes:
        topics: Topic id (hexadecimal) -> topic name.
        ids: Topic name -> newest topic id.
        uuids: Node -> uuid.
        by_brokers: Topic name -> id, as a broker says.
        former: Ids of topics that were recreated under their names.
        told: Nodes whose uuid is that of their present `clients` topic.
        version: Rises with every change: who is owed what rests on names.
    """

    topics: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    uuids: dict[str, str] = field(default_factory=dict)
    by_brokers: dict[str, str] = field(default_factory=dict)
    former: dict[str, None] = field(default_factory=dict)
    told: dict[str, None] = field(default_factory=dict)
    version: int = 0

    def learn(self, identity: Identity) -> str | None:
        """Take what a node says about itself; return its uuid before, if it counts versions on.

        One that another node has is nobody's to take.
        """
        node = identity.node
        before = self.uuids.get(node) if node in self.told else None
        others = [uuid for one, uuid in self.uuids.items() if one != node]
        is_own = before not in others and identity.uuid not in others
        self.version += self.uuids.get(node) != identity.uuid
        self.uuids[node], self.told[node] = identity.uuid, None
        for topic in identity.topics:
            if topic.name not in self.by_brokers:
                self._name(topic.name, topic.topic_id.hex())
        return before if is_own and before != identity.uuid else None

    def tell(self, topic: str, topic_id: str) -> None:
        """Take a topic's id from its broker; it supersedes what nodes had reported."""
        if topic not in self.by_brokers:
            claimed = [id_ for id_, name in self.topics.items() if name == topic]
            for id_ in claimed:
                del self.topics[id_]
        elif self.by_brokers[topic] != topic_id:
            self.former[self.by_brokers[topic]] = None
        self.by_brokers[topic] = topic_id
        self._name(topic, topic_id)

    def _name(self, topic: str, topic_id: str) -> None:
        self.version += self.ids.get(topic) != topic_id
        self.topics[topic_id], self.ids[topic] = topic, topic_id

    def place(self, source: SourceKey) -> TopicPartition | None:
        """Return a source's partition by topic name; None: its topic id is unknown."""
        name = self.topics.get(source.topic_id)
        return None if name is None else TopicPartition(name, source.partition)

    def key(self, place: TopicPartition) -> SourceKey | None:
        """Return a partition by topic id; None: the id of its topic is unknown."""
        topic_id = self.ids.get(place.topic)
        return None if topic_id is None else SourceKey(topic_id, place.partition)

    def text(self, source: SourceKey) -> str:
        """Return the partition for people: by name where it is known."""
        return str(self.place(source) or TopicPartition(source.topic_id, source.partition))
