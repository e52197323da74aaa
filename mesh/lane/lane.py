"""One lane: batches of records in, one transaction out.

A lane routes by what the node machine has put in force, keeps the chain, and accounts for
every message. It is handed records and decides what is to be written: who owns it writes that, and
tells it when it is committed. Spec: K2, K3, K11, K12, K17, K18.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.holds import ChainKey
from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.lane.accounts import Accounts
from mesh.lane.batch import Batch, Reading
from mesh.lane.broken_chains import BrokenChains
from mesh.lane.following import Following
from mesh.lane.link_ages import LinkAges
from mesh.lane.log import Log
from mesh.lane.memos import Memos
from mesh.lane.progress import Progress
from mesh.lane.reservations import Reservations
from mesh.lane.sources import Source, SourceTopic
from mesh.lane.traces import Traces
from mesh.lane.unwritable import ALL_WRITABLE, Unwritable
from mesh.model.facts import Fact, Sent, SourceAt
from mesh.model.frames import FrameFlags, MessageClass
from mesh.model.interest_inputs import VersionByInput
from mesh.model.state import Ledger
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.wire.state import encode_fact

HOLDS_MAX = 1_000_000
"""Holds that a lane begins in one epoch. Each has a number of its own, by which the words of a
catch-up count for that hold alone."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A batch whose transaction is being committed.

    Attributes:
        batch: The batch.
        account: What the ledger says of it.
        began_ms: When the commit was begun.
        begins: Where it began to read each of its sources.
        in_force: What the lane routes by once it is committed.
    """

    batch: Batch
    account: Ledger
    began_ms: int
    begins: Mapping[TopicPartition, int]
    in_force: VersionByInput


@dataclass(slots=True)
class Lane:
    """What one lane is and holds while this worker owns it.

    Attributes:
        topology: The mesh.
        node: Name of the node served.
        number: The lane.
        learner: What the worker knows of interest.
        progress: How far it has got.
        sources: What it reads.
        batch: What it has decided since it closed the last batch, or None.
        closing: The one that is being committed, or None.
        direct: What it may hand on of direct sources, and what it has. Spec: K18.
        taken_ms: When its former owner was fenced.
        broken: What it remembers of broken chains.
        accounts: What all lanes of this worker have committed.
        log: What they have to say to people.
        flags: Of the frames it writes: a repair says so. Spec: K20.
        catch_up_router: Of a catch-up: it routes by this, to one target, not by all that is known.
        written: Bytes of guaranteed frames written per outbox partition, for limits.
        paused: Filters of subjects of which nothing is to be taken from clients.
        following: How far it has followed what it routes by, and what it waits for.
        unwritable: Where nothing may be written now.
        holds_begun: How many holds of targets it has begun since it was taken.
        traces: Told of each batch that was committed; None if nobody follows traces.
        ages: Which links a change made, as of the last time that `open` was called.
        memos: What it remembers while the routing stays the same.
    """

    topology: Topology
    node: str
    number: int
    learner: Learner
    progress: Progress
    sources: dict[TopicPartition, Source] = field(default_factory=dict)
    batch: Batch | None = None
    closing: Closing | None = None
    direct: Reservations = field(init=False)
    taken_ms: int = 0
    broken: BrokenChains = field(default_factory=BrokenChains)
    ages: LinkAges = field(default_factory=LinkAges)
    accounts: Accounts = field(default_factory=Accounts)
    log: Log = field(default_factory=Log)
    flags: FrameFlags = FrameFlags.NONE
    catch_up_router: Router | None = None
    written: defaultdict[TopicPartition, int] = field(default_factory=lambda: defaultdict(int))
    paused: frozenset[str] = frozenset()
    following: Following = field(init=False)
    unwritable: Unwritable = ALL_WRITABLE
    holds_begun: int = 0
    traces: Traces | None = None
    memos: Memos = field(default_factory=Memos)
    names: TopicNames = field(init=False)
    partitions: int = field(init=False)
    _new_holds: dict[str, int] = field(default_factory=dict)
    _reserves: bool = True

    def __post_init__(self) -> None:
        """Look up what stays the same for the lane's life."""
        self.names = TopicNames(self.topology.prefix)
        self.partitions = self.topology.nodes[self.node].partitions
        self.ages.follow(self.learner.lineage, self.names, self.node)
        progress = self.progress
        self.direct = Reservations(dict(progress.reserved), dict(progress.unwritten))
        ingress = self.places(self.names.ingress(self.node, MessageClass.GUARANTEED))
        self.following = Following(progress.in_force, self.taken_ms, progress.topology_of(ingress))

    @property
    def router(self) -> Router:
        """The routing in force."""
        return self.catch_up_router or self.learner.router

    @property
    def lanes(self) -> int:
        """How many lanes its node has."""
        return self.topology.nodes[self.node].lanes

    def has(self, partition: int) -> bool:
        """Return whether it is the one among its node's lanes that a partition belongs to."""
        return partition % self.lanes == self.number

    def places(self, topic: str) -> Sequence[TopicPartition]:
        """Return the partitions of a topic of its node that are its own."""
        return [TopicPartition(topic, n) for n in range(self.number, self.partitions, self.lanes)]

    def open(self, now_ms: int, *, is_awaited: bool = False) -> Batch:
        """Return the open batch; begin one if there is none.

        Args:
            now_ms: The present moment.
            is_awaited: Whether something waits for its commit.
        """
        if self.ages.lineage is not self.learner.lineage:
            self.ages.follow(self.learner.lineage, self.names, self.node)
        if self.batch is None:
            self.batch = Batch(self.node, self.number, self.progress.epoch, self.names, now_ms)
        if is_awaited:
            self.batch.is_awaited = True
        return self.batch

    def note(self, batch: Batch, fact: Fact) -> None:
        """Have a fact hold from now on, and record it in the next commit."""
        self.progress.apply(fact)
        batch.note(fact)

    def close(self, batch: Batch, now_ms: int) -> None:
        """Decide what the open batch is to write at its end; it is to be committed now.

        Until that has an outcome the lane may open another, and none of it is written: if nothing
        was committed both are thrown away with the lane.

        Args:
            batch: The one that is open.
            now_ms: The present moment.
        """
        progress, self.batch = self.progress, None
        begins = {
            at: progress.next.get(at, reading.first) for at, reading in batch.readings.items()
        } | batch.begins
        for at, reading in batch.readings.items():
            ahead = reading.ahead if self._is_direct(at) and self._reserves else 0
            left_in = progress.unlinked.get(at)
            reached = SourceAt(
                at,
                reading.topic_id,
                reading.next,
                ahead=ahead,
                generation=reading.generation,
                is_unlinked=left_in is not None,
                kafka="" if left_in is None else left_in.kafka,
                leader_epoch=reading.leader_epoch,
                behind=self.direct.unwritten.below(at, reading.next, batch.unwritten),
                cluster_id="" if left_in is None else left_in.cluster_id,
            )
            self.note(batch, reached)
        account = batch.finish(self.number, self.ages.numbers)
        self.closing = Closing(batch, account, now_ms, begins, progress.in_force)

    def committed(self, closing: Closing) -> None:
        """Record that what was closed is committed: direct copies in it may go."""
        self.closing = None
        batch, progress = closing.batch, self.progress
        self.accounts.add(closing.account, batch.needless)
        if self.traces is not None:
            open_ms = closing.began_ms - batch.opened_ms
            self.traces.committed(self.number, open_ms, closing.account, batch.parents)
        self.direct.committed(batch, closing.began_ms, progress.reserved, progress.next)

    def committed_position(self, at: TopicPartition) -> int:
        """Return up to which offset a source was read for certain: a successor begins there."""
        position = self.progress.next.get(at, 0)
        if self.batch is not None:
            position = self.batch.begins.get(at, position)
        return position if self.closing is None else self.closing.begins.get(at, position)

    def _is_direct(self, at: TopicPartition) -> bool:
        source = self.sources.get(at)
        return source is not None and source.message_class is MessageClass.DIRECT

    # -- what is written beside it --------------------------------------------------------

    def hear_catch_ups(self, facts: Iterable[Fact]) -> None:
        """Learn how far targets that are held were written by catch-ups. Spec: K20."""
        for fact in facts:
            self.progress.apply_catch_up(fact)

    def hear_movers(self, sent: Mapping[ChainKey, int]) -> None:
        """Go on behind what movers of queues have sent: they record it themselves."""
        self.progress.sent_by_movers(sent)

    def count_written(self, at: TopicPartition, size: int) -> None:
        """Count bytes that are written in the transaction: where they go may have a limit."""
        self.written[at] += size

    def write_nothing_to(self, unwritable: Unwritable) -> None:
        """Write nothing from now on where nothing can be written. Spec: K20."""
        self.unwritable = unwritable

    # -- direct copies ----------------------------------------------------------------------

    def reserve_no_more(self) -> None:
        """Reserve nothing from now on: the next commit is the last here. Spec: K18."""
        self._reserves = False

    # -- what it reads --------------------------------------------------------------------

    def assign(self, at: TopicPartition, topic: SourceTopic, topic_id: bytes) -> Source:
        """Read a partition of a topic from now on."""
        self.progress.found(at, topic_id)
        generation = self.generation(at)
        source = Source(at, topic_id, topic.message_class, topic.link, generation)
        self.sources[at] = source
        return source

    def start_over(self, at: TopicPartition) -> None:
        """Know no position of a source any more: its topic is another one."""
        self.progress.reset(at)
        self.direct.forget(at)

    def leave(self, *places: TopicPartition) -> None:
        """Read these no further."""
        for at in places:
            del self.sources[at]

    def follow_topology(self, topology: Topology) -> None:
        """Go by another topology from the open batch on. Spec: K28."""
        self.topology = topology

    def relink(self, at: TopicPartition, link: LocalLink | None) -> None:
        """Record that a source comes over another link."""
        self.sources[at] = replace(self.sources[at], link=link)

    def position(self, at: TopicPartition) -> int:
        """Return the next offset of a source to be routed; the beginning if none was ever."""
        reading = self._reading(at)
        return reading.next if reading is not None else self.progress.next.get(at, BEGINNING)

    def generation(self, at: TopicPartition) -> int:
        """Return of which generation the next offset of a source is. Spec: K9."""
        reading = self._reading(at)
        if reading is not None:
            return reading.generation
        return self.progress.generations.get(at, 0)

    def leader_epoch(self, at: TopicPartition) -> int | None:
        """Return the newest leader epoch by which a source was read; None if that is not known.

        Whatever a later leader has written before the position is not what was read there. R6.
        """
        if (reading := self._reading(at)) is not None:
            return reading.leader_epoch if reading.leader_epoch >= 0 else None
        return self.progress.leader_epochs.get(at)

    def _reading(self, at: TopicPartition) -> Reading | None:
        return self.batch.readings.get(at) if self.batch is not None else None

    # -- what copies share ------------------------------------------------------------------

    @property
    def is_catch_up(self) -> bool:
        """Whether it is a catch-up: it reads again, for one target, what a lane has read. K20."""
        return self.catch_up_router is not None

    def sent(self, key: ChainKey, last: int, since: int) -> Sent:
        """Return the fact that a source was sent so far over the link that there is now."""
        return Sent(*key, last, since, self.ages.numbers.get(key[0].topic, 0))

    def encoded(self, fact: Fact) -> bytes:
        """Return the bytes of a fact, with the number of the link that it speaks of. Spec: K12."""
        return encode_fact(fact, self.ages.numbers.get(fact.at.topic, 0))

    def is_guaranteed(self, endpoint: str) -> bool:
        """Return whether an endpoint's topic is written in transactions. Spec: DESIGN 6."""
        return self.learner.classes[endpoint] is MessageClass.GUARANTEED

    def pause(self, filters: frozenset[str]) -> None:
        """Take nothing of exactly these subjects: none of them is remembered as known."""
        self.paused = filters
        self.memos.forget_subjects()

    def outbox(self, link: LocalLink, source: Source) -> TopicPartition:
        """Return where copies of a source's messages leave on a link. Spec: K3."""
        outbox = source.outboxes.get(link.neighbour)
        if outbox is None:
            topic = self.names.outbox(self.node, link.neighbour, source.message_class)
            outbox = TopicPartition(topic, source.at.partition % self.partitions)
            source.outboxes[link.neighbour] = outbox
        return outbox

    def is_held(self, link: LocalLink, source: Source) -> bool:
        """Return whether a link's outbox is held: it is written beside. Spec: K20."""
        return self.holds_any and self.holds_target(self.outbox(link, source).topic)

    def holds_target(self, target: str) -> bool:
        """Return whether a target's topic is held: it is written beside. Spec: K20."""
        return target in self.progress.holds or target in self._new_holds

    @property
    def holds_any(self) -> bool:
        """Whether any target is."""
        return bool(self.progress.holds) or bool(self._new_holds)

    @property
    def held_targets(self) -> list[str]:
        """The topics of the targets that are held."""
        return [*self.progress.holds, *self._new_holds]

    def begin_hold(self, target: str) -> None:
        """Leave a target out: what is recorded of it first has the number of this hold."""
        self.holds_begun += 1
        self._new_holds[target] = self.progress.epoch * HOLDS_MAX + self.holds_begun

    def end_beginning(self, target: str) -> int:
        """Return the number of a hold of which nothing was recorded yet, once; 0 for none."""
        return self._new_holds.pop(target, 0)

    def link(self, neighbour: str) -> LocalLink:
        """Return the link to a neighbour."""
        return self.learner.neighbours[neighbour].link
