"""What must happen on a mesh whose topology changes: each message goes by that of its source.

Which topologies there are, and from when on, stands on `mesh.config`; from which message on a
source goes by one stands in the ledger of its node. Both are read from the logs. Spec: K28.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesh.config.published import published_text
from mesh.model.control import Change, Stage
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import DeclaredKafka, Link, Node, Topology
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import TopicSpec
from mesh.wire.control import decode_change
from mesh.wire.keys import change_key
from tests.sim.swarm.oracle import Arrived, Oracle
from tests.sim.swarm.published import Message, Wish

CHANGE = "$change"
"""Stands for a uuid in the cut from which on a source goes by the topology of a number."""
FIRST = 1
"""Number of the topology that a mesh begins with."""

Place = tuple[bytes, int]
"""Topic id and partition of an ingress."""
Cuts = Mapping[Place, Sequence[tuple[int, str, int]]]
"""Ingress partition -> (position, uuid, offset) as the ledger tells them."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All nodes, links and Kafka clusters that there ever are."""

    nodes: Mapping[str, Node]
    kafka: Mapping[str, DeclaredKafka]
    links: Sequence[Link]
    prefix: str = "mesh."

    def home_of(self, node: str, kafka: Mapping[str, Any]) -> Any:
        """Return what there is of the Kafka cluster of a node, as a topology does."""
        return kafka[self.nodes[node].kafka]


