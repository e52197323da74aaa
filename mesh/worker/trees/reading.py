"""What the tree layer reads: frames and sends from their present end, the rest from the start.

Passing records are not replayed: what was written before this node listened is nobody's.
Spec: tree_layer 12; kafka.md 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.partly import answers_so_far
from mesh.transport.port import BEGINNING, Admin, Reader, TopicPartition
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions

RETRY_MS = 1_000
"""How often to look for a topic that is missing, or whose Kafka cluster does not answer."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Feed:
    """A topic that is read or looked for.

    Attributes:
        neighbour: The neighbour whose frames it has, "" for the own topics.
        from_end: Whether only new records are read.
        end: Where it ended when it was found; None before that.
        tried_ms: When it was last looked for and not found.
        is_read: Everything that it held then has been read.
        was_lost: What it held before that is nobody's.
    """

    place: TopicPartition
    kafka: str
    neighbour: str
    from_end: bool = True
    end: int | None = None
    tried_ms: int | None = None
    is_read: bool = False
    was_lost: bool = False


@dataclass(slots=True)
class TreeFeeds:
    """The topics that one incarnation reads, on the worker's readers.

    Attributes:
        topology, node: Whose.
        admins, readers: Per Kafka cluster.
        intake: Forgets what was fetched from topics that are no longer read.
        questions: Ask where topics end.
    """

    topology: Topology
    node: str
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    _feeds: dict[str, _Feed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the own topics; they are looked for as time passes."""
        names, kafka = self._names, self.topology.nodes[self.node].kafka
        for topic, from_end in ((names.roles(self.node), False), (names.sends(self.node), True)):
            self._feeds[topic] = _Feed(TopicPartition(topic, 0), kafka, "", from_end)

    @property
    def _names(self) -> TopicNames:
        return TopicNames(self.topology.prefix)

    def neighbour(self, topic: str) -> str | None:
        """Return whose frames a topic has: a neighbour's, "" for own topics, None if not read."""
        feed = self._feeds.get(topic)
        return None if feed is None or feed.end is None else feed.neighbour

    def end(self, topic: str) -> int | None:
        """Return where a topic ended when it was found, None before."""
        feed = self._feeds.get(topic)
        return None if feed is None else feed.end

    def listen_to(self, neighbours: Collection[str]) -> Sequence[str]:
        """Read frames of exactly these; return the neighbours no longer read."""
        known = [feed.neighbour for feed in self._feeds.values() if feed.neighbour]
        gone = [name for name in known if name not in neighbours]
        for name in gone:
            self._leave(self._names.to_trees(name, self.node))
        for name in [name for name in neighbours if name not in known]:
            topic = self._names.to_trees(name, self.node)
            kafka = self.topology.nodes[name].kafka
            self._feeds[topic] = _Feed(TopicPartition(topic, 0), kafka, name)
        return gone

    def find(self, now_ms: int) -> Iterator[str]:
        """Look for what is not read yet; yield neighbours whose frames are read from now on.

        "" stands for an own topic that had lost something and is being read again.
        """
        wanted: dict[str, list[_Feed]] = {}
        for feed in self._feeds.values():
            is_due = feed.tried_ms is None or now_ms - feed.tried_ms >= RETRY_MS
            if feed.end is None and is_due and feed.kafka in self.readers:
                wanted.setdefault(feed.kafka, []).append(feed)
        for kafka, feeds in wanted.items():
            places = [feed.place for feed in feeds]
            try:
                asking = partial(self._ends, kafka, places)
                ends = self.questions.answer(("trees", "ends", kafka), asking)
            except TransportError as error:
                log.info("trees.unreachable", kafka=kafka, fault=str(error))
                for feed in feeds:
                    feed.tried_ms = now_ms
                continue
            for feed in feeds if ends is not None else ():
                yield from self._found(feed, ends or {}, now_ms)

    def _ends(self, kafka: str, places: Sequence[TopicPartition]) -> Mapping[str, int | None]:
        ends, _ = answers_so_far(partial(self.admins[kafka].ends, places))
        return {place.topic: ends.get(place) for place in places}

    def _found(self, feed: _Feed, ends: Mapping[str, int | None], now_ms: int) -> Iterator[str]:
        topic = feed.place.topic
        if topic not in ends:
            return  # it was not requested yet
        end = ends[topic]
        if end is None:
            feed.tried_ms = now_ms
            return
        feed.end = end
        start = end if feed.from_end else BEGINNING
        self.readers[feed.kafka].assign({feed.place: start})
        if not feed.from_end:
            self.intake.watch(feed.kafka, feed.place)
        if feed.neighbour or feed.was_lost:
            feed.was_lost = False
            yield feed.neighbour

    def has_any(self, places: Collection[TopicPartition]) -> bool:
        """Return whether any of these is read here."""
        return any(feed.place in places for feed in self._feeds.values())

    def lost(self, places: Collection[TopicPartition]) -> Sequence[str]:
        """Look again for topics that lost their end, or were recreated; return their neighbours.

        What lay between is nobody's: links start over, and applications repeat what they want.
        """
        gone = [feed for feed in self._feeds.values() if feed.place in places]
        for feed in gone:
            self._leave(feed.place.topic)
            self._feeds[feed.place.topic] = replace(
                feed, end=None, tried_ms=None, is_read=False, was_lost=True
            )
        return [feed.neighbour for feed in gone if feed.neighbour]

    def _leave(self, topic: str) -> None:
        feed = self._feeds.pop(topic)
        if feed.end is not None:
            self.intake.unwatch(feed.place)
            self.readers[feed.kafka].unassign([feed.place])
            self.intake.forget([feed.place])

    def has_read(self, topic: str) -> bool:
        """Return whether everything that a topic held when it was found has been read."""
        feed = self._feeds[topic]
        if not feed.is_read and feed.end is not None:
            feed.is_read = self.intake.positions.get(feed.place, BEGINNING) >= feed.end
            if feed.is_read:
                self.intake.unwatch(feed.place)
        return feed.is_read

    def close(self) -> None:
        """Stop reading."""
        for topic in list(self._feeds):
            self._leave(topic)
