"""What was published and what was delivered, per block of source offsets. Spec: K29."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.frames import MessageClass
from mesh.model.state import Ledger
from streaming.audits.cases import Proven
from streaming.audits.findings import Finding
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.audits.passing import Ticket
from streaming.audits.queues import EVERYWHERE
from streaming.audits.strangers import (
    UNNAMED_S,
    Stranger,
    StrangerKey,
    forged_finding,
    mislabelled_finding,
    never_published_finding,
)
from streaming.audits.times import Times
from streaming.tables.digest import BLOCK_OFFSETS, NOTHING, Digest
from streaming.tables.filters import ALL
from streaming.tables.rows import DeliveryRow, FrameRow, IngressRow, SourceKey, TopicPartition
from streaming.tables.topics import ENDPOINT, GUARANTEED, INGRESS, is_place, place_of

PARKED_MAX = 10_000
"""Rows of such deliveries that are kept at most."""

RETAIN_S = 10.0
"""How long a certified block is kept for late cuts and late deliveries, in seconds."""

LATE_MAX = 1_000
"""Blocks and endpoints of which late deliveries wait at most; then they are judged at once."""

RETAIN_FAULTY_S = 600.0
"""How long a block with a fault is kept, in case that what is missing comes after all."""

CLASSES = {one.letter: one.value for one in MessageClass}
"""Letter of an ingress topic -> the class of what is published there."""


@dataclass(slots=True)
class Tally:
    """Messages of one subject in a block, or of a bundle of subjects.

    Attributes:
        digest: Of them.
        first: Lowest offset.
        last: Highest one.
        known: Of a bundle, how many filters tell its subjects apart from others.
    """

    digest: Digest
    first: int
    last: int
    known: int = ALL


BUNDLE = "\n"
"""Begins the keys of bundles: no subject has it."""


@dataclass(slots=True)
class Receipt:
    """What one endpoint got of a block.

    Attributes:
        digest: Of the messages.
        records: Partition of the endpoint topic -> lowest and highest offset there.
        generations: Of the source, that the deliveries say.
        unmoved: How many did not come from another member of a queue.
        is_cut: Whether some of it was in a topic that was recreated since.
    """

    digest: Digest = NOTHING
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    generations: dict[int, None] = field(default_factory=dict)
    unmoved: int = 0
    is_cut: bool = False

    def take(self, row: DeliveryRow) -> None:
        """Add the deliveries of a batch."""
        first, last = self.records.get(row.place.partition, (row.record_first, row.record_last))
        self.records[row.place.partition] = (
            min(first, row.record_first),
            max(last, row.record_last),
        )
        self.digest += row.digest
        self.generations[row.generation] = None
        self.unmoved += 0 if row.is_moved else row.digest.count


@dataclass(frozen=True, slots=True)
class Standing:
    """Faults of one endpoint that were told, and what was there by then.

    As long as what comes after that is equal, nothing needs to be read again to know that they
    stand, and that there are no others.

    Attributes:
        owed: What had to come.
        delivered: What came.
        expected: How many had to come, or came and were allowed to.
    """

    owed: Digest
    delivered: Digest
    expected: int

    def news(self, owed: Digest, delivered: Digest) -> Digest | None:
        """Return what had to come since then, if that is what came."""
        since = owed - self.owed
        return since if delivered - self.delivered == since else None


class Moments(NamedTuple):
    """When the first and the last of some offsets were routed, as `Times` tell it."""

    first_ms: int | None
    last_ms: int | None


class Certificate(NamedTuple):
    """That an endpoint got exactly what it had to, or that it did not. Spec: K29, lab.md 2.

    Attributes:
        source: Ingress partition, `mesh.tk3.in.g/0`.
        block: Number of the block.
        first: First source offset that it speaks for.
        last: Last one.
        endpoint: `pa2/s1`.
        expected: Messages that had to come, and those that came and were allowed to.
        delivered: Records that came.
        equal: Whether these are the same messages, each once and with its content.
        partial: Whether the block is still open.
        sure: Whether nothing can be missing: false where not all came that was asked for, and a
            selector stands on the way, which may have refused the rest.
        digest: Of what came.
        first_ms, last_ms: When the first and the last offset were routed, as `Times` tell it.
    """

    source: str
    block: int
    first: int
    last: int
    endpoint: str
    expected: int
    delivered: int
    equal: bool
    partial: bool
    sure: bool = True
    digest: Digest = NOTHING
    first_ms: int | None = None
    last_ms: int | None = None

    @property
    def key(self) -> str:
        """Return what a later certificate for the same replaces it by."""
        return f"{self.source} {self.block} {self.endpoint}"


@dataclass(slots=True)
class Block:
    """One block of an ingress partition.

    Attributes:
        subjects: What was published, by subject; of a bundle by its filters, after `BUNDLE`.
        receipts: What was delivered, by endpoint.
        last: Highest offset published, refused messages included; -1 for none.
        is_routed: Whether the lane of the ingress has gone past it: before, nobody knows who will
            get it.
        stamp: Rises with every change.
        changed_s: Time of the last change.
        judged_s: Time of the last judgement; of the first sight before that.
        judged: Stamp and version of interest that all is settled for.
        tickets: The ways of what is late, while they are followed; of each node where something
            is, those that endpoints wait for, the oldest first.
        unequal: Endpoint -> highest offset that was published when it was seen to lack something,
            if at every look since then it did.
        issued: Newest certificate per endpoint.
        proven: Per endpoint, the beginning that was read and found equal.
        looked: Per endpoint, the stamp and version that were read message by message.
        cleared: Of these, the ones that turned out to be equal.
        settled: Of these, the ones that were read when every hop had passed all of the block.
        standing: Endpoint -> faults that were told of it.
    """

    subjects: dict[str, Tally] = field(default_factory=dict)
    receipts: dict[EndpointKey, Receipt] = field(default_factory=dict)
    last: int = -1
    is_routed: bool = False
    stamp: int = 0
    changed_s: float = 0.0
    judged_s: float = 0.0
    judged: tuple[int, int] = (-1, -1)
    tickets: list[Ticket] = field(default_factory=list)
    unequal: dict[EndpointKey, int] = field(default_factory=dict)
    issued: dict[EndpointKey, Certificate] = field(default_factory=dict)
    proven: dict[EndpointKey, Proven] = field(default_factory=dict)
    looked: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    cleared: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    settled: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    standing: dict[EndpointKey, Standing] = field(default_factory=dict)

    def publish(self, row: IngressRow) -> None:
        """Take messages of one subject."""
        self.last = max(self.last, row.last)
        self.is_routed = False
        self.doubt(row.first)
        if row.subject is None:
            return
        key = row.subject if row.selected is None else f"{BUNDLE}{row.selected}"
        tally = self.subjects.get(key)
        if tally is None:
            self.subjects[key] = Tally(row.digest, row.first, row.last, row.known)
            return
        tally.digest += row.digest
        tally.known = min(tally.known, row.known)
        tally.first = min(tally.first, row.first)
        tally.last = max(tally.last, row.last)

    def doubt(self, first: int, endpoint: EndpointKey | None = None) -> None:
        """Take nothing for proven that news from an offset on may change.

        Args:
            first: Lowest offset of the news.
            endpoint: Who got them; None: they were published.
        """
        if not self.proven:
            return
        for key in [one for one, known in self.proven.items() if known.last >= first]:
            together = EndpointKey(EVERYWHERE, "" if endpoint is None else endpoint.name.casefold())
            if endpoint is None or key in (endpoint, together):
                del self.proven[key]

    def ticket_of(self, endpoint: EndpointKey) -> Ticket | None:
        """Return the first ticket that covers all that an endpoint was seen to lack."""
        since = self.unequal.get(endpoint, self.last)
        fit = (one for one in self.tickets if one.node == endpoint.node and one.bound >= since)
        return next(fit, None)

    def touch(self, now_s: float) -> None:
        """Note that something has changed."""
        self.stamp += 1
        self.changed_s = now_s

    def delivered(self, members: Sequence[EndpointKey]) -> Digest:
        """Return what some endpoints got together."""
        if len(members) == 1:
            receipt = self.receipts.get(members[0])
            return NOTHING if receipt is None else receipt.digest
        receipts = [self.receipts[one] for one in members if one in self.receipts]
        return sum((receipt.digest for receipt in receipts), NOTHING)

    def generations(self, members: Sequence[EndpointKey]) -> Mapping[int, None]:
        """Return the generations of what some endpoints got."""
        if len(members) == 1:
            receipt = self.receipts.get(members[0])
            return {} if receipt is None else receipt.generations
        receipts = [self.receipts[one] for one in members if one in self.receipts]
        return {number: None for receipt in receipts for number in receipt.generations}

    @property
    def is_faultless(self) -> bool:
        """Whether every certificate says equal."""
        return all(certificate.equal for certificate in self.issued.values())


class LateKey(NamedTuple):
    """Deliveries to one endpoint of a block that was certified for good."""

    place: TopicPartition
    block: int
    endpoint: EndpointKey


@dataclass(slots=True)
class Late:
    """These deliveries.

    Attributes:
        since_s: When the first was read, on the auditor's clock.
        first: Lowest source offset.
        last: Highest one.
        receipt: What came.
    """

    since_s: float
    first: int
    last: int
    receipt: Receipt = field(default_factory=Receipt)


@dataclass(slots=True)
class Blocks:
    """Blocks that are not yet certified for good.

    Attributes:
        prefix: Start of every topic name.
        open: By ingress partition and number.
        parked: Deliveries whose source nobody has named yet.
        dropped: Highest block that was certified for good, per ingress partition.
        skipped: Highest block that is not judged, for not all of it could be read.
        late: Deliveries of blocks that were certified for good.
        mislabelled: Deliveries that say another class than that of their ingress, or name a topic
            that is no ingress, to be told.
        times: When offsets of ingress partitions were routed.
        timed: Partitions of which there is news of that -> the offset from which on.
    """

    prefix: str
    open: dict[TopicPartition, dict[int, Block]] = field(default_factory=dict)
    parked: dict[StrangerKey, Stranger] = field(default_factory=dict)
    dropped: dict[TopicPartition, int] = field(default_factory=dict)
    skipped: dict[TopicPartition, int] = field(default_factory=dict)
    late: dict[LateKey, Late] = field(default_factory=dict)
    mislabelled: list[Finding] = field(default_factory=list)
    times: dict[TopicPartition, Times] = field(default_factory=dict)
    timed: dict[TopicPartition, int] = field(default_factory=dict)

    def publish(self, rows: Sequence[IngressRow], now_s: float) -> None:
        """Take what was published in a batch; direct messages are not certified."""
        for row in rows:
            is_guaranteed = place_of(self.prefix, row.place.topic).letter == GUARANTEED
            if is_guaranteed and row.block > self._done(row.place):
                self._block(row.place, row.block, now_s).publish(row)

    def deliver(self, rows: Sequence[DeliveryRow], names: Names, now_s: float) -> None:
        """Take what was delivered in a batch, and what was parked before."""
        named = [key for key in self.parked if names.place(key.source) is not None]
        known = [row for key in named for row in self.parked.pop(key).rows]
        places: dict[SourceKey, TopicPartition | None] = {}
        for row in (*known, *rows):
            if (place := places.get(row.source)) is None:
                place = places[row.source] = names.place(row.source)
            if place is None:
                key = StrangerKey(row.place.topic, row.source)
                self.parked.setdefault(key, Stranger(now_s)).rows.append(row)
                continue
            source = place_of(self.prefix, place.topic)
            if source.kind != INGRESS:
                self.mislabelled.append(never_published_finding(self.prefix, place, row))
                continue
            if row.message_class != CLASSES.get(source.letter):
                self.mislabelled.append(mislabelled_finding(self.prefix, place, row))
            is_former = row.source.topic_id in names.former
            if source.letter == GUARANTEED and not is_former:
                self._deliver(place, row, now_s)

    def _deliver(self, place: TopicPartition, row: DeliveryRow, now_s: float) -> None:
        topic = place_of(self.prefix, row.place.topic)
        endpoint = EndpointKey(topic.node, topic.other)
        if row.block > self._done(place):
            block = self._block(place, row.block, now_s)
            receipt = block.receipts.get(endpoint)
            if receipt is None:
                receipt = block.receipts[endpoint] = Receipt()
            receipt.take(row)
            block.doubt(row.first, endpoint)
        elif row.block > self.skipped.get(place, -1):
            key = LateKey(place, row.block, endpoint)
            late = self.late.setdefault(key, Late(now_s, row.first, row.last))
            late.first, late.last = min(late.first, row.first), max(late.last, row.last)
            late.receipt.take(row)

    def carry(self, frames: Sequence[FrameRow], names: Names) -> None:
        """Take the frames of a batch: what is late may be in them, and has a further way then."""
        for frame in frames:
            place = names.place(frame.source)
            blocks = {} if place is None else self.open.get(place, {})
            for block in blocks.values():
                for ticket in block.tickets:
                    ticket.carry(frame)

    def take_mislabelled(self) -> Sequence[Finding]:
        """Return the deliveries that say what cannot be, once."""
        taken = list(self.mislabelled)
        self.mislabelled.clear()
        return taken

    def forged(self, now_s: float) -> Iterator[Finding]:
        """Yield what was delivered of sources that no Kafka cluster has, and drop it.

        Args:
            now_s: All that was written before this moment has been read.
        """
        is_full = sum(len(one.rows) for one in self.parked.values()) > PARKED_MAX
        for key, stranger in list(self.parked.items()):
            if is_full or now_s - stranger.since_s >= UNNAMED_S:
                yield forged_finding(self.prefix, key, self.parked.pop(key).rows)

    def ripe(self, now_s: float) -> Mapping[LateKey, Late]:
        """Return what came too late for its block, once who asks for it must have been read.

        Args:
            now_s: All that was written before this moment has been read.
        """
        is_full = len(self.late) > LATE_MAX
        return {
            key: one for key, one in self.late.items() if is_full or now_s - one.since_s >= RETAIN_S
        }

    def _done(self, place: TopicPartition) -> int:
        """Return the highest block of which nothing more is taken."""
        return max(self.dropped.get(place, -1), self.skipped.get(place, -1))

    def _block(self, place: TopicPartition, number: int, now_s: float) -> Block:
        blocks = self.open.setdefault(place, {})
        block = blocks.get(number)
        if block is None:
            block = blocks[number] = Block(judged_s=now_s)
        block.touch(now_s)
        return block

    def is_closed(self, place: TopicPartition, number: int, read: int) -> bool:
        """Say whether nothing more can be published to a block.

        Only the ingress tells: a delivery that runs ahead of it, or one of what nobody published,
        ends no block.

        Args:
            place: The ingress partition.
            number: Of the block.
            read: Offset up to which the auditor has read the partition.
        """
        is_passed = read >= (number + 1) * BLOCK_OFFSETS
        blocks = self.open.get(place, {})
        return is_passed or any(n > number and one.last >= 0 for n, one in blocks.items())

    def rest(self, now_s: float, ahead_s: float) -> None:
        """Begin the rest of every block again: the clock is another one, so far ahead."""
        for _, _, block in self.walk():
            block.changed_s = block.judged_s = now_s
        for stranger in self.parked.values():
            stranger.since_s += ahead_s
        for late in self.late.values():
            late.since_s += ahead_s

    def begin_of(self, place: TopicPartition, target: TopicPartition, first: int) -> int:
        """Return from where on an endpoint partition holds what came of a source from an offset on.

        Args:
            place: The ingress partition.
            target: Partition of the endpoint topic.
            first: Lowest source offset.
        """
        number = first // BLOCK_OFFSETS
        if number <= self._done(place):
            return 0  # what is certified for good is not known any more
        topic = place_of(self.prefix, target.topic)
        endpoint = EndpointKey(topic.node, topic.other)
        receipts = [
            block.receipts[endpoint]
            for one, block in self.open.get(place, {}).items()
            if one >= number and endpoint in block.receipts
        ]
        begins = [
            one.records[target.partition][0] for one in receipts if target.partition in one.records
        ]
        return min(begins, default=0)

    def skip(self, place: TopicPartition, last: int) -> None:
        """Judge nothing up to a source offset, to the end of its block: it was not all read."""
        number = last // BLOCK_OFFSETS
        self.skipped[place] = max(number, self.skipped.get(place, -1))
        blocks = self.open.get(place, {})
        for skipped in [one for one in blocks if one <= number]:
            del blocks[skipped]

    def forget_recreated(self, place: TopicPartition, unread: int) -> None:
        """Forget a topic that was recreated, and what waits for records of it.

        Args:
            place: A partition of it, whether an ingress or another.
            unread: So many records of the new one were not read.
        """
        for known in (self.open, self.dropped, self.skipped, self.times, self.timed):
            known.pop(place, None)
        self.late = {key: one for key, one in self.late.items() if key.place != place}
        if unread and place_of(self.prefix, place.topic).kind == INGRESS:
            self.skip(place, unread - 1)
        topic = place_of(self.prefix, place.topic)
        for _, _, block in self.walk():
            block.tickets = [
                ticket
                for ticket in block.tickets
                if not any(one.reader.place == place for one in (*ticket.steps, *ticket.ahead))
            ]
            receipt = block.receipts.get(EndpointKey(topic.node, topic.other))
            records = {} if receipt is None or topic.kind != ENDPOINT else receipt.records
            if receipt is not None and place.partition in records:
                del records[place.partition]
                receipt.is_cut = True
                block.stamp += 1

    def walk(self) -> Iterator[tuple[TopicPartition, int, Block]]:
        """Yield all blocks in order."""
        for place, blocks in sorted(self.open.items()):
            for number, block in sorted(blocks.items()):
                yield place, number, block

    def route(self, place: TopicPartition, position: int, now_s: float) -> None:
        """Note how far the lane of an ingress partition has come; what it wrote is read by and by.

        Args:
            place: The ingress partition.
            position: Next offset that its lane reads.
            now_s: The auditor's clock, in seconds.
        """
        for block in self.open.get(place, {}).values():
            if not block.is_routed and position > block.last:
                block.is_routed, block.changed_s = True, now_s

    def tell_times(self, ledger: Ledger, at_ms: int) -> None:
        """Take when a lane has read what a ledger record tells."""
        for source in ledger.sources:
            if source.first < 0 or not is_place(self.prefix, source.topic):
                continue
            topic = place_of(self.prefix, source.topic)
            if topic.kind == INGRESS and topic.letter == GUARANTEED:
                place = TopicPartition(source.topic, source.partition)
                self.times.setdefault(place, Times()).note(source.first, at_ms)
                self.timed[place] = min(source.first, self.timed.get(place, source.first))

    def times_of(self, place: TopicPartition, first: int, last: int) -> Moments:
        """Return when the first and the last of some offsets of a partition were routed."""
        times = self.times.get(place)
        return Moments(None, None) if times is None else Moments(times.at(first), times.at(last))

    def retimed(self) -> Iterator[Certificate]:
        """Yield, once, the certificates whose times are told by ledgers that came after them."""
        for place, begin in self.timed.items():
            for number, block in self.open.get(place, {}).items():
                if (number + 1) * BLOCK_OFFSETS <= begin:
                    continue  # all that it has was told before
                known: dict[tuple[int, int], Moments] = {}
                for endpoint, certificate in block.issued.items():
                    bounds = certificate.first, certificate.last
                    if (moments := known.get(bounds)) is None:
                        moments = known[bounds] = self.times_of(place, *bounds)
                    if moments != (certificate.first_ms, certificate.last_ms):
                        timed = certificate._replace(
                            first_ms=moments.first_ms, last_ms=moments.last_ms
                        )
                        block.issued[endpoint] = timed
                        yield timed
        self.timed.clear()

    def forget(
        self, now_s: float, read: Mapping[TopicPartition, int], read_s: float, version: int
    ) -> Iterator[Certificate]:
        """Drop blocks that are certified for good; yield the last certificates of each.

        Args:
            now_s: The auditor's clock, in seconds.
            read: Next offset that the auditor reads of every topic partition.
            read_s: All that was written before has been read, in every Kafka cluster: who asks
                for a block, and what came of it, is known then.
            version: Of interest.
        """
        for place, blocks in self.open.items():
            for number in sorted(blocks):
                block = blocks[number]
                keep_s = RETAIN_S if block.is_faultless else RETAIN_FAULTY_S
                is_old = not 0 <= now_s - block.changed_s < keep_s
                is_settled = block.judged == (block.stamp, version) and not block.tickets
                is_known = block.changed_s < read_s
                is_closed = self.is_closed(place, number, read.get(place, 0))
                if not (is_old and is_known and is_settled and is_closed and block.is_routed):
                    break
                del blocks[number]
                self.dropped[place] = number
                yield from block.issued.values()
                if place in self.times:
                    self.times[place].forget((number + 1) * BLOCK_OFFSETS)
