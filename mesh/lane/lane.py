"""One lane: batches of records in, one transaction out.

A lane routes by what the node machine has put in force, keeps the chain, and accounts for
every message. It is handed records and decides what is to be written: who owns it writes that, and
tells it when it is committed. Spec: K2, K3, K11, K12, K17, K18.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.holds import ChainKey
from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.lane.accounts import Accounts
from mesh.lane.batch import Batch, Reading
from mesh.lane.broken import BrokenChains
from mesh.lane.link_ages import LinkAges
from mesh.lane.log import Log
from mesh.lane.memos import Memos
from mesh.lane.part_frames import NOT_TAKEN, PartFrames
from mesh.lane.positions import Positions
from mesh.lane.reservations import Reservations
from mesh.lane.sources import Source, SourceTopic
from mesh.lane.traces import Traces
from mesh.lane.unwritable import ALL_WRITABLE, Unwritable
from mesh.model.facts import (
    EraBegan,
    ErasBegun,
    Fact,
    InForce,
    InterestInForce,
    Sent,
    SourceAt,
    Truncation,
    Truncations,
    partly_taken_key,
)
from mesh.model.frames import NONE_OFFSET, Chain, Era, FrameFlags, MessageClass
from mesh.model.reasons import DropReason
from mesh.model.state import Ledger
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.node.relinking import CHANGE, UNCHANGED
from mesh.node.rounds import CLIENTS
from mesh.transport.port import BEGINNING, Row, TopicPartition
from mesh.wire.state import encode_fact


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
    in_force: Mapping[str, tuple[int, int]]


@dataclass(slots=True)
class Lane:
    """What one lane is and holds while this worker owns it.

    Attributes:
        topology: The mesh.
        node: Name of the node served.
        number: The lane.
        learner: What the worker knows of interest.
        positions: Where it stands.
        sources: What it reads.
        batch: What it has decided since it closed the last batch, or None.
        closing: The one that is being committed, or None.
        direct: What it may hand on of direct sources, and what it has. Spec: K18.
        taken_ms: When its former owner was fenced.
        broken: What it remembers of broken chains.
        accounts: What all lanes of this worker have committed.
        log: What they have to say to people.
        flags: Of the frames it writes: a repair says so. Spec: K20.
        narrowed: Routes by this instead of by all that is known: to one target.
        written: Bytes of guaranteed frames written per outbox partition, for limits.
        paused: Filters of subjects of which nothing is to be taken of clients.
        followed: How far it has followed changes of the topology, here or at its former owner.
        followed_before: How far its former owner had.
        awaited: What its former owner knew: it reads nothing before that is known here too.
        unwritable: Where nothing may be written now.
        new_holds: Targets that it leaves out and does not yet keep as such, with the numbers of
            their holds: each is kept with the first source of which something is left out.
        holds_begun: How many it has begun since it was taken.
        traces: Told of each batch that was committed; None if nobody follows traces.
        ages: Which links a change made, as of the last time that `open` was called.
        memos: What it remembers while the routing stays the same.
    """

    topology: Topology
    node: str
    number: int
    learner: Learner
    positions: Positions
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
    narrowed: Router | None = None
    written: dict[TopicPartition, int] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    followed: tuple[int, int] = field(init=False)
    followed_before: tuple[int, int] = field(init=False)
    awaited: Mapping[str, tuple[int, int]] = field(init=False)
    unwritable: Unwritable = ALL_WRITABLE
    new_holds: dict[str, int] = field(default_factory=dict)
    holds_begun: int = 0
    traces: Traces | None = None
    memos: Memos = field(default_factory=Memos)
    names: TopicNames = field(init=False)
    partitions: int = field(init=False)
    _has_cut: bool = False
    _is_ending: bool = False

    def __post_init__(self) -> None:
        """Look up what stays the same for the lane's life."""
        self.names = TopicNames(self.topology.prefix)
        self.partitions = self.topology.nodes[self.node].partitions
        self.ages.follow(self.learner.lineage, self.names, self.node)
        positions = self.positions
        self.direct = Reservations(dict(positions.reserved), dict(positions.unwritten))
        self.awaited = self.positions.in_force
        self.followed = self.followed_before = self.awaited.get(CHANGE, UNCHANGED)

    @property
    def router(self) -> Router:
        """The routing in force."""
        return self.narrowed or self.learner.router

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

    def open(self, now_ms: int) -> Batch:
        """Return the open batch; begin one if there is none."""
        if self.ages.lineage is not self.learner.lineage:
            self.ages.follow(self.learner.lineage, self.names, self.node)
        if self.batch is None:
            self.batch = Batch(self.node, self.number, self.positions.epoch, self.names, now_ms)
        return self.batch

    def close(self, batch: Batch, now_ms: int) -> None:
        """Decide what the open batch is to write at its end; it is to be committed now.

        Until that has an outcome the lane may open another, and none of it is written: if nothing
        was committed both are thrown away with the lane.
        """
        positions, self.batch = self.positions, None
        begins = {
            at: positions.next.get(at, reading.first) for at, reading in batch.readings.items()
        } | batch.begins
        for at, reading in batch.readings.items():
            ahead = reading.ahead if self._is_direct(at) and not self._is_ending else 0
            reached = (at, reading.topic_id, reading.next, ahead, reading.generation)
            is_unlinked, leader_epoch = at in positions.unlinked, reading.leader_epoch
            behind = self.direct.unwritten.below(at, reading.next, batch.unwritten)
            self.note(batch, SourceAt(*reached, is_unlinked, leader_epoch, behind))
        account = batch.finish(self.number, self.ages.numbers)
        self.closing = Closing(batch, account, now_ms, begins, positions.in_force)

    def committed(self, closing: Closing) -> None:
        """Record that what was closed is committed: direct copies in it may go."""
        self.closing = None
        batch, positions = closing.batch, self.positions
        self.accounts.add(closing.account, batch.needless)
        if self.traces is not None:
            open_ms = closing.began_ms - batch.opened_ms
            self.traces.committed(self.number, open_ms, closing.account, batch.parents)
        self.direct.committed(batch, closing.began_ms, positions.reserved, positions.next)

    def committed_position(self, at: TopicPartition) -> int:
        """Return up to which offset a source was read for certain: a successor begins there."""
        position = self.positions.next.get(at, 0)
        if self.batch is not None:
            position = self.batch.begins.get(at, position)
        return position if self.closing is None else self.closing.begins.get(at, position)

    def _is_direct(self, at: TopicPartition) -> bool:
        source = self.sources.get(at)
        return source is not None and source.message_class is MessageClass.DIRECT

    # -- direct copies ----------------------------------------------------------------------

    def about_to_read(self, batch: Batch, source: Source, first: int, last: int) -> None:
        """Decide whether copies of records `first` to `last` may go before the next commit. K18."""
        batch.taking = source.at, first
        if source.message_class is MessageClass.GUARANTEED:
            batch.is_awaited = True
        else:
            self.direct.about_to_read(batch, source.at, last)

    def hand_over(
        self, batch: Batch, source: Source, topic: str, partition: int, rows: Sequence[Row]
    ) -> None:
        """Take direct copies; those of guaranteed messages wait for the commit. Spec: K18."""
        if source.message_class is MessageClass.GUARANTEED:
            batch.have_wait(source.at, topic, partition, rows)
        else:
            self.direct.hand_over(batch, source.at, topic, partition, rows)

    def note(self, batch: Batch, fact: Fact) -> None:
        """Have a fact hold from now on, and the next commit keep it."""
        self.positions.apply(fact)
        batch.note(fact)

    def skip(self, at: TopicPartition, reason: DropReason, to: int, now_ms: int) -> None:
        """Go on at `to` with a direct source if it stands before that; count what is skipped."""
        position = self.position(at)
        if to <= position:
            return
        batch = self.open(now_ms)
        batch.dropped(reason, at, to - position)
        topic_id, generation = self.positions.topic_ids[at], self.generation(at)
        batch.read(at, topic_id, generation, position, to - 1, 0, records=0)
        place = {"topic": at.topic, "partition": at.partition}
        self.log.warning("direct.skipped", **place, reason=reason, first=position, next=to)

    def give_back(self, now_ms: int) -> None:
        """Have the next commit, the lane's last here, reserve nothing: positions become exact.

        Not while another commit is under way: what the lane has reserved is known at its end.
        """
        self._is_ending = True
        for at in dict.fromkeys([*self.direct.sources(), *self.positions.unwritten]):
            self.tell_position(at, self.positions.next[at], now_ms)

    def count_unwritten(self, now_ms: int) -> None:
        """Count what may be lost because a former owner had not written it; once. Spec: K18.

        What that owner had reserved stays so: it may use it still.
        """
        positions = self.positions
        for at, offsets in self.direct.doubtful.items():
            if not offsets or at not in positions.next:
                continue
            self.open(now_ms).dropped(DropReason.UNWRITTEN, at, offsets)
            reached = positions.next[at]
            ahead = max(0, positions.reserved.get(at, reached) - reached)
            self.note(self.open(now_ms), positions.source_at(at, reached, ahead))
        self.direct.doubtful.clear()

    def tell_position(self, at: TopicPartition, reached: int, now_ms: int) -> None:
        """Have the next commit say how far a source was read, and reserve nothing beyond."""
        batch, positions = self.open(now_ms), self.positions
        batch.begins.setdefault(at, positions.next.get(at, reached))
        behind = self.direct.unwritten.below(at, reached, batch.unwritten)
        self.note(batch, positions.source_at(at, reached, behind=behind))

    def go_on_behind(self, handed_on: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Read direct sources from where the copies of its former life ended; tell that.

        What a commit with an unknown outcome has delivered after all does not come again: its
        copies to others are lost, as at a takeover. Spec: K18.

        Args:
            handed_on: How far copies went, where nobody had the lane in between.
            now_ms: The present moment.
        """
        for at, position in handed_on.items():
            committed = self.positions.next.get(at, position)
            self.direct.go_on_behind(at, position, committed)
            if position > committed:
                self.tell_position(at, position, now_ms)  # whoever drains this link waits for it

    # -- what it reads --------------------------------------------------------------------

    def assign(self, at: TopicPartition, topic: SourceTopic, topic_id: bytes) -> Source:
        """Read a partition of a topic from now on."""
        self.positions.found(at, topic_id)
        generation = self.generation(at)
        source = Source(at, topic_id, topic.message_class, topic.link, generation)
        self.sources[at] = source
        return source

    def leave(self, *places: TopicPartition) -> None:
        """Read these no further."""
        for at in places:
            del self.sources[at]

    def relink(self, at: TopicPartition, link: LocalLink | None) -> None:
        """Record that a source comes over another link."""
        self.sources[at] = replace(self.sources[at], link=link)

    def learn(self) -> bool:
        """Return whether all is known here that its former owner knew: then it waits no longer.

        Of a later change of the topology, or of interest without which what comes would not go to
        whom it is owed.
        """
        if self.followed > self.learner.followed or self.learner.is_behind(self.awaited):
            return False
        self.awaited = {}
        return True

    # -- interest -------------------------------------------------------------------------

    def cut(
        self, in_force: Mapping[str, tuple[int, int]], cuts: Mapping[str, int], now_ms: int
    ) -> None:
        """Have the next commit say from which positions on the router's interest holds.

        Own subscriptions are cut on every guaranteed source, those of other nodes only on the
        own ingress, where their obligation starts. Spec: K25.
        """
        batch = self.open(now_ms)
        batch.is_awaited = True
        self.followed = max(self.followed, in_force.get(CHANGE, UNCHANGED))
        told = {one: v for one, v in self.awaited.items() if v > in_force.get(one, UNCHANGED)}
        told |= {} if self.followed == UNCHANGED else {CHANGE: self.followed}
        in_force = {**in_force, **told}
        self.memos.forget_routes()
        self.tell_cuts(self.sources.values(), cuts, now_ms)
        clients = in_force.get(CLIENTS, (0, NONE_OFFSET))[1]
        versions = [InForce(name, *version) for name, version in in_force.items()]
        self.note(batch, InterestInForce(clients, versions))
        self._has_cut = bool(in_force)

    @property
    def is_learning(self) -> bool:
        """Whether it waits for what its former owner knew: nothing is routed before. Spec: K16."""
        return bool(self.awaited)

    @property
    def has_cut(self) -> bool:
        """Whether it has reported since it was taken what is in force."""
        return self._has_cut

    def tell_cuts(self, sources: Iterable[Source], cuts: Mapping[str, int], now_ms: int) -> None:
        """Have the next commit write these cuts of some sources, at their present positions."""
        batch, uuid = self.open(now_ms), self.learner.uuid
        own = {uuid: cuts[uuid]} if uuid in cuts else {}
        for source in sources:
            if source.message_class is MessageClass.GUARANTEED:
                told = cuts if source.link is None else own
                position = max(0, self.position(source.at))
                batch.cut(source.at, source.topic_id, position, told)
                self._begin_era(batch, source.at, position)

    def _begin_era(self, batch: Batch, at: TopicPartition, position: int) -> None:
        """Have the next commit keep by which topology a source is taken from a position on.

        Whoever reads it again stamps the same. Spec: K10.
        """
        era = self.learner.era
        known = self.positions.eras.get(at, ())
        before = tuple(one for one in known if one.first < position)
        begun = before if before and before[-1].era == era else (*before, EraBegan(position, era))
        if begun != known:
            self.note(batch, ErasBegun(at, position, begun))

    def forget_eras(self, at: TopicPartition, start: int, now_ms: int) -> None:
        """Have the next commit forget by which topologies a source was taken that is deleted.

        Nobody reads that again, and a record that only grows could not be written one day.

        Args:
            at: The source.
            start: The first offset that its log still has.
            now_ms: The present moment.
        """
        known, position = self.positions.eras.get(at, ()), max(0, self.position(at))
        ended = sum(one.first <= min(start, position) for one in known) - 1
        if ended > 0:
            self.note(self.open(now_ms), ErasBegun(at, position, known[ended:]))

    def eras(self, source: Source, offset: int, carried: tuple[Era, ...] = ()) -> tuple[Era, ...]:
        """Return the eras of messages taken here: those they came with, and one of this domain.

        Args:
            source: Where they were read.
            offset: Of the first of them there.
            carried: What their frame says.

        Spec: K10.
        """
        domain = self.learner.lineage.domain
        for one in carried:
            if one.domain == domain:
                return carried
        era = self.positions.era_of(source.at, offset) or self.learner.era
        # A node that was given another file since began another domain; a frame has one of each.
        return carried if any(one.domain == era.domain for one in carried) else (*carried, era)

    def position(self, at: TopicPartition) -> int:
        """Return the next offset of a source to be routed; the beginning if none was ever."""
        reading = self._reading(at)
        return reading.next if reading is not None else self.positions.next.get(at, BEGINNING)

    def generation(self, at: TopicPartition) -> int:
        """Return of which generation the next offset of a source is. Spec: K9."""
        reading = self._reading(at)
        if reading is not None:
            return reading.generation
        return self.positions.generations.get(at, 0)

    def _reading(self, at: TopicPartition) -> Reading | None:
        return self.batch.readings.get(at) if self.batch is not None else None

    # -- what copies share ------------------------------------------------------------------

    @property
    def is_second(self) -> bool:
        """Whether it reads again, for one target, what the lane itself has read. Spec: K20."""
        return self.narrowed is not None

    def is_skipped(self, source: Source, offset: int) -> bool:
        """Whether a second reading passes over a frame: nothing of it was taken. Spec: K20."""
        return self.positions.taken_after(source.at, source.topic_id, offset) == NOT_TAKEN

    def note_partly_taken(
        self, batch: Batch, source: Source, offset: int, after: int = NOT_TAKEN
    ) -> None:
        """Have the next commit keep that a frame was not taken whole. Spec: K20.

        Args:
            batch: The open transaction.
            source: The outbox partition.
            offset: Of the frame there.
            after: Messages with origin offsets above this were taken; -1: none.
        """
        is_kept = source.link is not None and source.message_class is MessageClass.GUARANTEED
        if is_kept and not self.is_second:
            frames = self.positions.partly_taken.get(source.at, PartFrames())
            self.note(batch, frames.marked(source.at, source.topic_id, offset, after))

    def forget_marks(self, at: TopicPartition, topic_id: bytes, start: int, now_ms: int) -> None:
        """Have the next commit forget the marks of frames that an outbox has no longer."""
        frames = self.positions.partly_taken.get(at, PartFrames())
        for block in [*frames.forget(topic_id, start)]:
            self.open(now_ms).forget(partly_taken_key(at, block))

    def keep_truncation(self, batch: Batch, source: Source, truncation: Truncation) -> None:
        """Have the next commit keep that a source lost its end, and that this was accepted."""
        before = self.truncations(source)
        self.note(batch, Truncations(source.at, source.topic_id, (*before, truncation)))

    def truncations(self, source: Source) -> Sequence[Truncation]:
        """Return the losses at the end of a source that were accepted, in order."""
        kept = self.positions.truncations.get(source.at)
        return kept.each if kept is not None and kept.topic_id == source.topic_id else ()

    def cut_marks_off(self, batch: Batch, at: TopicPartition, end: int) -> None:
        """Have the next commit forget the marks of frames whose offsets are given out again."""
        for marks in [*self.positions.partly_taken.get(at, PartFrames()).cut_off(at, end)]:
            self.note(batch, marks)

    def next_chain(self, link: LocalLink, source: Source, first: int, last: int) -> Chain:
        """Return the chain of what is sent next, between two positions, on a link. Spec: K11."""
        of = source.identity
        previous = self.positions.sent.get((self.outbox(link, source), of), NONE_OFFSET)
        return Chain(source=of, previous=previous, first=first, last=last)

    def sent_to(self, link: LocalLink, source: Source) -> int:
        """Return the position of what was sent last of a source on a link; -1 for none."""
        return self.positions.sent.get((self.outbox(link, source), source.identity), NONE_OFFSET)

    def send(
        self,
        batch: Batch,
        link: LocalLink,
        source: Source,
        chain: Chain,
        key: bytes,
        value: bytes | None,
        messages: int,
    ) -> None:
        """Write one frame with this chain to a link's outbox."""
        outbox, of = self.outbox(link, source), chain.source
        topic, partition = outbox.topic, outbox.partition
        since = self.positions.since.get((outbox, of), 0)
        # What is dropped here is of the chain too: whoever takes the lane goes on behind it.
        number = self.ages.numbers.get(topic, 0)
        self.note(batch, Sent(outbox, of, chain.last, since, number))
        if source.message_class is MessageClass.GUARANTEED:
            batch.rows[topic, partition].append((value, key, 0, None))
            size = len(key) + len(value or b"")
            self.written[outbox] = self.written.get(outbox, 0) + size
        elif self.unwritable and self.unwritable.has(topic, partition):
            batch.dropped(DropReason.NOT_WRITABLE, source.at, messages)
            return
        else:
            self.hand_over(batch, source, topic, partition, [(value, key, 0, None)])
        batch.sent(link.neighbour, source.message_class, messages)

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
        return target in self.positions.holds or target in self.new_holds

    @property
    def holds_any(self) -> bool:
        """Whether any target is."""
        return bool(self.positions.holds) or bool(self.new_holds)

    @property
    def held_targets(self) -> list[str]:
        """The topics of the targets that are held."""
        return [*self.positions.holds, *self.new_holds]

    def link(self, neighbour: str) -> LocalLink:
        """Return the link to a neighbour."""
        return self.learner.neighbours[neighbour].link
