"""Whether the mesh falls into parts: from heartbeats and what neighbours have read of them.

A dead node is no split: its links count as they stood when it died, so that a mesh whose middle
has died is still one part. Spec: K24, K32.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from mesh.model.control import Heartbeat, LinkState
from mesh.model.findings import FindingKind
from mesh.model.links import Gate
from mesh.model.topology import Topology
from mesh.model.words import LinkWord
from streaming.audits.finding_register import Finding

BEHIND_MAX = 10
"""Heartbeats that an acknowledgement may lag. Spec: K32."""

SILENT_S = 5.0
"""A node not heard for so long is not asked about its links: half of what makes a link down, so
that a node that dies is known to be dead before its links look cut."""


SHUT = (LinkWord.DISABLED, str(Gate.REFUSED), str(Gate.PROBING))
"""States of links that carry no data, as they should not."""


class PairKey(NamedTuple):
    """One direction of a link: the reader and the sender of heartbeats."""

    reader: str
    neighbour: str


class BeatNumber(NamedTuple):
    """A heartbeat by its number; that of no heartbeat is lower than any."""

    epoch: int
    number: int


NONE = BeatNumber(-1, -1)


class Shown(NamedTuple):
    """Which heartbeat of a neighbour the auditor knew while it read what the reader wrote.

    Nothing is compared by clocks: a reader that has beaten since the auditor knew of a heartbeat
    has had the time to read it too, however long micro-batches take.

    Attributes:
        last: The newest one known when the reader's records were last taken.
        whole: The newest one known at a moment before which all that the reader wrote is read.
        due: The newest one known at such a moment before the reader wrote what was last taken:
            what it has acknowledged since is compared with that.
    """

    last: BeatNumber = NONE
    whole: BeatNumber = NONE
    due: BeatNumber = NONE


@dataclass(frozen=True, slots=True)
class Beat:
    """A node's newest heartbeat, and when the auditor heard it, on its monotonic clock."""

    epoch: int
    number: int
    heard_s: float


