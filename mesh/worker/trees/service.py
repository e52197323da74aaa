"""The tree layer of a node, run by the worker that leads it.

One incarnation lives as long as the leadership: takeover and restart are a crash with loss of
memory, after which `roles` says what applications want. A worker that cannot write because its own
Kafka cluster is away no longer leads; if it is also the next to lead, nobody has led in between,
and the incarnation goes on. Until then it is suspended: it writes nothing, and no time passes for
it.
Spec: tree_layer 12, 13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import structlog

from mesh.model.control import TreeStatus
from mesh.model.effects import Relinked
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import Admin, KafkaCluster, Reader, Record, TopicPartition
from mesh.trees.applications.machine import Applications
from mesh.trees.inputs import MeshFollowed, RealmChanged
from mesh.trees.machine import Size, TreeNode
from mesh.trees.settings import Settings
from mesh.worker.process.clock import AWAKE_MS, AwakeTime
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions
from mesh.worker.topics.own_topics import LOOK_MS, OwnTopics, tree_topics
from mesh.worker.trees.incarnation import TreeIncarnation
from mesh.worker.trees.reading import TreeFeeds
from mesh.worker.trees.writing import TreeWriter

TURN_MS = 20
"""How often the tree layer checks its links, topics and clocks. A busy worker turns more often, and
most of its turns do not concern the tree layer; what is read is taken at once."""

HOLD_MS = 60_000
"""How long a suspended incarnation waits for the lead. Spec: tree_layer 12 (b), `hold_down`."""

HELD_MAX, HELD_BYTES_MAX = 10_000, 64 << 20
"""How many records wait for a suspended incarnation, of links whose Kafka cluster answers, and
their size."""

COLLECTED_BYTES_MIN = 60_000
"""What the answers in one response may add up to even if messages are small: what some hundred
nodes report about themselves. Topics have that much room beyond a message."""

LEAVE_S = 1.0
"""How long a node that stops waits for its last frames to be written."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFigures:
    """One moment of the tree layer of a node.

    Attributes:
        size: What it keeps, and what is under way.
        links: Number of neighbours with which it exchanges frames.
        applications: Number of live applications.
        frames: Frames written, by kind.
        dropped: Frames and answers that meant nothing here, by reason.
        refused: Refused requests of applications, by code.
        unread: Frames, and records of applications, that were unreadable.
        lost: Records that Kafka did not take.
    """

    size: Size
    links: int
    applications: int
    frames: Mapping[str, int]
    dropped: Mapping[str, int]
    refused: Mapping[str, int]
    unread: Mapping[str, int]
    lost: int


