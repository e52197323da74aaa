"""The auditor: takes micro-batches, reads again what is doubtful, judges, and publishes.

One batch: small rows from the JVM, into the audits; suspicions read again; certificates judged;
outputs written; state saved. A batch that Spark runs again after a crash starts from the state
before it and writes the same records under the same keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from mesh.errors import ConfigError, Problem
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from streaming.audits.cases import fault
from streaming.audits.eras import OF_THE_FILE
from streaming.audits.findings import Finding, FindingKind, message_id
from streaming.audits.interest import EndpointKey
from streaming.audits.order import DeliverySuspicion
from streaming.audits.origins import FrameSuspicion
from streaming.audits.passing import Now
from streaming.audits.queues import QueueRules
from streaming.connectors.sink import Output
from streaming.job.intake import take_batch
from streaming.job.outputs import status_json, take_outputs
from streaming.job.rereads import Repeats, Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.aggregates import batch_rows
from streaming.tables.columns import parsed
from streaming.tables.rows import TopicPartition, read_batch
from streaming.tables.topics import GUARANTEED, INGRESS, OUTBOX, place_of

IDLE_S = 3.0
"""Without a batch for so long, Kafka has nothing new: Spark asks it at every trigger."""

LOSSES_EVERY_S = 60.0
"""How often the auditor looks whether something was deleted before it came, in seconds."""

STATUS_S = 5.0
"""A status is written at least so often, also when there is no news."""


@dataclass(slots=True)
class Auditor:
    """Everything but the stream itself.

    Attributes:
        topology: The mesh.
        rereader: Reads ranges again.
        snapshots: Where states are kept.
        write: Writes outputs, or raises.
        positions: Batch -> next offsets after it.
        beginnings: Partitions -> first offsets that are still there.
        tasks: Tasks that parse a batch side by side.
        offsets_max: Records of one Kafka cluster in one batch; a full batch means lag.
        clock: Seconds that only rise.
    """

    topology: Topology
    rereader: Rereader
    snapshots: Snapshots[State]
    write: Callable[[Sequence[Output]], None]
    positions: Callable[[int], Mapping[TopicPartition, int]]
    beginnings: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
    tasks: int
    offsets_max: int
    clock: Callable[[], float] = time.monotonic
    state: State = field(init=False)
    batch_at_s: float = field(init=False)
    is_lagging: bool = False
    losses_at_s: float = -LOSSES_EVERY_S
    told: object = None
    told_s: float = 0.0

    def __post_init__(self) -> None:
        """Go on where the last run ended."""
        fresh = State.of(self.topology)
        self.state = self.snapshots.load() or fresh
        if self.state.eras.number == OF_THE_FILE:
            # Where `mesh.config` tells nothing, the file does, and not a former run.
            self.state.eras.texts = fresh.eras.texts
        self.state.splits.follow(self.state.eras.linked())
        self._follow_topology()
        self.batch_at_s = self.clock()

    def take(self, records: DataFrame, batch: int) -> None:
        """Take one micro-batch.

        Raises:
            ConfigError: The state beside the checkpoint is not of the batch before.
        """
        state = self.state
        if batch <= state.batch:
            return
        if batch != state.batch + 1 and batch != 0:
            message = f"is of batch {state.batch}, but Spark goes on with {batch}; remove both"
            where = str(self.snapshots.folder)
            raise ConfigError([Problem(code="CHECKPOINT", message=message, where=where)])
        began_s = self.clock()
        rows = self._rows(records)
        before, state.read = state.read, dict(self.positions(batch))
        state.batch = batch
        self.is_lagging = self._is_full(before)
        self._look_for_losses(before)
        suspicions = take_batch(state, read_batch(rows), self.clock())
        self._follow_topology()
        self._look_at_deliveries(suspicions.deliveries)
        self._look_at_frames(suspicions.frames)
        self.judge(rates_over_s=began_s - self.batch_at_s)
        self.batch_at_s = self.clock()

    def _follow_topology(self) -> None:
        """Know what a change of the topology has brought: nodes, and what is said of queues."""
        self.rereader.homes.update(self.state.eras.homes())
        eras = self.state.eras
        is_change = sum(number != OF_THE_FILE for number in eras.texts) > 1
        self.state.interest.follow(QueueRules.of(eras.linked()[-1]), is_change=is_change)

    def _rows(self, records: DataFrame) -> Sequence[str]:
        topology = self.topology
        opened = parsed(records.coalesce(self.tasks), topology.prefix, topology.max_message_bytes)
        opened.persist()
        try:
            return [row[0] for row in batch_rows(opened).collect()]
        finally:
            opened.unpersist()

    def _is_full(self, before: Mapping[TopicPartition, int]) -> bool:
        read = self.state.read
        return sum(end - before.get(place, 0) for place, end in read.items()) > (
            self.offsets_max * 0.9
        )

    def judge(self, *, rates_over_s: float = 0.0, is_last: bool = False) -> None:
        """Certify what can be, publish what is new and save the state.

        Args:
            rates_over_s: Time over which links are measured; 0 leaves rates out.
            is_last: There will be no later judgement: certify open ranges at once.
        """
        state, now_s = self.state, self.clock()
        now = Now(now_s, state.batch, now_s - self.batch_at_s >= IDLE_S)
        self._find_ends()
        state.eras.settle(now_s, is_lagging=self.is_lagging)
        world = state.world()
        round_ = state.certifier.judge(world, now, is_last=is_last)
        if round_.cases:
            outcomes = self.rereader.cases(round_.cases)
            for case, outcome in zip(round_.cases, outcomes, strict=True):
                state.certifier.settle(round_, case, outcome, world)
        state.certifier.finish(round_, world, now)
        if not self.is_lagging:
            for finding in state.splits.judge(now_s):
                state.register.add(finding)
        self._publish(rates_over_s, is_last=is_last)

    def _look_for_losses(self, before: Mapping[TopicPartition, int]) -> None:
        """Find guaranteed records that were deleted before the batch could read them. Spec: K5.

        Spark skips them without a word. Who wrote them and who got them cannot be judged.

        Args:
            before: Where the batch began.
        """
        state, prefix = self.state, self.topology.prefix
        is_due = not 0 <= self.clock() - self.losses_at_s < LOSSES_EVERY_S
        if is_due:
            self.losses_at_s = self.clock()
        places = [
            place
            for place in sorted(state.read)
            if (is_due or place not in before)
            and place_of(prefix, place.topic).letter == GUARANTEED
        ]
        for place, beginning in self.beginnings(places).items() if places else ():
            first = before.get(place, 0)
            if beginning > first:
                state.register.add(_unread(prefix, place, first, beginning - 1))
                if place_of(prefix, place.topic).role == INGRESS:
                    state.certifier.blocks.skip(place, beginning - 1)

    def _publish(self, rates_over_s: float, *, is_last: bool) -> None:
        """Write what is new; without a batch and without news, only a sign of life at times."""
        state, names = self.state, TopicNames(self.topology.prefix)
        if state.register.unpublished and state.batch >= 0:
            # Else one that was written just before a crash could never be taken back.
            self.snapshots.save(state.batch, state)
        rates = state.links.take_rates(rates_over_s)
        outputs = list(take_outputs(state, names, rates))
        told = (state.batch, [(one.key, one.reason) for one in state.certifier.waiting])
        is_news = bool(outputs) or is_last or told != self.told
        if not is_news and self.clock() - self.told_s < STATUS_S:
            return
        self.told, self.told_s = told, self.clock()
        status = status_json(state, int(time.time() * 1000), is_final=is_last)
        outputs.append(Output(names.audit("status"), "position", status))
        self.write(outputs)
        if is_news and state.batch >= 0:
            self.snapshots.save(state.batch, state)

    def _find_ends(self) -> None:
        """Read where unsubscribes took effect, if some did."""
        interest = self.state.interest
        interest.prune(self.state.names.uuids, self.state.eras.numbers_of)
        keys = interest.unknown_ends(self.state.names.uuids, self._reader_of)
        if keys:
            for key, last in zip(keys, self.rereader.ends(keys), strict=True):
                interest.ended(key, dict(last))

    def _reader_of(self, topic: str) -> str:
        place = place_of(self.topology.prefix, topic)
        return place.other if place.role == OUTBOX else ""

    def _look_at_deliveries(self, doubts: Sequence[DeliverySuspicion]) -> None:
        if not doubts:
            return
        for doubt, found in zip(doubts, self.rereader.deliveries(doubts), strict=True):
            topic = place_of(self.topology.prefix, doubt.key.endpoint.topic)
            endpoint = EndpointKey(topic.node, topic.other)
            source = self.state.names.place(doubt.key.source) or TopicPartition(*doubt.key.source)
            for repeats in found:
                for kind, count, offsets in _kinds(repeats):
                    finding = fault(kind, source, repeats.block, endpoint, count, offsets)
                    self.state.register.add(finding)

    def _look_at_frames(self, doubts: Sequence[FrameSuspicion]) -> None:
        if not doubts:
            return
        answers = self.rereader.frames(doubts, self.state.read)
        for doubt, found in zip(doubts, answers, strict=True):
            for repeats in found:
                for kind, count, offsets in _kinds(repeats):
                    finding = self._frame_finding(doubt, repeats.block, kind, count, offsets)
                    self.state.register.add(finding)

    def _frame_finding(
        self,
        doubt: FrameSuspicion,
        block: int,
        kind: FindingKind,
        count: int,
        offsets: Sequence[int],
    ) -> Finding:
        source = self.state.names.text(doubt.source)
        links = [place_of(self.topology.prefix, place.topic).link for place in doubt.outboxes]
        told = ", ".join(links)
        if doubt.receiver:
            text = f"{doubt.receiver} gets messages of {source} over several links: {told}"
        elif kind is FindingKind.DUPLICATE:
            text = f"messages of {source} cross {told} more than once"
        else:
            text = f"messages of {source} cross {told} after later ones"
        return Finding(
            kind=kind,
            text=text,
            ids=tuple(message_id(source, doubt.generation, offset) for offset in offsets),
            link=told,
            source=source,
            first=min(offsets),
            last=max(offsets),
            count=count,
            anchor=str(block),
        )


def _unread(prefix: str, place: TopicPartition, first: int, last: int) -> Finding:
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{place} was deleted up to {last}, and the auditor had read it up to {first} only:"
        " nothing is certified about what lies between",
        ids=(f"{place}@{first}-{last}",),
        link=place_of(prefix, place.topic).link,
        source=str(place),
        first=first,
        last=last,
        count=last - first + 1,
        anchor=f"deleted@{first}",
    )


def _kinds(repeats: Repeats) -> Sequence[tuple[FindingKind, int, tuple[int, ...]]]:
    kinds = (
        (FindingKind.DUPLICATE, repeats.duplicate, repeats.duplicate_offsets),
        (FindingKind.DISORDER, repeats.disorder, repeats.disorder_offsets),
    )
    return [one for one in kinds if one[1]]