@dataclass(slots=True)
class Eras:
    """The oracles of all topologies of a schedule; asked as one of them is.

    Attributes:
        oracles: Of the first topology and of all that operators may put in force.
        numbers: Of those that nodes were told to follow, by number.
        run_ms: Number -> when it was in force everywhere.
        cuts: See `Cuts`.
        rested_ms: What is published from then on finds a mesh at rest.
        newest: The newest word of an operator.
        disabled: Ends of links that ever were: who is behind one is not waited for, and what it
            wanted is kept now and then only.
    """

    oracles: list[Oracle]
    numbers: dict[int, Oracle] = field(default_factory=dict)
    run_ms: dict[int, int] = field(default_factory=dict)
    cuts: Cuts = field(default_factory=dict)
    rested_ms: int | None = None
    newest: Change | None = None
    disabled: dict[tuple[str, str], None] = field(default_factory=dict)
    topology: Everything = field(init=False)
    names: TopicNames = field(default_factory=TopicNames)
    readers: dict[str, list[str]] = field(default_factory=dict)
    outboxes: dict[str, tuple[str, str, MessageClass]] = field(default_factory=dict)
    ingresses: dict[str, tuple[str, MessageClass]] = field(default_factory=dict)
    _crossed: list[tuple[Message, tuple[str, ...], Arrived | None]] = field(default_factory=list)
    _by_text: dict[str, Oracle] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take together what the topologies have."""
        self.numbers[FIRST] = self.oracles[0]
        self.topology = Everything({}, {}, [])
        oracles, self.oracles = self.oracles, []
        self.widen(oracles)

    def widen(self, oracles: Sequence[Oracle]) -> None:
        """Take more topologies in that operators may put in force."""
        nodes, kafka = dict(self.topology.nodes), dict(self.topology.kafka)
        links = dict.fromkeys(self.topology.links)
        for one in oracles:
            nodes |= one.topology.nodes
            kafka |= one.topology.kafka
            links |= dict.fromkeys(one.topology.links)
            self.outboxes |= one.outboxes
            self.ingresses |= one.ingresses
            for topic, readers in one.readers.items():
                known = self.readers.setdefault(topic, [])
                known += [node for node in readers if node not in known]
            self._by_text[published_text(one.topology)] = one
        self.oracles += oracles
        self.topology = Everything(nodes, kafka, list(links))
        self.readers[self.names.config()] = list(nodes)

    @property
    def specs(self) -> Mapping[str, list[TopicSpec]]:
        """The topics that are there from the start: of all others nodes take care."""
        return self.oracles[0].specs

    @property
    def number(self) -> int:
        """Of the topology that is in force everywhere."""
        return max(self.run_ms, default=FIRST)

    @property
    def last(self) -> Oracle:
        """What is in force everywhere."""
        return self.numbers[self.number]

    # -- following ---------------------------------------------------------------------------

    def follow(self, record: MemoryRecord) -> None:
        """Take note of what an operator says."""
        value = record.value()
        if record.key() != change_key() or value is None:
            return
        change = decode_change(value)
        self.newest = Change.newest([self.newest, change])
        if change.stage in (Stage.SWITCH, Stage.RUN):
            self.numbers.setdefault(change.number, self._by_text[change.topology])
        if change.stage is Stage.RUN:
            self.run_ms.setdefault(change.number, record.timestamp()[1])

    def crossed(self, message: Message, path: tuple[str, ...], told: Arrived | None) -> None:
        """Take note of the way that a message has come, to be judged when its cut is known."""
        if len(path) > 1:
            self._crossed.append((message, path, told))

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield ways that the topology of a message, and the one after it, do not have."""
        crossed, self._crossed = self._crossed, []
        for message, path, told in crossed:
            ways = [one.ways[path] for one in self._since(message) if path in one.ways]
            if not ways or (told is not None and told not in ways):
                told_of = f"{message} came by {'>'.join(path)}, {told}"
                yield "way of another topology", f"{told_of}; era {self.era(message)}"

    @property
    def open_target(self) -> Topology | None:
        """What a change that was begun leads to; None if none is under way."""
        change = self.newest
        if change is None or change.stage not in (Stage.HOLD, Stage.SWITCH):
            return None
        return self._by_text[change.topology].topology

    # -- eras ----------------------------------------------------------------------------------

    def era(self, message: Message) -> int:
        """Return the number of the topology that a message was routed by at its source.

        Of direct sources no cut is told: of them it is the first.
        """
        numbers = [
            offset
            for position, about, offset in self.cuts.get(message.identity[:2], ())
            if about == CHANGE and position <= message.identity[2]
        ]
        return max(numbers, default=FIRST)

    def _since(self, message: Message) -> list[Oracle]:
        """Return what may say where a message goes: walks that begin may begin on its way.

        Those are of the next topology: links that came later carry nothing that is so old. K10.
        """
        era = self.era(message)
        since = sorted(number for number in self.numbers if number >= era)
        last = None if message.of is MessageClass.DIRECT else 2
        return [self.numbers[number] for number in since[:last]]

    def leads(self, message: Message, node: str) -> bool:
        """Return whether a message gets to another node if that wants it."""
        if message.of is MessageClass.DIRECT:
            return all(one.leads(message, node) for one in self.numbers.values())
        return self.numbers[self.era(message)].leads(message, node)

    def is_owed(self, message: Message, wish: Wish) -> bool:
        """Return whether a message that can get to a wish must: its source knew of it. Spec: K25.

        What was known of a node holds as long as there is a way to it: sources whose walks move
        read on when it is known over the new ones.
        """
        if self.rested_ms is not None and message.at >= self.rested_ms:
            return True
        if message.of is MessageClass.DIRECT and len(self.numbers) > 1:
            return False
        way = self.numbers[self.era(message)].way_to.get((message.node, wish.node))
        if way is not None and any(pair in self.disabled for pair in itertools.pairwise(way.nodes)):
            return False
        first = FIRST if message.node == wish.node else self._first(message, wish.node)
        settled_ms = wish.settled_ms
        if first != FIRST and (settled_ms or 0) <= self.run_ms.get(first, 1 << 60):
            settled_ms = None
        is_settled = settled_ms is not None and message.at > settled_ms
        if is_settled:
            return True
        known = [
            offset
            for position, about, offset in self._known_since(message.identity[:2], first)
            if about == f"u-{wish.node}" and position <= message.identity[2]
        ]
        return bool(known) and known[-1] >= wish.offset

    def _first(self, message: Message, node: str) -> int:
        """Return since which topology there has always been a way to a node."""
        first = era = self.era(message)
        for number in sorted(self.numbers, reverse=True):
            if number < era:
                if (message.node, node) not in self.numbers[number].way_to:
                    break
                first = number
        return first

    def _known_since(self, place: Place, number: int) -> Sequence[tuple[int, str, int]]:
        """Return the cuts of a source since it goes by a topology, in order."""
        cuts = self.cuts.get(place, ())
        if number == FIRST:
            return cuts
        begins = (index for index, cut in enumerate(cuts) if cut[1] == CHANGE and cut[2] >= number)
        return cuts[next(begins) :]

    # -- what is asked of an oracle --------------------------------------------------------------

    def arrivals(self, path: tuple[str, ...]) -> Sequence[Arrived]:
        """Return what may be said of a message that came by a path; nothing if none may."""
        return [one.ways[path] for one in self.numbers.values() if path in one.ways]

    def may_carry(self, message: Message, sender: str, reader: str, wanting: Iterable[str]) -> bool:
        """Return whether a message may be on a link, given who subscribed to it.

        What is behind a link that was removed is forgotten a little later, one node after the
        other: until then a link may carry what was wanted of its reader by any topology. Once the
        mesh is at rest nothing is left of that. Filters of joins are those of its time; their
        sources want what passes them as subscribers do.
        """
        wanting, since = list(wanting), self._since(message)
        is_at_rest = self.rested_ms is not None and message.at >= self.rested_ms
        known = [self.last] if is_at_rest else self.numbers.values()
        if any(
            one.may_carry(message, sender, reader, wanting)
            for one in known
            if (sender, reader) not in one.joins or one in since
        ):
            return True
        if is_at_rest or len(self.numbers) == 1:
            return False
        if any((sender, reader) in one.joins for one in known):
            return False
        wanting += [node for one in known for node in one.joined(message.subject)]
        return any(
            node == reader or (reader, node) in one.way_to for node in wanting for one in known
        )

    def interest(self, wishes: Mapping[str, Sequence[str]], node: str) -> set[tuple[str, str]]:
        """Return the (filter, neighbour) pairs that a node must hold; "" for its own."""
        if node not in self.last.topology.nodes:
            return {(filter_, "") for filter_ in wishes.get(node, ())}
        return self.last.interest(wishes, node)
