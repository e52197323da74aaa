"""The auditor: takes micro-batches, reads again what is doubtful, judges, and publishes.

Each Kafka cluster has batches of its own. One batch: small rows from the JVM, into the audits;
suspicions read again; certificates judged; outputs written; state saved. A batch that Spark runs
again after a crash starts from the state before it and writes the same records under the same
keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from math import inf
from secrets import token_hex

from pyspark.sql import DataFrame

from mesh.errors import ConfigError, Problem, TransportUnavailableError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from streaming.audits.cases import Case, Outcome, case_findings
from streaming.audits.certificates import ended_of
from streaming.audits.eras import OF_THE_FILE
from streaming.audits.findings import FindingKind
from streaming.audits.judgements import World, claimed_of
from streaming.audits.late import copy_cases, late_cases, unreadable
from streaming.audits.needless import asked_over
from streaming.audits.passing import Stop
from streaming.audits.queues import QueueRules
from streaming.audits.silences import silent
from streaming.audits.untaken import untaken
from streaming.audits.unwanted import wanted
from streaming.connectors.sink import Output
from streaming.connectors.source import Ranges
from streaming.job.batches import Known, rows_of
from streaming.job.bundling import Bundling
from streaming.job.doubts import Doubts
from streaming.job.holes import begun_late, gaps
from streaming.job.intake import take_batch, take_configs
from streaming.job.publishing import Publishing, wall_ms
from streaming.job.rereads import Rereader
from streaming.job.sifting import sift
from streaming.job.snapshots import Snapshots
from streaming.job.sources import Sources
from streaming.job.state import State
from streaming.job.unproven import compacted, deleted, made_again, spoiled, unpromised
from streaming.tables.aggregates import DATA_KINDS
from streaming.tables.rows import Batch, TopicPartition
from streaming.tables.topics import (
    ENDPOINT,
    GUARANTEED,
    INGRESS,
    LEDGER,
    OUTBOX,
    is_of_data,
    place_of,
)

BROKERS_EVERY_S = 60.0
"""How often the auditor asks brokers anew what was deleted or made again, in seconds."""

UNTAKEN_EVERY_S = 5.0
"""How often the auditor looks for subscriptions that nobody takes up, and for silent links, in
seconds."""

ALONE_MAX = 20_000
"""Offsets of a batch that one task reads: to share out so few costs more than it saves."""


@dataclass(slots=True)
class Auditor:
    """Everything but the streams themselves.

    Attributes:
        topology: The mesh.
        rereader: Reads ranges again.
        sources: What the brokers say.
        snapshots: Where states are kept.
        write: Writes outputs, or raises.
        positions: Kafka cluster and batch -> next offsets after it.
        tasks: Tasks that parse a batch side by side, where it is not small.
        offsets_max: Records of one Kafka cluster in one batch; a full batch means lag.
        clock: Seconds that only rise.
        more: What else is news, to be written with what is found.
        is_past: Whether a past range is judged: what stands still just now is another matter.
        only: What of the small rows counts.
        batch_at_s: When the last batch was taken.
        lagging: Kafka clusters whose last batch was full.
        strange: Kafka cluster -> how far topics of nodes that nobody knows were read there.
        taken_s: Kafka cluster -> when its last batch was taken.
        wanted: Endpoint topic -> what was ever asked for there, as a regular expression.
        asked: Outbox topic without its class -> what is asked for behind its link, likewise.
        judgements: How often was judged, whatever came of it.
        bundling: How subjects are taken together where they are read.
        publishing: Writes and saves.
    """

    topology: Topology
    rereader: Rereader
    sources: Sources
    snapshots: Snapshots
    write: Callable[[Sequence[Output]], None]
    positions: Callable[[str, int], Mapping[TopicPartition, int]]
    tasks: int
    offsets_max: int
    clock: Callable[[], float] = time.monotonic
    more: Callable[[], Sequence[Output]] = tuple
    is_past: bool = False
    only: Callable[[Batch], Batch] = lambda rows: rows
    state: State = field(init=False)
    batch_at_s: float = field(init=False)
    lagging: dict[str, None] = field(default_factory=dict)
    strange: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    wanted_version: int = -1
    bundling: Bundling = field(init=False)
    judgements: int = 0
    taken_s: dict[str, float] = field(default_factory=dict)
    looked_s: float = -UNTAKEN_EVERY_S
    run: str = field(default_factory=lambda: token_hex(4))
    publishing: Publishing = field(init=False)

    def __post_init__(self) -> None:
        """Go on where the last run ended."""
        self.bundling = Bundling(self.rereader, self.sources, self.topology.prefix)
        names = TopicNames(self.topology.prefix)
        told = (names, self.snapshots, self.sources, self.write, self.clock)
        self.publishing = Publishing(*told)
        self.restore()
        self.batch_at_s = self.clock()

    def restore(self) -> None:
        """Go back to the last state that was saved.

        Raises:
            ConfigError: It cannot be read.
        """
        fresh = State.of(self.topology)
        self.state = self.snapshots.load() or fresh
        if self.state.eras.number == OF_THE_FILE:
            # Where `mesh.config` tells nothing, the file does, and not a former run.
            self.state.eras.texts = fresh.eras.texts
        self.state.splits.follow(self.state.eras.linked())
        self.state.register.run = self.run
        self.state.rest(self.clock())
        self.bundling.adopt(self.state.interest)
        self._follow_topology()
        self.wanted_version = -1
        self._know_subscriptions()

    def take(self, records: DataFrame, kafka: str, batch: int) -> None:
        """Take one micro-batch of a Kafka cluster.

        Raises:
            ConfigError: The state beside the checkpoint is not of the batch before.
        """
        if self.is_news(kafka, batch):
            self.absorb(self.rows(records, self.positions(kafka, batch)), kafka, batch)

    def is_news(self, kafka: str, batch: int) -> bool:
        """Say whether a batch has not been taken yet.

        Raises:
            ConfigError: The state beside the checkpoint is not of the batch before.
        """
        known = self.state.batches.get(kafka, -1)
        if batch > known and batch not in (known + 1, 0):
            message = f"is of batch {known} of {kafka}, but Spark goes on with {batch}; remove both"
            where = str(self.snapshots.folder)
            raise ConfigError([Problem(code="CHECKPOINT", message=message, where=where)])
        return batch > known

    def rows(self, records: DataFrame, ends: Mapping[TopicPartition, int] | None = None) -> Batch:
        """Return the small rows of a micro-batch; this alone touches nothing of the state.

        Args:
            records: The micro-batch.
            ends: Up to where it reads the partitions of its Kafka cluster; None: nobody knows.
        """
        kinds = DATA_KINDS if ends is None else self._kinds(ends)
        tasks = self.tasks if ends is None or self._news(ends) > ALONE_MAX else 1
        bundles = self.bundling.of(self._read_on(ends or {}), is_small=tasks == 1)
        known = Known(self.topology, self.wanted, self.asked, bundles)
        return self.only(rows_of(records, known, kinds, tasks))

    def _news(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return how many offsets a batch reads that ends there."""
        return sum(max(0, end - self.state.read.get(place, 0)) for place, end in ends.items())

    def _kinds(self, ends: Mapping[TopicPartition, int]) -> Collection[str]:
        """Return what topics with messages a batch has read on, that ends there.

        Most batches of a mesh at rest hold what nodes say of themselves, and nothing else.
        """
        prefix, news = self.topology.prefix, self._read_on(ends)
        return {place_of(prefix, one).kind for one in news if is_of_data(prefix, one)}

    def _read_on(self, ends: Mapping[TopicPartition, int]) -> Sequence[str]:
        """Return the topics of which a batch has something that ends there."""
        read = self.state.read
        return [place.topic for place, end in ends.items() if end != read.get(place, 0)]

    def absorb(self, rows: Batch, kafka: str, batch: int) -> None:
        """Take the small rows of a micro-batch, and judge."""
        self.know(rows, kafka, batch)
        self.judge()
        self.batch_at_s = self.taken_s[kafka] = self.clock()

    def know(self, rows: Batch, kafka: str, batch: int) -> None:
        """Take the small rows of a micro-batch; they are judged with what comes after them."""
        self._take_configs(rows, self.sources.read.get(kafka, -inf))
        before = self._begin(kafka, batch)
        home_of, read = self.sources.home_of, self.state.read
        ranges = {
            place: (before.get(place, 0), end)
            for place, end in read.items()
            if home_of(place.topic) == kafka
        }
        self._ask_brokers(kafka, before, begun_late(self.topology.prefix, rows, ranges))
        self._look_for_compaction(kafka, rows, ranges)
        self._take_rows(rows, kafka)
        self.state.splits.taken(self.sources.nodes_of(kafka), is_whole=kafka not in self.lagging)

    def absorb_the_sound(self, kafka: str, batch: int) -> None:
        """Take of a micro-batch that fails again and again what can be taken, and tell the rest.

        Its records are read anew, ever fewer at a time, and each part is judged before it counts.
        """
        self._judge()  # else it is not this batch that spoils it
        read_s = self.sources.read.get(kafka, -inf)
        before = self._begin(kafka, batch)
        self._ask_brokers(kafka, before)
        read = {
            place: (before.get(place, 0), end)
            for place, end in self.positions(kafka, batch).items()
            if self.sources.is_at_home(kafka, place.topic) and end > before.get(place, 0)
        }
        prefix = self.topology.prefix
        ordered = sorted(read, key=lambda one: (is_of_data(prefix, one.topic), one))

        def take(ranges: Ranges) -> None:
            known = deepcopy(self.state)
            try:
                rows = self.rows(self.rereader.records(kafka, ranges))
                self._take_configs(rows, read_s)
                self._look_for_compaction(kafka, rows, ranges)
                self._take_rows(rows, kafka)
                self._judge()
            except BaseException:
                self.state = known
                self.bundling.adopt(self.state.interest)
                self._follow_topology()
                raise

        for ranges, reason in sift({place: read[place] for place in ordered}, take):
            for place, (first, end) in ranges.items():
                self.state.register.add(spoiled(prefix, place, first, end - 1, reason))
                self._leave_out(place, end - 1)
        self.state.splits.taken(self.sources.nodes_of(kafka), is_whole=False)
        self.publishing.publish(self.state, self.lagging, self.more())
        self.batch_at_s = self.taken_s[kafka] = self.clock()

    def _begin(self, kafka: str, batch: int) -> Mapping[TopicPartition, int]:
        """Note that a batch is taken, and return how far was read before."""
        before = self._go_on(kafka, batch)
        if kafka not in self.lagging and kafka in self.taken_s:
            # Spark has asked where the logs end after it was done with the batch before.
            self.sources.read[kafka] = self.taken_s[kafka]
        return before

    def _take_configs(self, rows: Batch, read_s: float) -> None:
        now_s = self._tell_time()
        take_configs(self.state, rows.small, now_s, read_s)
        self._follow_topology()

    def _tell_time(self) -> float:
        """Have findings know when they are made, and return the auditor's clock."""
        register, now_s = self.state.register, self.clock()
        register.now_ms, register.now_s = wall_ms(), now_s
        return now_s

    def _take_rows(self, rows: Batch, kafka: str) -> None:
        mine = rows.only(lambda topic: self.sources.is_at_home(kafka, topic))
        state = self.state
        take_batch(state, mine, self.clock())
        state.minutes.absorb(mine.minutes, mine.small, kafka, state.eras.linked()[-1])
        if not self.is_behind:
            heads, positions = state.chains.heads, state.passing.positions
            state.minutes.look(kafka, heads, positions, self.sources.homes)
        self._know_subscriptions()

    def _leave_out(self, place: TopicPartition, last: int) -> None:
        """Judge nothing that rests on records up to an offset that nobody has read."""
        topic = place_of(self.topology.prefix, place.topic)
        if topic.kind == LEDGER:
            self.state.accounts.forget(topic.node)
        elif topic.kind == INGRESS and topic.letter == GUARANTEED:
            self.state.certifier.blocks.skip(place, last)

    def _know_subscriptions(self) -> None:
        """Have the next batch matched against what is asked for by now."""
        if self.wanted_version != self.state.interest.version:
            self.wanted_version = self.state.interest.version
            state, prefix = self.state, self.topology.prefix
            self.wanted = wanted(prefix, state.interest)
            # Another aggregation of each batch: for who wants to know.
            looks = self.topology.audit_copies
            self.asked = asked_over(prefix, state.interest, state.eras) if looks else {}
            self.bundling.follow(state.eras.linked())

    def _go_on(self, kafka: str, batch: int) -> Mapping[TopicPartition, int]:
        """Note how far a batch has read, and return how far it had been read before."""
        state = self.state
        positions = {
            place: end
            for place, end in self.positions(kafka, batch).items()
            if self.sources.is_at_home(kafka, place.topic)
        }
        before = {place: state.read[place] for place in positions if place in state.read}
        # A topic of a node that nobody knows may be in several Kafka clusters: each is another one,
        # and takes its share of what a batch may read.
        strange = {
            place: end
            for place, end in positions.items()
            if self.sources.home_of(place.topic) != kafka
        }
        known = self.strange.get(kafka, {})
        news = sum(
            end - (known if place in strange else before).get(place, 0)
            for place, end in positions.items()
        )
        self.strange[kafka] = strange
        if news > self.offsets_max * 0.9:
            self.lagging[kafka] = None
        else:
            self.lagging.pop(kafka, None)
        state.read.update(positions)
        state.batches[kafka] = batch
        state.batch += 1
        return before

    def _follow_topology(self) -> None:
        """Know what a change of the topology has brought: nodes, and what is said of queues."""
        self.sources.homes.update(self.state.eras.homes())
        self.sources.needed = self.state.eras.kafkas()
        eras = self.state.eras
        is_change = sum(number != OF_THE_FILE for number in eras.texts) > 1
        rules = QueueRules.of(eras.linked()[-1])
        for endpoint in self.state.interest.follow(rules, is_change=is_change):
            self.state.register.add(unpromised(endpoint))

    @property
    def is_behind(self) -> bool:
        """Say whether something may have been written long ago that has not been read."""
        return any(map(self.sources.is_needed, (*self.lagging, *self.sources.unread)))

    def judge(self, *, is_last: bool = False) -> None:
        """Certify what can be, publish what is new and save the state.

        Args:
            is_last: There will be no later judgement: certify open ranges at once.
        """
        self.judgements += 1
        self.state.register.keep(self.sources.read_s)
        # What a batch alone shows does not wait until what it makes doubtful is read again.
        self.publishing.tell(self.state)
        self._judge(is_last=is_last)
        self.publishing.publish(self.state, self.lagging, self.more(), is_last=is_last)

    def _judge(self, *, is_last: bool = False) -> None:
        state, now_s = self.state, self._tell_time()
        Doubts(self.rereader, state).settle()
        self._find_ends()
        self._bound_consumed()
        state.eras.settle(now_s, is_lagging=self.is_behind)
        self.sources.needed = state.eras.kafkas()
        world = state.world(self.sources.ends(), self.sources.read_s)
        round_ = state.certifier.judge(world, now_s, is_last=is_last)
        for case, outcome in zip(round_.cases, self._outcomes(round_.cases), strict=True):
            if outcome is None:
                state.certifier.put_off(round_, case)
            else:
                state.certifier.settle(round_, case, outcome, world)
        state.certifier.finish(round_, world, now_s)
        if not self.is_past:
            self._look_at_parts(now_s)
        seen_s = now_s if self.is_past else min(now_s, self.sources.read_s)
        if seen_s > -inf and not self.is_behind:
            self._look_at_rest(world, seen_s)
            if not self.is_past:
                self._look_at_stalls(world, now_s, seen_s)

    def _look_at_parts(self, now_s: float) -> None:
        """Tell who hangs together just now, and whether the mesh has found the same."""
        state = self.state
        state.splits.until = self.sources.read_until()
        for finding in state.splits.judge(now_s):
            state.register.add(finding)
        if not self.lagging:
            for finding in state.colours.judge(state.splits, now_s):
                state.register.add(finding)

    def _look_at_rest(self, world: World, now_s: float) -> None:
        """Tell of what only all that was written shows, where that has been read.

        What excuses it may be in another Kafka cluster, which is read later: so what counts is not
        the time, but up to which moment all has been read everywhere.

        Args:
            world: The other audits.
            now_s: That moment.
        """
        state = self.state
        for finding in state.certifier.blocks.forged(now_s):
            state.register.add(finding)
        told = (state.interest, state.passing.turns, state.names)
        for finding in state.marks.judge(*told, now_s):
            state.register.add(finding)
        # Of a past range ledgers tell which topics are gone; frames may be of those.
        for finding in () if self.is_past else state.strangers.judge(state.names, now_s):
            state.register.add(finding)
        self._look_at_late(world, now_s)
        for finding in state.unwanted.judge(state.interest, state.names, now_s):
            state.register.add(finding)
        for finding in state.needless.judge(state.interest, state.eras, state.names, now_s):
            state.register.add(finding)

    def _look_at_stalls(self, world: World, now_s: float, seen_s: float) -> None:
        """Tell of what has stood still for long, where all that was written has been read.

        Args:
            world: The other audits.
            now_s: The auditor's clock, in seconds.
            seen_s: All that was written before this moment has been read.
        """
        state = self.state
        blocks = state.certifier.blocks
        tickets = [ticket for _, _, block in blocks.walk() for ticket in block.tickets]
        stops = {
            hop: stop for ticket in tickets for hop, stop in state.passing.stops(ticket, state.read)
        }
        for endpoint in state.certifier.undecided:
            stops[str(endpoint)] = Stop(endpoint.node, ended_of(endpoint))
        state.stalls.judge_hops(stops, seen_s, state.register)
        if not 0 <= now_s - self.looked_s < UNTAKEN_EVERY_S:
            self.looked_s = now_s
            news = untaken(blocks, world, state.splits, now_s)
            state.stalls.judge_interest(news, seen_s, state.register)
            silences = silent(state.splits, state.passing, state.chains, state.accounts, now_s)
            state.stalls.judge_links(silences, seen_s, state.register)

    def _look_at_late(self, world: World, now_s: float) -> None:
        """Read again what came of blocks that were certified for good: it may be nobody's."""
        state, blocks = self.state, self.state.certifier.blocks
        late = {
            key: one
            for key, one in blocks.ripe(now_s).items()
            if self.sources.can_read([key.place])
        }
        if not late:
            return
        begins = self.sources.beginnings({key.place: None for key in late})
        for key, finding in unreadable(late, begins):
            state.register.add(finding)
            del late[key], blocks.late[key]
        cases = late_cases(late, world)
        copies = copy_cases(late, cases, world)
        doubled = dict(zip(copies, self._outcomes(list(copies.values())), strict=True))
        for key, case, outcome in zip(late, cases, self._outcomes(cases), strict=True):
            found = doubled.get(key)
            if outcome is None or (key in copies and found is None):
                continue  # it is asked again
            for finding in case_findings(case, outcome):
                state.register.add(finding)
            for finding in () if found is None else case_findings(copies[key], found):
                if finding.kind is FindingKind.DUPLICATE:
                    state.register.add(finding)
            del blocks.late[key]

    def _outcomes(self, cases: Sequence[Case]) -> Sequence[Outcome | None]:
        """Read cases message by message; None for those that cannot be read just now."""
        can = [self.rereader.can_read(case) for case in cases]
        readable = [case for case, is_readable in zip(cases, can, strict=True) if is_readable]
        try:
            found = iter(self.rereader.cases(readable) if readable else ())
        except TransportUnavailableError:
            if len(cases) == 1:
                return [None]
            return [outcome for case in cases for outcome in self._outcomes([case])]
        return [next(found) if is_readable else None for is_readable in can]

    def _look_for_compaction(self, kafka: str, rows: Batch, ranges: Ranges) -> None:
        """Judge nothing of an ingress from which compaction may have taken what nobody has read.

        A loss of it would not show: neither side has it. Where no topic is compacted, what is not
        there belonged to transactions of clients.

        Raises:
            TransportUnavailableError: The Kafka cluster does not say; the batch comes again.
        """
        prefix, state = self.topology.prefix, self.state
        lacking = gaps(prefix, rows, ranges)
        if not lacking:
            return
        topics = [*dict.fromkeys(place.topic for place in lacking)]
        suspects = self.sources.brokers[kafka].compacted(topics)
        for place, count in lacking.items():
            if place.topic in suspects:
                first, end = ranges[place]
                state.register.add(compacted(place, first, end - 1, count))
                state.certifier.blocks.skip(place, end - 1)

    def _ask_brokers(
        self,
        kafka: str,
        before: Mapping[TopicPartition, int],
        late: Collection[TopicPartition] = (),
    ) -> None:
        """Learn the ids of topics, and what was deleted or made again before it was read.

        Spark skips deleted records without a word, and in a topic that was made again it goes on
        where it was in the former one. Who wrote them and who got them cannot be judged.
        Spec: K4, K5.

        Args:
            kafka: The Kafka cluster.
            before: Where the batch began.
            late: Of which it does not hold the first record.
        """
        state, prefix = self.state, self.topology.prefix
        asked_s = self.asked_s.get(kafka)
        is_due = asked_s is None or not 0 <= self.clock() - asked_s < BROKERS_EVERY_S
        if is_due:
            self.asked_s[kafka] = self.clock()
        described = {place: place_of(prefix, place.topic) for place in sorted(state.read)}
        here = [place for place in described if self.sources.home_of(place.topic) == kafka]
        topics = {
            place.topic: None
            for place in here
            if is_due
            or place.topic not in state.ids
            or state.read[place] < before.get(place, 0)  # Spark goes back with the end of a log
        }
        anew: dict[str, str] = {}
        for topic, id_ in self.sources.ids_of(kafka, topics).items():
            if place_of(prefix, topic).kind in (INGRESS, OUTBOX):
                state.names.tell(topic, id_)
            if state.ids.setdefault(topic, id_) != id_:
                anew[topic] = state.ids[topic] = id_
        for place in [place for place in here if place.topic in anew]:
            unread = min(before.get(place, 0), state.read[place])
            state.begin_anew(place, anew[place.topic], unread)
            state.register.add(made_again(prefix, place, anew[place.topic], unread))
        places = [
            place
            for place in here
            if (is_due or kafka in self.lagging or place not in before or place in late)
            and (
                described[place].letter == GUARANTEED
                or described[place].kind in (OUTBOX, LEDGER, ENDPOINT)
            )
        ]
        for place, beginning in self.sources.beginnings(places).items() if places else ():
            first = before.get(place, 0)
            if beginning <= first:
                continue
            if described[place].kind == OUTBOX:
                state.minutes.lose(kafka)
            if described[place].kind == LEDGER:
                state.accounts.forget(described[place].node)
            elif described[place].kind == ENDPOINT:
                state.consumed.lose(place, first, beginning - 1)
                state.interest.version += 1
            elif described[place].letter == GUARANTEED:
                state.register.add(deleted(prefix, place, first, beginning - 1))
                if described[place].kind == INGRESS:
                    state.certifier.blocks.skip(place, beginning - 1)

    def _find_ends(self) -> None:
        """Read where unsubscribes took effect, if some did."""
        interest = self.state.interest
        if interest.is_full:
            self._prune()
        unknown = interest.unknown_ends(self.state.names.uuids, self._reader_of)
        read = self.state.read
        # A cut tells a position; one that nobody has read up to yet may be beyond any log.
        reached = [key for key in unknown if key.position <= read.get(key.outbox, 0)]
        keys = [key for key in reached if self.sources.can_read([key.outbox])]
        if not keys:
            return
        try:
            answers = self.rereader.ends(keys)
        except TransportUnavailableError:
            return  # they are asked for again
        for key, last in zip(keys, answers, strict=True):
            interest.ended(key, dict(last))

    def _bound_consumed(self) -> None:
        """Learn what had been published when records of endpoints turned out to be deleted."""
        state, sources, prefix = self.state, self.sources, self.topology.prefix
        if not state.consumed.unbounded:
            return

        def is_ingress(topic: str) -> bool:
            place = place_of(prefix, topic)
            return place.kind == INGRESS and place.letter == GUARANTEED

        ends: dict[TopicPartition, int] = {}
        for kafka in filter(sources.is_needed, list(sources.brokers)):
            if not sources.answers(kafka):
                return  # it is asked later: until then nothing of these endpoints is proven
            try:
                ends.update(sources.brokers[kafka].ends(sources.places(kafka, is_ingress)))
            except TransportUnavailableError:
                sources.silent[kafka] = sources.clock()
                return
        promised = {*state.interest.certified()}
        promised |= {one for members in state.interest.shared().values() for one in members}
        for finding in state.consumed.bound(ends):
            if finding.endpoint in map(str, promised):
                state.register.add(finding)
        state.interest.version += 1

    def _prune(self) -> None:
        """Forget subscriptions that have ended, and filters that nobody names any more."""
        state, interest = self.state, self.state.interest
        claimed = partial(claimed_of, state.certifier.blocks, state.world(lambda _: None))
        interest.prune(state.names.uuids, state.eras.numbers_of, claimed)
        self.bundling.forget(interest, state.eras.known())

    def _reader_of(self, topic: str) -> str:
        place = place_of(self.topology.prefix, topic)
        return place.other if place.kind == OUTBOX else ""
