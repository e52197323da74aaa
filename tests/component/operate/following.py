"""Nodes that only beat and follow changes of the topology; no message goes anywhere."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import ChangeStatus, Heartbeat, Stage
from mesh.model.facts import Fact, SourceAt
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.changes.begin import read_begun
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import MeshToChange
from mesh.operate.changes.founding import publish
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.status import observe
from mesh.transport.clock import Timekeeper
from mesh.transport.memory import MemoryKafka
from mesh.transport.node_topics import node_topics
from mesh.transport.port import TopicPartition
from mesh.view.mesh_view import MeshView
from mesh.wire.control import encode_heartbeat
from mesh.wire.keys import fact_key, heartbeat_key
from mesh.wire.state import encode_fact

TURN_MS = 200


def mesh_of(*links: str, nodes: str = "a b c") -> Topology:
    """A multi-hop mesh of these links; a and its like on one Kafka cluster, the rest on another."""
    homes = {node: "left" if node[0] == "a" else "right" for node in nodes.split()}
    return topology_from_mapping(
        {
            "kafka": {name: {} for name in sorted(homes.values())},
            "nodes": {node: {"kafka": name} for node, name in homes.items()},
            "zones": {"Z": {"kind": "multi-hop", "links": [link.split("-") for link in links]}},
        }
    )


class Following:
    """Such nodes.

    Attributes:
        down: Those that do not beat.
        stuck: Stages that a node never ends, by node.
        read: How far each reads its neighbours' outboxes; everything, unless it stands here.
        owed: What each says of targets that it leaves out, and the like.
        seen: Stages in the order in which nodes read them.
        lines: What was told.
    """

    def __init__(self, before: Topology, after: Topology) -> None:
        self.ms = 1_000
        clusters = sorted({**before.kafka, **after.kafka})
        self.kafka = {name: MemoryKafka(name, now_ms=self.now_ms) for name in clusters}
        self.before, self.after = before, after
        self.nodes = {**before.nodes, **after.nodes}
        self.neighbours = {node: self._neighbours(node) for node in self.nodes}
        self.down: set[str] = set()
        self.stuck: dict[str, Stage] = {}
        self.read: dict[tuple[str, str], int] = {}
        self.owed: dict[str, list[Fact]] = {}
        self.seen: list[tuple[str, Stage]] = []
        self.lines: list[str] = []
        self._beat = 0
        for topology in (before, after):
            for node, declared in topology.nodes.items():
                self.kafka[declared.kafka].admin().create(node_topics(topology, node))
        publish(before, {name: self.kafka[name] for name in before.kafka})

    def topics(self) -> set[str]:
        """Return the names of all topics that there are."""
        return {topic for kafka in self.kafka.values() for topic in kafka.topics}

    def now_ms(self) -> int:
        return self.ms

    def means(self) -> MeshToChange:
        view = MeshView(self.before, self.kafka, self.now_ms)
        found, _ = read_in_force(self.kafka, "mesh.")
        assert found is not None
        view.refresh()
        time = Timekeeper(self.now_ms, self.pause)
        return MeshToChange(
            in_force=found,
            topology=found.topology,
            kafka=self.kafka,
            view=view,
            tell=self.lines.append,
            beats=observe(view, time),
            time=time,
        )

    def reports(self) -> FollowedLaneReports:
        found, _ = read_in_force(self.kafka, "mesh.")
        assert found is not None
        return FollowedLaneReports(found.topology, self.kafka, self.now_ms)

    def _neighbours(self, node: str) -> set[str]:
        return {
            other
            for topology in (self.before, self.after)
            if node in topology.nodes
            for other in topology.neighbours(node)
        }

    def pause(self, seconds: float) -> None:
        until = self.ms + max(1, int(seconds * 1000))
        while self.ms < until:
            self.ms += TURN_MS
            self._beat += 1
            for node, declared in self.nodes.items():
                if node not in self.down and self.kafka[declared.kafka].available:
                    self._live(node, self.kafka[declared.kafka])

    def _live(self, node: str, kafka: MemoryKafka) -> None:
        begun = read_begun({"": kafka}, "mesh.")
        status = None
        if begun is not None:
            change = begun.change
            is_done = self.stuck.get(node) is not change.stage
            status = ChangeStatus(change.number, change.stage, is_done)
            if (node, change.stage) not in self.seen:
                self.seen.append((node, change.stage))
        names, writer = TopicNames("mesh."), kafka.writer("fake")
        beat = Heartbeat(1, self._beat, ready=True, change=status)
        writer.produce(names.control(node), encode_heartbeat(beat), heartbeat_key(), 0)
        for other in self.neighbours[node]:
            topic = names.outbox(other, node, MessageClass.GUARANTEED)
            if not self.kafka[self.nodes[other].kafka].available:
                continue
            there = self.kafka[self.nodes[other].kafka].admin()
            ends = there.ends([TopicPartition(topic, number) for number in range(4)])
            info = there.describe([topic]).get(topic)
            for at, end in ends.items():
                offset = min(end, self.read.get((other, node), end))
                topic_id = bytes(16) if info is None else info.topic_id
                told = SourceAt(at, topic_id, offset)
                writer.produce(names.progress(node), encode_fact(told), fact_key(told.key), 0)
        for owed in self.owed.get(node, ()):
            writer.produce(names.progress(node), encode_fact(owed), fact_key(owed.key), 0)
        writer.close()

    def send(self, source: str, target: str) -> None:
        """Put a frame into an outbox."""
        writer = self.kafka[self.nodes[source].kafka].writer("fake")
        topic = TopicNames("mesh.").outbox(source, target, MessageClass.GUARANTEED)
        writer.produce(topic, b"", b"", 0)
        writer.close()
