"""One incarnation of a node's tree layer: what it reads, when something is due, what it writes.

Spec: tree_layer 12, 13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.errors import DecodeError, ProtocolError
from mesh.model.effects import Relinked
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.model.tree_apps import AppSaid, LeaseSaid, RoleSaid, content_bytes
from mesh.transport.headers import headers_of
from mesh.transport.port import Record, TopicPartition
from mesh.trees.applications.inputs import (
    NodeInput,
    RolesCaughtUp,
    RolesRead,
    SaidWrongly,
    WordsLost,
)
from mesh.trees.applications.machine import Applications
from mesh.trees.inputs import FrameRead, LeadResumed, LinkClosed, LinkOpened, Ticked
from mesh.trees.links import REFUSED
from mesh.wire.tree_apps import call_named, decode_roles, decode_said
from mesh.wire.trees import decode_frame
from mesh.worker.process.intake import by_partition
from mesh.worker.topics.own_topics import OwnTopics
from mesh.worker.trees.reading import TreeFeeds
from mesh.worker.trees.telling import RouteTeller
from mesh.worker.trees.writing import TreeWriter

TICK_MS = 100
"""How often to check whether anything is due: each application has its own time."""

REST_MS = 1_000
"""How long a link rests whose frames are unreadable."""

LOOK_MS = 1_000
"""How often to count lost records, and forget applications that are gone."""

HEAR_MS = 3_000
"""How long a new incarnation listens for neighbours before it serves applications all the same."""

BACK_MS = 30_000
"""How long after a wait its neighbours may still be on their way back from the same outage. Until
then it goes by their frames alone, not by their heartbeats, and expects nothing of those whose
Kafka cluster was away too: some regain the lead much sooner than others."""

log = structlog.get_logger()


@dataclass(slots=True)
class TreeIncarnation:
    """Everything that lives as long as the worker leads.

    Attributes:
        topology, node: The mesh, and the node.
        id: Uuid and epoch of the node.
        led: The epoch of the node under which it writes.
        apps: The applications, and the tree node that serves them.
        feeds: Reads frames, and what applications write.
        writer: Writes frames, and the applications' records.
        own: Looks after the topics of the tree layer.
        refused: Records that could not be read, by topic.
        began_ms: Since when it lives.
        open: Neighbours whose frames are read.
        resting: Until when a link rests whose frames were unreadable.
        told: Reasons of dropped frames, as often as the log has reported them.
        teller: Knows which routes were reported.
        has_roles: Whether it serves applications.
        looked_ms, ticked_ms: When it last looked, see `LOOK_MS` and `TICK_MS`.
        suspended_ms: Since when it may not write, None while it may.
        held, held_bytes: What was read meanwhile, and its size.
        back_ms: Until when neighbours may be on their way back.
    """

    topology: Topology
    node: str
    id: tuple[str, int]
    led: int
    apps: Applications
    feeds: TreeFeeds
    writer: TreeWriter
    own: OwnTopics
    refused: Counter[str]
    began_ms: int
    open: dict[str, None] = field(default_factory=dict)
    resting: dict[str, int] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)
    teller: RouteTeller = field(default_factory=RouteTeller)
    has_roles: bool = False
    looked_ms: int = 0
    ticked_ms: int = 0
    suspended_ms: int | None = None
    held: list[Record] = field(default_factory=list)
    held_bytes: int = 0
    back_ms: int = 0

    @property
    def is_suspended(self) -> bool:
        """Whether it must write nothing: this worker does not lead just now."""
        return self.suspended_ms is not None

    def relink(self, relinked: Relinked) -> None:
        """Switch to another topology."""
        self.topology = relinked.topology
        self.apps.splits.follow(relinked.topology.nodes)
        self.feeds.topology = self.writer.topology = relinked.topology
        self.own.topology = relinked.topology

    def hold(self, records: Sequence[Record]) -> None:
        """Keep records until it resumes."""
        self.held += records
        self.held_bytes += sum(len(one.value() or b"") for one in records)

    def resume(self, epoch: int, now_ms: int) -> Sequence[Record]:
        """Resume: nobody else has led meanwhile; return what was held."""
        self.led, self.suspended_ms, self.back_ms = epoch, None, now_ms + BACK_MS
        held, self.held, self.held_bytes = self.held, [], 0
        self.teller.forget()  # readers go by the epoch
        log.info("trees.resumed", records=len(held))
        nodes = self.topology.nodes
        reached = [link for link in self.open if nodes[link].kafka == nodes[self.node].kafka]
        self.give(LeadResumed(reached, self.back_ms), now_ms)
        return held

    def close(self, patience_s: float) -> None:
        """End it; frames waiting to be written get this much time."""
        self.feeds.close()
        self.writer.close(patience_s)

    def take(self, records: Sequence[Record], now_ms: int) -> None:
        """Take records of the tree layer's topics, in order."""
        roles = TopicNames(self.topology.prefix).roles(self.node)
        for place, group in by_partition(records).items():
            whose = self.feeds.neighbour(place.topic)
            if whose is None:
                continue
            if whose:
                self._read_frames(whose, group, now_ms)
            elif place.topic == roles:
                self._read_roles(group, now_ms)
            else:
                self._read_sends(group, now_ms)

    def step(self, links: Collection[str], now_ms: int) -> None:
        """Do what is due.

        Args:
            links: Neighbours that it may exchange frames with now.
            now_ms: The present moment.
        """
        for link in [link for link, until_ms in self.resting.items() if now_ms >= until_ms]:
            del self.resting[link]
        may_open = [link for link in links if link not in self.resting]
        if now_ms < self.back_ms:
            may_open += [link for link in self.open if link not in links]
        self.close_links([link for link in self.open if link not in may_open], now_ms)
        self.feeds.listen_to(may_open)
        for link in self.feeds.find(now_ms):
            if not link:
                self.give(WordsLost(), now_ms)
                continue
            self.open[link] = None
            self.give(LinkOpened(link), now_ms)
        if not self.has_roles and self._may_serve(now_ms):
            self.has_roles = True
            self.give(RolesCaughtUp(), now_ms)
        if now_ms - self.ticked_ms >= TICK_MS:
            self.ticked_ms = now_ms
            wakes_ms = self.apps.wakes_ms
            if wakes_ms is not None and wakes_ms <= now_ms:
                self.give(Ticked(), now_ms)
        if made := self.own.changed(now_ms):
            self.feeds.lost([TopicPartition(topic, 0) for topic in made])
            self.teller.forget()
        self.writer.see_to(now_ms)
        if now_ms - self.looked_ms >= LOOK_MS:
            self.looked_ms = now_ms
            if self.writer.count_lost():
                self.teller.forget()
            self.writer.forget(self.apps.names)
            for address, told in self.teller.news(self.apps.node, now_ms):
                self.writer.tell_routes(address, told, self.led)
            self._tell_dropped()

    def _may_serve(self, now_ms: int) -> bool:
        """Return whether applications can be served: requests are read, neighbours are heard.

        All that there are: who has just begun knows of few links, or none, that are up.
        A neighbour's knowledge is newer than anything an incarnation without memory would say:
        without the neighbour's clock a returning holder would lose its role to its own former
        instance.
        """
        names = TopicNames(self.topology.prefix)
        if not self.feeds.has_read(names.roles(self.node)):
            return False
        if self.feeds.end(names.sends(self.node)) is None:
            return False  # a send on hearing of the service would be before its end
        up = self.apps.node.links_up
        has_heard = all(link in up for link in self.topology.neighbours(self.node))
        return has_heard or now_ms - self.began_ms >= HEAR_MS

    def give(self, input_: NodeInput, now_ms: int) -> None:
        """Pass an input to the tree node and its applications, and perform their effects."""
        self.writer.perform(self.apps.step(input_, now_ms))

    def close_links(self, links: Sequence[str], now_ms: int) -> None:
        """Stop reading frames of these neighbours."""
        closed = [link for link in links if link in self.open]
        for link in closed:
            del self.open[link]
            self.give(LinkClosed(link), now_ms)
        if closed:
            self.feeds.listen_to(list(self.open))

    def _tell_dropped(self) -> None:
        """Log in one line which frames were dropped here, and why, since the last such line."""
        counts = Counter(self.apps.node.counts)
        if dropped := counts - self.told:
            self.told = counts
            if dropped.keys() & REFUSED:
                log.warning("trees.dropped", frames=dict(dropped))
            else:
                log.info("trees.dropped", frames=dict(dropped))

    # -- records --------------------------------------------------------------------------

    def _read_frames(self, link: str, records: Sequence[Record], now_ms: int) -> None:
        for record in records:
            if link not in self.open:
                return
            try:
                frame = decode_frame(record.key() or b"", record.value() or b"")
            except ProtocolError as error:
                self._note(record, error)
                self.resting[link] = now_ms + REST_MS
                self.close_links([link], now_ms)
                return
            self.give(FrameRead(link, frame), now_ms)

    def _read_roles(self, records: Sequence[Record], now_ms: int) -> None:
        said: list[RoleSaid | LeaseSaid] = []
        for record in records:
            try:
                said.append(decode_roles(record.key(), record.value(), headers_of(record)))
            except ProtocolError as error:
                self.give(RolesRead(said), now_ms)  # it may be from one that has just begun
                said = []
                self._refuse(record, error, now_ms)
        self.give(RolesRead(said), now_ms)

    def _read_sends(self, records: Sequence[Record], now_ms: int) -> None:
        limit = self.topology.max_message_bytes
        for record in records:
            try:
                said = decode_said(self.node, record.key(), record.value())
                _check_size(said, limit)
            except ProtocolError as error:
                self._refuse(record, error, now_ms)
                continue
            self.give(said, now_ms)

    def _refuse(self, record: Record, error: Exception, now_ms: int) -> None:
        """Count an unusable record, and notify the application it names, if that lives."""
        self._note(record, error)
        app = (record.key() or b"").partition(b" ")[0].decode("utf-8", "replace")
        text = f"{record.topic()} at offset {record.offset()}: {error}"
        self.give(SaidWrongly(app, call_named(record.value()), text), now_ms)

    def _note(self, record: Record, error: Exception) -> None:
        self.refused[record.topic()] += 1
        log.warning("trees.refused", topic=record.topic(), offset=record.offset(), fault=str(error))


def _check_size(said: AppSaid, limit: int) -> None:
    if (size := content_bytes(said)) > limit:
        raise DecodeError(f"the payload has {size} bytes; at most {limit} are allowed")
