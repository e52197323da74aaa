"""Which topology counts for which message: a mesh changes while it is audited.

Every source partition goes through the same topologies, each from a position of its own on: that
of the cut with which its lane began to route by it. Spec: K25, K28, K31.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from math import inf

from mesh.config.published import published_text, published_topology
from mesh.errors import ConfigError
from mesh.model.control import Change, Stage
from mesh.model.findings import FindingKind
from mesh.model.state import Cut
from mesh.model.topology import Topology
from streaming.audits.finding_register import Finding
from streaming.audits.link_reach import LinkReach
from streaming.audits.paths import LinkPlan, may_be_way
from streaming.audits.pending import Pending
from streaming.audits.queues import QueueRules
from streaming.audits.ways import NOTHING_BETWEEN, Between, Ways
from streaming.tables.rows import DeliveryRow, FrameRow, TopicPartition
from streaming.tables.topics import INGRESS, place_of

OF_THE_FILE = -1
"""Number of the topology that the auditor was given, until `mesh.config` tells its own."""

FORGOTTEN = -2
"""Stands for the number of a topology that `mesh.config` does not tell any more: messages that
were routed by it may have come from everywhere."""

UNKNOWN = Between(is_sure=False)
"""Stands between two nodes by such a topology: what had to come it does not tell."""

IN_FORCE = (Stage.SWITCH, Stage.RUN)

SETTLE_S = 10.0
"""How long after the end of a change walks of the former topology may still come to light."""


TOPOLOGIES_KEPT = 1_024
"""Topologies that are kept as they were taken apart: all that there ever were are looked through
with every batch."""

REMEMBERED_S = 60.0
"""How long deliveries may be read after the frames of the same messages."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets of a source partition from which a reader can be reached all the time.

    Attributes:
        first: The first of them.
        last: The last, or None without end.
        between: What stands between it and the reader.
        era: Number of the topology with which it begins; nothing was in force before the first.
    """

    first: int = 0
    last: int | None = None
    between: Between = NOTHING_BETWEEN
    era: int = OF_THE_FILE


@dataclass(slots=True)
class Eras:
    """All topologies that were in force, and from where on.

    Attributes:
        prefix: Start of every topic name.
        texts: Number -> topology as it is published.
        begins: Per source partition: numbers and positions from which on it was routed by them.
        sources: Ids of the topics whose positions these are.
        stage: Stage of the newest change that is in force.
        settled: Walks of topologies below this number have come to an end.
        run_at_s: When it was read that the newest one is in force everywhere; None: long ago.
        seen: Number -> when frames came the last time that go by this topology.
        told: Highest number that `mesh.config` has told, whether its topology can be read or not.
        untold: Source partitions that go by a higher one, each with the ledger record that says so.
    """

    prefix: str
    texts: dict[int, str] = field(default_factory=dict)
    begins: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    sources: dict[TopicPartition, str] = field(default_factory=dict)
    stage: str = Stage.RUN.value
    settled: int = OF_THE_FILE
    run_at_s: float | None = None
    seen: dict[int, float] = field(default_factory=dict)
    told: int = OF_THE_FILE
    untold: Pending[TopicPartition, str] = field(default_factory=Pending)

    @classmethod
    def of(cls, topology: Topology) -> Eras:
        """Return the eras of a mesh that was given by its file."""
        return cls(topology.prefix, {OF_THE_FILE: published_text(topology)})

    # -- what is told -----------------------------------------------------------------------

    def configured(self, number: int, text: str, now_s: float) -> bool:
        """Apply the record of the topology in force; return whether it is new."""
        return self._put(number, text, Stage.RUN, now_s)

    def changed(self, change: Change, now_s: float) -> bool:
        """Apply a stage of a topology change; return whether it is new. Spec: K28."""
        if change.stage not in IN_FORCE:
            return False
        return self._put(change.number, change.topology, change.stage, now_s)

    def _put(self, number: int, text: str, stage: Stage, now_s: float) -> bool:
        self.told = max(self.told, number)
        is_newest = number >= self.number
        is_further = is_newest and (number > self.number or stage is Stage.RUN)
        is_news = self.texts.get(number) != text or (is_further and stage.value != self.stage)
        if number < 0 or not is_news or not is_readable(text, self.prefix):
            return False
        if is_newest:
            self.stage = stage.value
            self.run_at_s = now_s if stage is Stage.RUN else None
        self.texts[number] = text
        if self.texts.get(OF_THE_FILE) == text:
            del self.texts[OF_THE_FILE]
        return True

    def cut(
        self, cut: Cut, record: str = "", now_s: float = 0.0, *, is_again: bool = False
    ) -> bool:
        """Take the cut of a topology; say whether it is news.

        Args:
            cut: The cut.
            record: Where it stands.
            now_s: The auditor's clock.
            is_again: Whether offsets of its source have come again: then a lane may go back, and
                all that comes since goes by the topology that it follows. Spec: K9.
        """
        place, topic_id = TopicPartition(cut.topic, cut.partition), cut.topic_id.hex()
        known = self.begins.setdefault(place, [])
        if self.sources.get(place, topic_id) != topic_id:
            known.clear()  # of a former topic of this name
        self.sources[place] = topic_id
        is_back = is_again and bool(known) and cut.position < known[-1][1]
        if is_back:
            known[:] = [(number, min(first, cut.position)) for number, first in known]
        if known and known[-1][0] >= cut.clients_offset:
            return is_back
        known.append((cut.clients_offset, cut.position))
        if cut.clients_offset > self.told:
            self.untold.hold(place, record, now_s)
        return True

    def invented(self, read_s: float) -> Iterator[tuple[TopicPartition, Finding]]:
        """Yield sources that go by a topology which nobody has put in force; it counts no more.

        A change is told before any lane follows it. Spec: K28.

        Args:
            read_s: All that was written before this moment has been read, in every Kafka cluster.
        """
        for place, (since_s, record) in list(self.untold.items()):
            if since_s >= read_s:
                continue
            del self.untold[place]
            known = self.begins.get(place, [])
            invented = [one for one in known if one[0] > self.told]
            if not invented:
                continue
            known[:] = [one for one in known if one[0] <= self.told]
            number, first = invented[0]
            yield (
                place,
                Finding(
                    kind=FindingKind.UNEXPECTED,
                    text=f"{place} goes by topology {number} from offset {first} on, as a ledger "
                    "says, and mesh.config tells of none like that: it counts for nothing",
                    source=str(place),
                    first=first,
                    anchor="topology",
                    node=place_of(self.prefix, place.topic).node,
                    evidence=(record,),
                ),
            )

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        if self.run_at_s is not None:
            self.run_at_s += ahead_s
        self.seen = {era: at_s + ahead_s for era, at_s in self.seen.items()}
        self.untold.go_ahead(ahead_s)

    def settle(self, now_s: float, *, is_lagging: bool) -> None:
        """End the walks of former topologies once nothing of them can come any more.

        By then everything that was written before the change ended has been read: sources held
        until all that was on its way had come to the end of its walk.
        """
        if self.run_at_s is None or self.stage != Stage.RUN.value or is_lagging:
            return
        if now_s < self.run_at_s:
            self.run_at_s = now_s  # another process, another clock
        elif now_s - self.run_at_s >= SETTLE_S:
            self.settled, self.run_at_s = self.number, None

    # -- what follows from it -------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Return the number of the newest topology."""
        return max(self.texts, default=OF_THE_FILE)

    @property
    def plans(self) -> Sequence[LinkPlan]:
        """Return the links that walks may go over just now, newest first.

        Those of a former topology count until its walks have come to an end, and while frames
        come that say that they go by it.
        """
        return [_known(self.texts[number]).plan for number in self._walked()]

    def _walked(self) -> Sequence[int]:
        numbers = sorted(self.texts, reverse=True)
        return [number for number in numbers if number >= self.settled or number in self.seen]

    @property
    def link_reaches(self) -> Sequence[LinkReach]:
        """The nodes behind each link, by the topologies whose `plans` count now, newest first."""
        return [_link_reach(self.texts[number]) for number in self._walked()]

    def link_reaches_of(self, era: int | None) -> Sequence[LinkReach]:
        """Return the same for frames that name the topology `era`, or none (None)."""
        numbers = [*self._walked(), *([] if era is None or era not in self.texts else [era])]
        return [_link_reach(self.texts[number]) for number in dict.fromkeys(numbers)]

    def plans_of(self, era: int | None) -> Sequence[LinkPlan]:
        """Return the links that a frame may go over that says by which topology it goes.

        Those of the next one count, too: nodes take it one by one, and a link carries what was
        taken by the topology before it was made. Spec: K10.
        """
        if era is None or era not in self.texts:
            return self.plans
        return [_known(self.texts[number]).plan for number in self._with_next([era])]

    def routed_by(self, place: TopicPartition | None, row: DeliveryRow) -> tuple[int, ...]:
        """Return the topologies whose walks deliveries may have come by, newest first.

        Those whose walks count just now, those by which their messages were routed, as the ledger
        of their origin tells, and the ones after these: a node that was down takes what has waited
        for it long after a change.
        """
        if len(self.texts) == 1:
            return tuple(self.texts)
        numbers = dict.fromkeys(self._walked())
        if place is not None and self.sources.get(place) == row.source.topic_id:
            eras = list(self._eras(place))
            routed = [
                number
                for (first, number), (end, _) in zip(eras, [*eras[1:], (inf, 0)], strict=True)
                if first <= row.last and row.first < end
            ]
            numbers |= dict.fromkeys(self._with_next(routed))
        return tuple(sorted((one for one in numbers if one in self.texts), reverse=True))

    def plans_by(self, numbers: Iterable[int]) -> Sequence[LinkPlan]:
        """Return the links of topologies."""
        return [_known(self.texts[number]).plan for number in numbers]

    def _with_next(self, numbers: Sequence[int]) -> Sequence[int]:
        known = sorted(self.texts)
        following = [next((one for one in known if one > number), number) for number in numbers]
        return list(dict.fromkeys([*following, *numbers]))

    def era_of(self, place: TopicPartition | None, frame: FrameRow) -> int | None:
        """Return the number of the topology that frames go by: what they say, if that can be.

        They cannot go by an older one than that by which their first message was routed, as the
        ledger of the origin says.

        Args:
            place: The origin's ingress partition, if it is known.
            frame: The frames.
        """
        is_known = place is not None and self.sources.get(place) == frame.source.topic_id
        begins = self.begins[place] if place is not None and is_known else ()
        routed = [number for number, first in begins if first <= frame.first]
        return frame.era if frame.era is None else max(frame.era, *routed, OF_THE_FILE)

    def see(self, eras: Iterable[int | None], now_s: float) -> None:
        """Note by which topologies frames go that were read just now."""
        for era in eras:
            if era is not None and era in self.texts:
                self.seen[era] = now_s
        self.seen = {
            era: at_s for era, at_s in self.seen.items() if 0 <= now_s - at_s < REMEMBERED_S
        }

    def linked(self) -> Sequence[Topology]:
        """Return the topology in force; while nodes take it one by one, the former one too."""
        numbers = sorted(self.texts)[-1 if self.stage == Stage.RUN.value else -2 :]
        return [_known(self.texts[number]).topology for number in numbers]

    def is_read(self, source: TopicPartition) -> bool:
        """Return whether a source partition is read, by a topology that is in force.

        An outbox is, as long as its link is there, and an ingress, as long as its node is.
        """
        place = place_of(self.prefix, source.topic)
        known = [_known(self.texts[number]) for number in sorted(self.texts)[-2:]]
        if place.kind == INGRESS:
            return any(place.node in one.topology.nodes for one in known)
        return any((place.node, place.other) in one.plan.crossings for one in known)

    def is_left(self, outbox: TopicPartition, node: str) -> bool:
        """Return whether the link of an outbox was removed, so that nobody reads on there.

        Of a link that no topology ever had nobody can tell, and those of a former topology count
        until its walks have come to an end. What a node had not read when it was given up is not
        told as missing at its own endpoints: it waits for the node to come back.

        Args:
            outbox: A partition of it.
            node: Whose endpoints lack something.
        """
        place = place_of(self.prefix, outbox.topic)
        pair, present = (place.node, place.other), self._present()
        if place.other == node and not any(node in one.topology.nodes for one in present):
            return False
        if any(pair in one.plan.crossings for one in present):
            return False
        return any(pair in _known(text).plan.crossings for text in self.texts.values())

    def leads(self, trail: tuple[str, ...], here: str, node: str) -> bool:
        """Return whether a message at a node can come to another, and not back over its trail.

        While nodes take a topology one by one it may go on by the rules of either.
        """
        texts = tuple(self.texts[number] for number in sorted(self.texts)[-2:])
        return _leads(texts, (*trail, here), node)

    def _present(self) -> Sequence[_Known]:
        """Return the topologies that count: those in force, and while walks end, former ones."""
        in_force = sorted(self.texts)[-1 if self.stage == Stage.RUN.value else -2 :]
        numbers = dict.fromkeys([*in_force, *self._walked()])
        return [_known(self.texts[number]) for number in numbers]

    def kafkas(self) -> Mapping[str, None]:
        """Return the Kafka clusters that count: those of nodes now, and while walks end, before."""
        present = [one.topology for one in self._present()]
        return {node.kafka: None for one in present for node in one.nodes.values()}

    def lanes_of(self, node: str) -> int | None:
        """Return how many lanes a node has; None if no topology knows it."""
        known = [_known(self.texts[number]).topology for number in sorted(self.texts)]
        return next((one.nodes[node].lanes for one in reversed(known) if node in one.nodes), None)

    def known(self) -> Sequence[Topology]:
        """Return all topologies that are known."""
        return [_known(text).topology for text in self.texts.values()]

    def homes(self) -> Mapping[str, str]:
        """Return node -> Kafka cluster, of all nodes that there ever were."""
        return {
            name: node.kafka
            for _, text in sorted(self.texts.items())
            for name, node in _known(text).topology.nodes.items()
        }

    def numbers_of(self, place: TopicPartition) -> Sequence[int]:
        """Return the numbers of the topologies that a source partition was routed by, rising."""
        return [OF_THE_FILE, *(number for number, _ in self.begins.get(place, ()))]

    def unjudged(self, fault: Finding) -> Finding | None:
        """Return what is told instead of a fault of a way that nobody can judge, as news.

        What was routed before the first topology that `mesh.config` still tells went by one that
        is forgotten. Of frames the first message counts, as in `era_of`. What no topology could
        plan stays a fault.
        """
        numbers = sorted(self.texts)
        if fault.kind is not FindingKind.UNPLANNED_PATH or numbers[:1] in ([], [OF_THE_FILE]):
            return None
        place = next((one for one in self.begins if str(one) == fault.source), None)
        routed = fault.last if fault.endpoint else fault.first
        if place is None or (routed or 0) >= self._forgotten_below(place, numbers[0]):
            return None
        if not may_be_way(self.prefix, fault):
            return None
        where = f"{fault.endpoint} got" if fault.endpoint else f"{fault.link} carried"
        text = f"{where} messages of {fault.source} by a topology that is forgotten:"
        return Finding(
            kind=FindingKind.UNPROVEN,
            text=f"{text} their way is not judged",
            link=fault.link,
            endpoint=fault.endpoint,
            source=fault.source,
            first=fault.first,
            last=fault.last,
            count=fault.count,
            anchor="way",
            node=fault.node,
        )

    def stretches(
        self, place: TopicPartition, origin: str, reader: str, *, of_neighbours: bool = False
    ) -> Sequence[Stretch]:
        """Return where in a source partition messages can come to a reader, in order.

        Args:
            place: The partition.
            origin: Whose clients wrote it.
            reader: A node.
            of_neighbours: Whether only that counts which nodes linked with the reader send.
        """
        if origin == reader:
            return [Stretch()]  # no change makes lanes forget what their own clients ask for
        found: list[Stretch] = []
        eras = list(self._eras(place))
        for (first, number), (end, _) in zip(eras, [*eras[1:], (None, 0)], strict=True):
            between = self._between(number, origin, reader)
            last = None if end is None else end - 1
            if between is None or (last is not None and last < first):
                continue
            if of_neighbours and not self._are_linked(number, origin, reader):
                continue
            before = found[-1] if found else None
            if before is not None and before.last == first - 1 and before.between == between:
                found[-1] = replace(before, last=last)
            else:
                era = OF_THE_FILE if (first, number) == eras[0] else number
                found.append(Stretch(first, last, between, era))
        return found

    def walks(self, origin: str, reader: str) -> Sequence[Sequence[str]]:
        """Return the nodes on the way from one to another, by each topology in force that has one.

        While nodes take it one by one, that is the former one, too.
        """
        numbers = sorted(self.texts)[-1 if self.stage == Stage.RUN.value else -2 :]
        walks = (_known(self.texts[number]).ways.nodes(origin, reader) for number in numbers)
        return [walk for walk in walks if walk]

    def _eras(self, place: TopicPartition) -> Iterator[tuple[int, int]]:
        """Yield the first offset and the number of each era of a source partition.

        The topology of an era may be unknown: `mesh.config` is read later, or was compacted.
        """
        numbers = sorted(number for number in self.texts if number != OF_THE_FILE)
        oldest = numbers[0] if numbers else OF_THE_FILE
        begins = self.begins.get(place, ())
        known = [(first, number) for number, first in begins if number >= oldest]
        if self._forgotten_below(place, oldest) > 0:
            yield 0, FORGOTTEN
        elif not known or known[0][1] > oldest:
            yield 0, oldest
        yield from known

    def _forgotten_below(self, place: TopicPartition, oldest: int) -> float:
        """Return below which offset a source went by topologies that `mesh.config` tells no more.

        Args:
            place: The source partition.
            oldest: Number of the first topology that it does tell.
        """
        begins = self.begins.get(place, ())
        first = next((first for number, first in begins if number >= oldest), inf)
        is_forgotten = any(number <= oldest for number, _ in begins)
        return first if is_forgotten else 0

    def rules_between(
        self, place: TopicPartition, first: int, last: int | None
    ) -> Sequence[QueueRules | None]:
        """Return what topologies say of queues by which a source was routed; None: forgotten.

        Args:
            place: The source partition.
            first: Number of the first of them, as `numbers_of` tells it.
            last: Of the last one; None: of the newest.
        """
        begin, end = next(self._eras(place))[1], self.number if last is None else last
        known = [one for one in self.numbers_of(place) if first <= one <= min(end, self.number)]
        texts = [self.texts.get(begin if one == OF_THE_FILE else one) for one in known]
        return [None if text is None else _known(text).rules for text in texts]

    def _between(self, number: int, origin: str, reader: str) -> Between | None:
        """Return what filters the messages from a node to another; None: none can arrive."""
        if origin == reader:
            return NOTHING_BETWEEN
        if number not in self.texts:
            return UNKNOWN
        if self._is_too_old(number, origin, reader):
            return NOTHING_BETWEEN
        return _known(self.texts[number]).ways.between(origin, reader)

    def _are_linked(self, number: int, origin: str, reader: str) -> bool:
        """Return whether two nodes are linked otherwise than by a join, as far as that is known."""
        if number not in self.texts or self._is_too_old(number, origin, reader):
            return True
        return origin in _known(self.texts[number]).rules.linked.get(reader, ())

    def _is_too_old(self, number: int, origin: str, reader: str) -> bool:
        """Return whether a topology lacks one of two nodes because it is of a file of long ago."""
        nodes = _known(self.texts[number]).topology.nodes
        return number == OF_THE_FILE and not (origin in nodes and reader in nodes)


@dataclass(frozen=True, slots=True)
class _Known:
    topology: Topology
    plan: LinkPlan
    ways: Ways
    rules: QueueRules


@lru_cache(maxsize=TOPOLOGIES_KEPT)
def _known(text: str) -> _Known:
    topology = published_topology(text)
    return _Known(topology, LinkPlan.of(topology), Ways(topology), QueueRules.of(topology))


@lru_cache(maxsize=TOPOLOGIES_KEPT)
def _link_reach(text: str) -> LinkReach:
    known = _known(text)
    return LinkReach.of(known.topology, known.plan)


@lru_cache(maxsize=4096)
def _leads(texts: tuple[str, ...], path: tuple[str, ...], node: str) -> bool:
    known = [_known(text) for text in texts]
    nodes = {name: None for one in known for name in one.topology.nodes}
    if path[-1] not in nodes or node not in nodes:
        return True
    return reduce(LinkPlan.joined, (one.plan for one in known)).leads(path, node)


def is_readable(text: str, prefix: str) -> bool:
    """Return whether a topology can be read and is of this mesh; nodes report the others."""
    try:
        return _known(text).topology.prefix == prefix
    except ConfigError:
        return False