@dataclass(slots=True)
class TreeService:
    """The tree layer of one worker.

    Attributes:
        topology, node: The mesh, and the node.
        home: The node's own Kafka cluster.
        admins, readers: Per Kafka cluster.
        intake: Of the worker.
        questions: What waits for brokers.
        settings: Of the tree node.
        refused: Records that could not be read, by topic.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    settings: Settings = field(default_factory=Settings)
    refused: Counter[str] = field(default_factory=Counter)
    _now: TreeIncarnation | None = None
    _stepped_ms: int = 0
    _time: AwakeTime = field(default_factory=AwakeTime)

    @property
    def applications(self) -> Applications | None:
        """The applications it knows, None while this worker does not lead."""
        return None if self._now is None else self._now.apps

    @property
    def colour(self) -> str:
        """Label of the node's part, "" while it has none or this worker does not lead."""
        colour = None if self._now is None else self._now.apps.node.colour
        return "" if colour is None else str(colour)

    @property
    def status(self) -> TreeStatus | None:
        """Its status for the heartbeat; None while this worker does not lead."""
        if self._now is None:
            return None
        node = self._now.apps.node
        unread = sum(n for topic, n in self.refused.items() if self._is_link(topic))
        realm = "" if node.realm_colour is None else str(node.realm_colour)
        return TreeStatus(tuple(sorted(node.links_up)), unread + node.refused, realm)

    def _is_link(self, topic: str) -> bool:
        names = TopicNames(self.topology.prefix)
        return topic not in (names.roles(self.node), names.sends(self.node))

    @property
    def figures(self) -> TreeFigures | None:
        """The figures for metrics; None while this worker does not lead."""
        now = self._now
        if now is None or now.is_suspended:
            return None
        return TreeFigures(
            size=now.apps.node.size,
            links=len(now.apps.node.links_up),
            applications=len(now.apps.names),
            frames=Counter(now.writer.frames),
            dropped=Counter(now.apps.node.counts),
            refused=Counter(now.apps.refused),
            unread=Counter(
                {
                    "frames": sum(n for at, n in self.refused.items() if self._is_link(at)),
                    "records": sum(n for at, n in self.refused.items() if not self._is_link(at)),
                }
            ),
            lost=now.writer.lost,
        )

    def has(self, topic: str) -> bool:
        """Return whether records of this topic are for the tree layer."""
        return self._now is not None and self._now.feeds.neighbour(topic) is not None

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to another topology; links that are gone close with the next step."""
        self.topology = relinked.topology
        self._end_suspended()
        now_ms = self._awake(now_ms)
        if self._now is not None:
            self._now.give(self._mesh, now_ms)
            self._now.relink(relinked)
            if self.node in relinked.topology.nodes:
                self._now.give(RealmChanged(self._realm), now_ms)
            self._now.close_links(relinked.gone, now_ms)

    def follow(self, incarnation: tuple[str, int, int] | None, now_ms: int) -> None:
        """Begin when this worker has taken the lead, wait when it has lost it.

        Args:
            incarnation: Uuid and epoch of the node, and the first epoch in a row up to that one
                that nobody else has taken; None while this worker does not lead.
            now_ms: The present moment.
        """
        awake_ms = self._awake(now_ms)
        now = self._now
        if incarnation is None:
            self._wait(now_ms)
            return
        uuid, epoch, since = incarnation
        if now is not None and (uuid, epoch) != (now.id[0], now.led):
            if now.is_suspended and uuid == now.id[0] and since <= now.led:
                self._resume(now, epoch, awake_ms)
            else:
                self._end(now, patience_s=0.0)
        if self._now is None:
            self._begin(uuid, epoch, awake_ms)

    def _wait(self, now_ms: int) -> None:
        """Wait for the lead, but not forever."""
        now = self._now
        if now is not None:
            if now.suspended_ms is None:
                now.suspended_ms = now_ms
            holds_too_much = len(now.held) > HELD_MAX or now.held_bytes > HELD_BYTES_MAX
            if holds_too_much or now_ms - now.suspended_ms > HOLD_MS:
                self._end(now, patience_s=0.0)

    def _resume(self, now: TreeIncarnation, epoch: int, now_ms: int) -> None:
        """Resume: nobody else has led meanwhile."""
        held = now.resume(epoch, now_ms)
        self.take(held, now_ms + self._time.stood_still_ms)

    def _end_suspended(self) -> None:
        """End an incarnation that would have to write something and may not."""
        if self._now is not None and self._now.is_suspended:
            self._end(self._now, patience_s=0.0)

    def _begin(self, uuid: str, epoch: int, now_ms: int) -> None:
        number = int.from_bytes(sha256(f"{uuid} {epoch}".encode()).digest()[:8], "big")
        most = max(self.topology.max_message_bytes, COLLECTED_BYTES_MIN)
        settings = replace(self.settings, collected_bytes_max=most)
        tree_node = TreeNode(self.node, uuid, epoch, number, self._realm, settings)
        self._now = TreeIncarnation(
            *(self.topology, self.node, (uuid, epoch), epoch),
            Applications(tree_node, uuid, epoch),
            TreeFeeds(
                self.topology, self.node, self.admins, self.readers, self.intake, self.questions
            ),
            TreeWriter(self.topology, self.node, self.home, self.questions, epoch),
            OwnTopics(
                *(self.topology, self.node, self.home.admin(), self.questions, now_ms - LOOK_MS),
                tree_topics,
                "trees",
            ),
            self.refused,
            began_ms=now_ms,
            looked_ms=now_ms,
        )
        self._now.apps.splits.follow(self.topology.nodes)
        self._now.give(self._mesh, now_ms)

    @property
    def _realm(self) -> str:
        return self.topology.nodes[self.node].realm or ""

    @property
    def _mesh(self) -> MeshFollowed:
        """What the topology says of frames and links."""
        pings = self.topology.role_pings
        return MeshFollowed(
            nodes=len(self.topology.nodes),
            ping_ms=round(pings.every_s * 1000),
            pings_missed_max=pings.missed_max,
        )

    # -- one turn -------------------------------------------------------------------------

    def take(self, records: Sequence[Record], now_ms: int) -> None:
        """Take records of the tree layer's topics, in order."""
        now_ms = self._awake(now_ms)
        if self._now is None:
            return
        if self._now.is_suspended:
            self._now.hold(records)
        else:
            self._now.take(records, now_ms)

    def lost(self, places: Collection[TopicPartition], now_ms: int) -> None:
        """Handle topics whose reader is outside their log; their links close and open again."""
        if self._now is not None and self._now.feeds.has_any(places):
            self._end_suspended()
        now_ms = self._awake(now_ms)
        if self._now is not None:
            self._now.close_links(self._now.feeds.lost(places), now_ms)

    def is_due(self, now_ms: int) -> bool:
        """Return whether a step may have anything to do."""
        return self._now is not None and now_ms - self._stepped_ms >= TURN_MS

    def step(self, links: Collection[str], now_ms: int) -> None:
        """Do what is due.

        Args:
            links: Neighbours that the tree layer may exchange frames with now.
            now_ms: The present moment.
        """
        self._stepped_ms = now_ms
        now_ms = self._awake(now_ms)
        if self._now is not None and not self._now.is_suspended:
            self._now.step(links, now_ms)

    def _awake(self, now_ms: int) -> int:
        """Return the present moment without the time in which this worker stood still or waited."""
        is_suspended = self._now is not None and self._now.is_suspended
        return self._time.at(now_ms, 0 if is_suspended else AWAKE_MS)

    # -- the end --------------------------------------------------------------------------

    def close(self, now_ms: int) -> None:
        """Say goodbye on all links, and end."""
        self._end_suspended()
        now_ms = self._awake(now_ms)
        if self._now is not None:
            self._now.close_links(list(self._now.open), now_ms)
            self._end(self._now, patience_s=LEAVE_S)

    def abandon(self) -> None:
        """End as in a crash: neighbours notice by themselves."""
        if self._now is not None:
            self._end(self._now, patience_s=0.0)

    def _end(self, now: TreeIncarnation, *, patience_s: float) -> None:
        self.questions.forget("trees")
        now.close(patience_s)
        self._now = None