@dataclass(slots=True)
class Splits:
    """The parts of the mesh.

    Attributes:
        nodes: All nodes, sorted.
        links: Pairs of linked nodes, sorted.
        beats: Newest heartbeat of each node.
        read: What each node has last read of a neighbour: epoch and beat.
        since: Beat of the neighbour when both ends were first heard together: a reader that has
            just come is not late yet.
        until: Node -> all that it wrote before this moment has been read, on the auditor's clock.
        shown: What the auditor knew of a neighbour's heartbeats while it read the reader's records.
        beaten: Newest heartbeat of each node when its records were taken the last time.
        behind: Who lags too far.
        cut: Links that are cut.
        shut: Links that one end says are shut on purpose: by operators, or as not lawful.
        changes: Findings so far; tells two equal splits apart.
        is_open: A split was told that has not ended.
        is_changing: Links come or go just now, so what is said of the parts may be more than true.
    """

    nodes: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    beats: dict[str, Beat] = field(default_factory=dict)
    read: dict[PairKey, tuple[int, int]] = field(default_factory=dict)
    since: dict[PairKey, tuple[int, int, int]] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    shown: dict[PairKey, Shown] = field(default_factory=dict)
    beaten: dict[str, BeatNumber] = field(default_factory=dict)
    behind: dict[PairKey, None] = field(default_factory=dict)
    cut: dict[tuple[str, str], None] = field(default_factory=dict)
    shut: dict[PairKey, None] = field(default_factory=dict)
    changes: int = 0
    is_open: bool = False
    is_changing: bool = False

    @classmethod
    def of(cls, topology: Topology) -> Splits:
        """Return the state before anything was heard."""
        pairs = sorted({link.ends: None for link in topology.links})
        return cls(tuple(sorted(topology.nodes)), tuple(pairs))

    def follow(self, topologies: Sequence[Topology]) -> None:
        """Look at the links that all of these have: others come or go just now.

        What was said of links that went is forgotten, so their end is no split; one that they kept
        open ends.
        """
        pairs = [{link.ends: None for link in topology.links} for topology in topologies]
        self.is_changing = len(topologies) > 1
        self.nodes = sorted({name: None for topology in topologies for name in topology.nodes})
        self.links = sorted(pair for pair in pairs[0] if all(pair in others for others in pairs))
        self.cut = {link: None for link in self.cut if link in self.links}
        directions = {
            PairKey(ends[0], ends[1]) for link in self.links for ends in (link, link[::-1])
        }
        self.since = {pair: one for pair, one in self.since.items() if pair in directions}
        self.read = {pair: one for pair, one in self.read.items() if pair in directions}
        self.shown = {pair: one for pair, one in self.shown.items() if pair in directions}
        self.behind = {pair: None for pair in self.behind if pair in directions}

    def beat(self, node: str, heartbeat: Heartbeat, now_s: float) -> None:
        """Take a heartbeat; one that is not newer is no sign of life."""
        known = self.beats.get(node)
        if known is None or (heartbeat.epoch, heartbeat.beat) > (known.epoch, known.number):
            self.beats[node] = Beat(heartbeat.epoch, heartbeat.beat, now_s)
            others = {pair: None for pair in self.shut if pair.reader != node}
            shut = [one.neighbour for one in heartbeat.links if one.state in SHUT]
            self.shut = {**others, **{PairKey(node, other): None for other in shut}}

    def acknowledge(self, reader: str, neighbour: str, state: LinkState) -> None:
        """Take what a node has read of a neighbour's heartbeats."""
        self.read[PairKey(reader, neighbour)] = (state.epoch, state.beat)

    def taken(self, nodes: Collection[str], *, is_whole: bool) -> None:
        """Look at who lags, now that records of a Kafka cluster have been taken.

        Args:
            nodes: Those of the Kafka cluster.
            is_whole: No more waits there than was taken.
        """
        here = frozenset(nodes)
        for link in self.links:
            for pair in (PairKey(*link), PairKey(link[1], link[0])):
                if pair.reader in here:
                    self._look(pair, is_whole=is_whole)
        self.beaten.update((node, self._newest_beat(node)) for node in nodes)

    def _look(self, pair: PairKey, *, is_whole: bool) -> None:
        last, whole, due = self.shown.get(pair, Shown())
        if is_whole:
            whole, due = last, whole
            if self._newest_beat(pair.reader) > self.beaten.get(pair.reader, NONE):
                self._compare_beats(pair, due)
        self.shown[pair] = Shown(self._newest_beat(pair.neighbour), whole, due)

    def _newest_beat(self, node: str) -> BeatNumber:
        beat = self.beats.get(node)
        return NONE if beat is None else BeatNumber(beat.epoch, beat.number)

    def is_heard(self, node: str, now_s: float) -> bool:
        """Return whether a node beats, as far as its records have been read."""
        beat = self.beats.get(node)
        if beat is None:
            return False
        # After a restart on another host its clock may be lower: nothing has been heard there yet.
        return (
            beat.heard_s <= now_s
            and min(now_s, self.until.get(node, now_s)) - beat.heard_s < SILENT_S
        )

    def is_passable(self, walk: Sequence[str], now_s: float) -> bool:
        """Return whether all nodes of a walk beat, and none of its links is cut or shut."""
        if not all(self.is_heard(node, now_s) for node in walk):
            return False
        ways = [(first, second) for pair in pairwise(walk) for first, second in (pair, pair[::-1])]
        return not any(way in self.cut or PairKey(*way) in self.shut for way in ways)

    def _compare_beats(self, pair: PairKey, due: BeatNumber) -> None:
        """Note whether the reader lags too far, since both ends have been heard together."""
        own, beat = self._newest_beat(pair.reader), self._newest_beat(pair.neighbour)
        since = self.since.get(pair)
        if since is None or since[:2] != (own.epoch, beat.epoch):
            since = self.since[pair] = (own.epoch, beat.epoch, beat.number)
        epoch, number = self.read.get(pair, NONE)
        known = max(since[2], number) if epoch == beat.epoch else since[2]
        if due.epoch == beat.epoch and due.number - known > BEHIND_MAX:
            self.behind[pair] = None
        else:
            self.behind.pop(pair, None)

    def judge(self, now_s: float) -> Iterator[Finding]:
        """Yield a finding if links were cut or joined and the number of parts is another."""
        before = dict(self.cut)
        for link in self.links:
            self._judge_link(link, now_s)
        if before != self.cut:
            now, then = (self.beating_parts(one, now_s) for one in (self.cut, before))
            change = len(now) - len(then)
            if change:
                yield self._changed(FindingKind.SPLIT if change > 0 else FindingKind.HEAL, now_s)
        if self.is_open and not self._is_apart():
            # The link that was cut has been taken out of the topology, or another one has come.
            yield self._changed(FindingKind.HEAL, now_s)

    def _judge_link(self, link: tuple[str, str], now_s: float) -> None:
        pairs = (PairKey(*link), PairKey(link[1], link[0]))
        if not all(self.is_heard(node, now_s) for node in link):
            for pair in pairs:
                self.since.pop(pair, None)
            return
        if any(pair in self.behind for pair in pairs):
            self.cut[link] = None
        else:
            self.cut.pop(link, None)

    def _changed(self, kind: FindingKind, now_s: float) -> Finding:
        """Return the current parts of the mesh, of nodes whose heartbeats arrive."""
        self.changes += 1
        self.is_open = self._is_apart()
        told = tuple(",".join(part) for part in self.beating_parts(self.cut, now_s))
        links = ", ".join("-".join(link) for link in sorted(self.cut))
        text = f"parts of the mesh: {' | '.join(told)}"
        return Finding(
            kind=kind,
            text=f"{text}; cut links: {links}" if links else text,
            ids=told,
            link=links if self.is_open else "",
            anchor=str(self.changes),
        )

    def _is_apart(self) -> bool:
        """Return whether cut links keep nodes apart, be they alive or dead."""
        return len(self._parts(self.cut)) > len(self._parts({}))

    def beating_parts(
        self, cut: Mapping[tuple[str, str], None], now_s: float
    ) -> Sequence[Sequence[str]]:
        """Return the parts with a node that beats, and of each the nodes that beat, sorted."""
        beating = ([one for one in part if self.is_heard(one, now_s)] for part in self._parts(cut))
        return sorted(part for part in beating if part)

    def _parts(self, cut: Mapping[tuple[str, str], None]) -> Sequence[Sequence[str]]:
        part_of = {node: node for node in self.nodes}
        for first, second in self.links:
            if (first, second) not in cut:
                part_of[_root(part_of, first)] = _root(part_of, second)
        parts: dict[str, list[str]] = {}
        for node in self.nodes:
            parts.setdefault(_root(part_of, node), []).append(node)
        return [*parts.values()]


def _root(part_of: Mapping[str, str], node: str) -> str:
    while part_of[node] != node:
        node = part_of[node]
    return node
