"""The auditor: takes micro-batches, has them judged, publishes what was found, and saves.

Each Kafka cluster has batches of its own. One batch: small rows from the JVM, into the audits;
suspicions read again; certificates judged; outputs written; state saved. A batch that Spark runs
again after a crash starts from the state before it and writes the same records under the same
keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf
from secrets import token_hex

from pyspark.sql import DataFrame

from mesh.errors import ConfigError, Problem
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from streaming.audits.eras import OF_THE_FILE
from streaming.audits.interest import EndpointKey
from streaming.audits.needed_filters import NeededFilters
from streaming.audits.needless_copies import asked_patterns, unmatched
from streaming.audits.queues import QueueRules
from streaming.audits.unwanted_deliveries import wanted_patterns
from streaming.connectors.sink import SinkRecord
from streaming.connectors.source import Ranges
from streaming.job.batches import BatchContext, rows_of
from streaming.job.bundler import Bundler
from streaming.job.deletions import Deletions
from streaming.job.doubts import Doubts
from streaming.job.early_subscriptions import EarlySubscriptions, asked_by
from streaming.job.extent import LogExtent
from streaming.job.holes import begun_late
from streaming.job.intake import take_batch, take_configs
from streaming.job.judge import Judge
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.publisher import AuditPublisher, wall_ms
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.spoiled_batches import sift
from streaming.job.state import State
from streaming.job.unproven_findings import spoiled, unpromised
from streaming.tables.aggregates import DATA_KINDS
from streaming.tables.rows import MicroBatch, TopicPartition
from streaming.tables.topics import (
    GUARANTEED,
    INGRESS,
    LEDGER,
    is_of_data,
    place_of,
)

UNTAKEN_EVERY_S = 5.0
"""How often the auditor looks for subscriptions that nobody takes up, and for silent links, in
seconds."""

ONE_TASK_MAX = 20_000
"""Offsets of a batch that one task reads: to share out so few costs more than it saves."""


Positions = Mapping[TopicPartition, int]
"""Next offsets to read."""


@dataclass(slots=True)
class Auditor:
    """Everything but the streams themselves.

    Attributes:
        topology: The mesh.
        rereader: Reads ranges again.
        kafka_clusters: Those that are audited.
        snapshots: Where states are kept.
        write: Writes outputs, or raises.
        positions: Kafka cluster and batch -> next offsets after it.
        tasks: Tasks that parse a batch side by side, where it is not small.
        offsets_max: Records of one Kafka cluster in one batch; a full batch means lag.
        clock: Seconds that only rise.
        more: What else is news, to be written with what is found.
        former: What a run has told that left no state, kinds of findings by id.
        extent: How much of the logs is judged.
        state: The audits.
        batch_at_s: When the last batch was taken.
        lagging: Kafka clusters whose last batch was full.
        strange: Kafka cluster -> how far topics of nodes that nobody knows were read there.
        taken_s: Kafka cluster -> when its last batch was taken.
        wanted: Endpoint topic -> what was ever asked for there, as a regular expression.
        asked: Outbox topic without its class -> what is asked for behind its link, likewise.
        wanted_version: Of interest, by which these two were made.
        judgements: How often was judged, whatever came of it.
        bundler: How subjects are taken together where they are read.
        doubted: Versions by which queues were doubted last.
        looked_s: When it last looked for what nobody takes up.
        run: Names this run in what is published.
        publisher: Writes and saves.
        deletions: Asks brokers what is gone.
        early: Finds subscriptions that are taken before their turn.
    """

    topology: Topology
    rereader: Rereader
    kafka_clusters: AuditedKafkaClusters
    snapshots: Snapshots
    write: Callable[[Sequence[SinkRecord]], None]
    positions: Callable[[str, int], Mapping[TopicPartition, int]]
    tasks: int
    offsets_max: int
    clock: Callable[[], float] = time.monotonic
    more: Callable[[], Sequence[SinkRecord]] = tuple
    former: Mapping[str, str] = field(default_factory=dict)
    extent: LogExtent = field(default_factory=LogExtent)
    state: State = field(init=False)
    batch_at_s: float = field(init=False)
    lagging: dict[str, None] = field(default_factory=dict)
    strange: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    wanted_version: int = -1
    doubted: tuple[int, int] = (-1, -1)
    bundler: Bundler = field(init=False)
    judgements: int = 0
    taken_s: dict[str, float] = field(default_factory=dict)
    looked_s: float = -UNTAKEN_EVERY_S
    run: str = field(default_factory=lambda: token_hex(4))
    publisher: AuditPublisher = field(init=False)
    deletions: Deletions = field(init=False)
    early: EarlySubscriptions = field(init=False)

    def __post_init__(self) -> None:
        """Go on where the last run ended."""
        self.bundler = Bundler(self.rereader, self.kafka_clusters, self.topology.prefix)
        names = TopicNames(self.topology.prefix)
        told = (names, self.snapshots, self.kafka_clusters, self.write, self.clock)
        self.publisher = AuditPublisher(*told)
        self.deletions = Deletions(self.kafka_clusters, self.clock)
        self.restore()
        self.batch_at_s = self.clock()

    def restore(self) -> None:
        """Go back to the last state that was saved.

        Raises:
            ConfigError: It cannot be read.
        """
        fresh = State.of(self.topology)
        fresh.register.former = dict(self.former)
        self.state = self.snapshots.load() or fresh
        if self.state.eras.number == OF_THE_FILE:
            # Where `mesh.config` tells nothing, the file does, and not a former run.
            self.state.eras.texts = fresh.eras.texts
        self.state.splits.follow(self.state.eras.linked())
        self.state.register.run = self.run
        self.state.register.take_back(self.snapshots.told())
        self.state.rest(self.clock())
        self.early = EarlySubscriptions(self.kafka_clusters)
        self.bundler.adopt(self.state.interest)
        self._follow_topology()
        self.wanted_version, self.doubted = -1, (-1, -1)
        self._know_subscriptions()

    def take(self, records: DataFrame, kafka: str, batch: int) -> None:
        """Take one micro-batch of a Kafka cluster.

        Raises:
            ConfigError: The state beside the checkpoint is not of the batch before.
        """
        if self.is_news(kafka, batch):
            self.absorb(self.rows(records, self.positions(kafka, batch)), kafka, batch)

    def is_news(self, kafka: str, batch: int) -> bool:
        """Return whether a batch has not been taken yet.

        Raises:
            ConfigError: The state beside the checkpoint is not of the batch before.
        """
        known = self.state.batches.get(kafka, -1)
        if batch > known and batch not in (known + 1, 0):
            message = f"is of batch {known} of {kafka}, but Spark goes on with {batch}; remove both"
            where = str(self.snapshots.folder)
            raise ConfigError([Problem(code="CHECKPOINT", message=message, where=where)])
        return batch > known

    def rows(
        self, records: DataFrame, ends: Mapping[TopicPartition, int] | None = None
    ) -> MicroBatch:
        """Return the small rows of a micro-batch; this alone touches nothing of the state.

        Args:
            records: The micro-batch.
            ends: Up to where it reads the partitions of its Kafka cluster; None: nobody knows.
        """
        kinds = DATA_KINDS if ends is None else self._kinds(ends)
        is_small = ends is not None and self._news(ends) <= ONE_TASK_MAX
        bundles = self.bundler.of(self._read_on(ends or {}), is_small=is_small)
        known = BatchContext(self.topology, self.wanted, self.asked, bundles)
        rows = rows_of(records, known, kinds, None if is_small else self.tasks)
        return self.extent.only(rows, self.state.names)

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

    def absorb(self, rows: MicroBatch, kafka: str, batch: int) -> None:
        """Take the small rows of a micro-batch, and judge."""
        self.know(rows, kafka, batch)
        self.judge()
        self.batch_at_s = self.taken_s[kafka] = self.clock()

    def know(self, rows: MicroBatch, kafka: str, batch: int) -> None:
        """Add the small rows of a micro-batch to the state; `judge` judges them.

        Args:
            rows: What it holds.
            kafka: The Kafka cluster that it is of.
            batch: Its number, as Spark counts.
        """
        self._take_configs(rows, self.kafka_clusters.read.get(kafka, -inf))
        before, planned = self._begin(kafka, batch)
        ranges = {
            place: (before.get(place, 0), end)
            for place, end in planned.items()
            if self.kafka_clusters.home_of(place.topic) == kafka
        }
        late = begun_late(self.topology.prefix, rows, ranges)
        self._ask_brokers(kafka, before, planned, late)
        self.deletions.look_for_compaction(self.state, kafka, rows, ranges)
        if kafka in self.lagging and not self.extent.is_past:
            # What has come by subscriptions that are read later takes no room among doubts.
            self._take_rows(MicroBatch(small=rows.small), kafka)
            self._take_early(kafka)
            rows = replace(rows, small=())
        else:
            self.state.unwanted.catch_up(self.kafka_clusters.nodes_of(kafka))
        self._take_rows(rows, kafka)
        self.state.splits.taken(
            self.kafka_clusters.nodes_of(kafka), is_whole=kafka not in self.lagging
        )

    def absorb_the_sound(self, kafka: str, batch: int) -> None:
        """Take of a micro-batch that fails again and again what can be taken, and tell the rest.

        Its records are read again, ever fewer at a time, and each part is judged before it counts.

        Args:
            kafka: The Kafka cluster that it is of.
            batch: Its number, as Spark counts.
        """
        self._settle()  # else it is not this batch that spoils it
        self._judge()
        read_s = self.kafka_clusters.read.get(kafka, -inf)
        before, planned = self._begin(kafka, batch)
        self._ask_brokers(kafka, before, planned, ())
        read = {
            place: (before.get(place, 0), end)
            for place, end in planned.items()
            if end > before.get(place, 0)
        }
        prefix = self.topology.prefix
        ordered = sorted(read, key=lambda one: (is_of_data(prefix, one.topic), one))

        def take(ranges: Ranges) -> None:
            known = deepcopy(self.state)
            try:
                rows = self.rows(self.rereader.records(kafka, ranges))
                self._take_configs(rows, read_s)
                self.deletions.look_for_compaction(self.state, kafka, rows, ranges)
                self._take_rows(rows, kafka)
                self._settle()
                self._judge()
            except BaseException:
                self.state = known
                self.bundler.adopt(self.state.interest)
                self._follow_topology()
                raise

        for ranges, reason in sift({place: read[place] for place in ordered}, take):
            for place, (first, end) in ranges.items():
                self.state.register.add(spoiled(prefix, place, first, end - 1, reason))
                self._leave_out(place, end - 1)
        self.state.splits.taken(self.kafka_clusters.nodes_of(kafka), is_whole=False)
        self.publisher.publish(self.state, self.lagging, self.more())
        self.batch_at_s = self.taken_s[kafka] = self.clock()

    def _begin(self, kafka: str, batch: int) -> tuple[Positions, Positions]:
        """Note that a batch is taken; return how far was read before, and is with it."""
        told = self._go_on(kafka, batch)
        if kafka not in self.lagging and kafka in self.taken_s:
            # Spark has asked where the logs end after it was done with the batch before.
            self.kafka_clusters.read[kafka] = self.taken_s[kafka]
        return told

    def _take_configs(self, rows: MicroBatch, read_s: float) -> None:
        now_s = self._tell_time()
        take_configs(self.state, rows.small, now_s, read_s)
        self._follow_topology()

    def _tell_time(self) -> float:
        """Have findings know when they are made, and return the auditor's clock."""
        register, now_s = self.state.register, self.clock()
        register.now_ms, register.now_s = wall_ms(), now_s
        return now_s

    def _take_rows(self, rows: MicroBatch, kafka: str) -> None:
        mine = rows.only(lambda topic: self.kafka_clusters.is_at_home(kafka, topic))
        state = self.state
        take_batch(state, mine, self.clock())
        state.minutes.absorb(mine.minutes, mine.small, kafka, state.eras.linked()[-1])
        if not self.is_behind:
            heads, positions = state.chains.heads, state.progress.positions
            state.minutes.look(kafka, heads, positions, self.kafka_clusters.homes)
        self._know_subscriptions()

    def _take_early(self, kafka: str) -> None:
        """Read subscriptions ahead of their turn, for a Kafka cluster that lags."""
        state, early, prefix = self.state, self.early, self.topology.prefix
        if ranges := early.ranges(kafka, state.read, state.ids):
            rows = self.rows(self.rereader.records(kafka, ranges)).small
            state.unwanted.hear(asked_by(prefix, rows))
            take_batch(state, MicroBatch(small=early.firsts(rows, state.interest)), self.clock())
            self._know_subscriptions()
        if ranges := early.unseen(kafka, state.read, state.ids):
            rows = self.rows(self.rereader.records(kafka, ranges)).small
            state.unwanted.hear(asked_by(prefix, rows))

    def _leave_out(self, place: TopicPartition, last: int) -> None:
        """Judge nothing that rests on records up to an offset that nobody has read."""
        topic = place_of(self.topology.prefix, place.topic)
        if topic.kind == LEDGER:
            self.state.accounts.forget(topic.node)
            self.state.interest.lanes.lose_cuts(topic.node)
        elif topic.kind == INGRESS and topic.letter == GUARANTEED:
            self.state.certifier.blocks.skip(place, last)

    def _know_subscriptions(self) -> None:
        """Match the next batch against the subscriptions known by now."""
        if self.wanted_version != self.state.interest.version:
            state, prefix = self.state, self.topology.prefix
            self.bundler.follow(state.eras.linked())
            if self.bundler.bundles is None and state.interest.filters.has_surplus:
                state.interest.widen()
            self.wanted_version = state.interest.version
            self.wanted = wanted_patterns(prefix, state.interest)
            # Another aggregation of each batch: for who wants to know.
            looks = self.topology.audit_copies
            self.asked = asked_patterns(prefix, state.interest, state.eras) if looks else {}
            if (finding := unmatched(self.asked)) is not None:
                self.asked = {}
                state.register.add(finding)

    def _go_on(self, kafka: str, batch: int) -> tuple[Positions, Positions]:
        """Note how far a batch has read; return how far had been read before, and is now."""
        state = self.state
        positions = {
            place: end
            for place, end in self.positions(kafka, batch).items()
            if self.kafka_clusters.is_at_home(kafka, place.topic)
        }
        before = {place: state.read[place] for place in positions if place in state.read}
        # A topic of a node that nobody knows may be in several Kafka clusters: each is another one,
        # and takes its share of what a batch may read.
        strange = {
            place: end
            for place, end in positions.items()
            if self.kafka_clusters.home_of(place.topic) != kafka
        }
        known = self.strange.get(kafka, {})
        news = [
            end - (known if place in strange else before).get(place, 0)
            for place, end in positions.items()
        ]
        self.strange[kafka] = strange
        # Spark gives each partition its share of a batch, less a fraction of a record.
        fractions = sum(count > 0 for count in news)
        if sum(news) + fractions > self.offsets_max * 0.9:
            self.lagging[kafka] = None
        else:
            self.lagging.pop(kafka, None)
        state.read.update(positions)
        state.batches[kafka] = batch
        state.batch += 1
        return before, positions

    def _follow_topology(self) -> None:
        """Know what a change of the topology has brought: nodes, and what is said of queues."""
        self.kafka_clusters.homes.update(self.state.eras.homes())
        self.kafka_clusters.needed = self.state.eras.kafkas()
        eras = self.state.eras
        is_change = sum(number != OF_THE_FILE for number in eras.texts) > 1
        rules = QueueRules.of(eras.linked()[-1])
        for endpoint in self.state.interest.follow(rules, is_change=is_change):
            self.state.register.add(unpromised(endpoint))

    def _doubt_queues(self) -> None:
        """Promise nothing to queues that another topology shared out otherwise."""
        state = self.state
        seen = (state.interest.version, state.names.version)
        if self.doubted != seen:
            lost = state.interest.doubt(state.names.uuids, self._rules_between)
            for endpoint, is_other in lost.items():
                state.register.add(unpromised(endpoint, is_other=is_other))
            self.doubted = (state.interest.version, state.names.version)

    def _rules_between(
        self, place: TopicPartition, first: int, last: int | None
    ) -> Sequence[QueueRules | None]:
        is_ingress = place_of(self.topology.prefix, place.topic).kind == INGRESS
        return self.state.eras.rules_between(place, first, last) if is_ingress else ()

    @property
    def is_behind(self) -> bool:
        """Return whether something may have been written long ago that has not been read."""
        return any(map(self.kafka_clusters.is_needed, (*self.lagging, *self.kafka_clusters.unread)))

    def judge(self, *, is_last: bool = False) -> None:
        """Certify what can be, publish what is new and save the state.

        Args:
            is_last: There will be no later judgement: certify open ranges at once.
        """
        self.judgements += 1
        self.state.register.keep(self.kafka_clusters.read_s)
        # What a batch alone shows does not wait until what it makes doubtful is read again, nor
        # does what that shows wait for all blocks.
        self.publisher.tell(self.state)
        self._settle()
        self.publisher.tell(self.state)
        self._judge(is_last=is_last)
        self.publisher.publish(self.state, self.lagging, self.more(), is_last=is_last)

    def _ask_brokers(
        self,
        kafka: str,
        before: Positions,
        planned: Positions,
        late: Collection[TopicPartition],
    ) -> None:
        is_lagging = kafka in self.lagging
        told = (kafka, before, planned, late)
        again = self.deletions.ask(self.state, *told, is_lagging=is_lagging)
        if again:
            rows = self.rows(self.rereader.records(kafka, again))
            take_batch(self.state, MicroBatch(small=rows.small), self.clock())

    def _settle(self) -> None:
        """Read again what batches made doubtful; what was found is not published yet."""
        self._tell_time()
        Doubts(self.rereader, self.state).settle()

    def _judge(self, *, is_last: bool = False) -> None:
        """Judge all that has been read, likewise."""
        state, now_s = self.state, self._tell_time()
        doubts = Doubts(self.rereader, state)
        self._doubt_queues()
        if state.interest.is_full:
            self._prune()
        doubts.find_ends()
        self.deletions.bound_consumed(state)
        state.eras.settle(now_s, is_lagging=self.is_behind)
        self.kafka_clusters.needed = state.eras.kafkas()
        world = state.world(self.kafka_clusters.ends(), self.kafka_clusters.read_s)
        judge = Judge(self.rereader, state, world, now_s)
        judge.certify(is_last=is_last)
        if not self.extent.is_past:
            judge.look_at_parts(is_lagging=bool(self.lagging))
        seen_s = now_s if self.extent.is_past else min(now_s, self.kafka_clusters.read_s)
        if seen_s > -inf and not self.is_behind:
            judge.look_at_rest(seen_s, is_past=self.extent.is_past)
            if not self.extent.is_past:
                self._look_at_what_stands(judge, seen_s)

    def _look_at_what_stands(self, judge: Judge, seen_s: float) -> None:
        judge.look_at_stalls(seen_s)
        if self.state.register.former:
            self.state.register.let_go(judge.now_s)
        if not 0 <= judge.now_s - self.looked_s < UNTAKEN_EVERY_S:
            self.looked_s = judge.now_s
            judge.look_at_silences(seen_s)

    def _prune(self) -> None:
        """Forget subscriptions that have ended, and filters that nobody names any more.

        What is written to a Kafka cluster that is not read just now, or read late, may be of those
        that have ended there, and lanes elsewhere may know of others there already.
        """
        state, interest, kafka_clusters = self.state, self.state.interest, self.kafka_clusters
        world, names = state.world(lambda _: None), TopicNames(self.topology.prefix)
        nodes = {uuid: node for node, uuid in state.names.uuids.items()}

        unread = {*self.lagging, *kafka_clusters.unread}

        def is_unread(place: TopicPartition) -> bool:
            return kafka_clusters.home_of(place.topic) in unread

        needed = NeededFilters(state.certifier.blocks, world, is_unread)

        def claimed(endpoint: EndpointKey, filters: Collection[str]) -> Collection[str]:
            if kafka_clusters.homes.get(endpoint.node) in unread:
                return filters
            return needed.of(endpoint, filters)

        def read_of(uuid: str) -> int:
            topic = names.clients(nodes[uuid]) if uuid in nodes else ""
            return state.read.get(TopicPartition(topic, 0), 0)

        told = state.names.uuids, state.eras.numbers_of, claimed, read_of
        interest.prune(*told, now_s=self.clock())
        state.consumed.keep(interest.subscriptions)
        self.bundler.forget(interest, state.eras.known())
