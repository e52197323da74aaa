"""All blocks that are not yet certified for good, of every ingress partition. Spec: K29."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.state import Ledger
from streaming.audits.block import Block, Certificate, Moments, Receipt
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.audits.times import RoutedTimes
from streaming.audits.unplaced_deliveries import RETAIN_S, UnplacedDeliveries
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import DeliveryRow, FrameRow, IngressRow, TopicPartition
from streaming.tables.topics import ENDPOINT, GUARANTEED, INGRESS, is_place, place_of

RETAIN_FAULTY_S = 600.0
"""How long a block with a fault is kept, in case that what is missing comes after all."""


@dataclass(slots=True)
class Blocks:
    """Blocks that are not yet certified for good.

    Attributes:
        prefix: Start of every topic name.
        open: By ingress partition and number.
        dropped: Highest block that was certified for good, per ingress partition.
        skipped: Highest block that is not judged, for not all of it could be read.
        unplaced: Deliveries that none of these takes.
        times: When offsets of ingress partitions were routed.
        timed: Partitions of which there is news of that -> the offset from which on.
    """

    prefix: str
    open: dict[TopicPartition, dict[int, Block]] = field(default_factory=dict)
    dropped: dict[TopicPartition, int] = field(default_factory=dict)
    skipped: dict[TopicPartition, int] = field(default_factory=dict)
    unplaced: UnplacedDeliveries = field(default_factory=UnplacedDeliveries)
    times: dict[TopicPartition, RoutedTimes] = field(default_factory=dict)
    timed: dict[TopicPartition, int] = field(default_factory=dict)

    def publish(self, rows: Sequence[IngressRow], now_s: float) -> None:
        """Take what was published in a batch; direct messages are not certified."""
        known: dict[tuple[TopicPartition, int], Block | None] = {}
        for row in rows:
            key = row.place, row.block
            if key not in known:
                is_guaranteed = place_of(self.prefix, row.place.topic).letter == GUARANTEED
                is_open = is_guaranteed and row.block > self._done(row.place)
                known[key] = self._block(*key, now_s) if is_open else None
            if (block := known[key]) is not None:
                block.publish(row)

    def deliver(self, rows: Sequence[DeliveryRow], names: Names, now_s: float) -> None:
        """Take what was delivered in a batch, and what was parked before."""
        known: dict[tuple[TopicPartition, int], Block | None] = {}
        for place, row in self.unplaced.published(self.prefix, rows, names, now_s):
            is_guaranteed = place_of(self.prefix, place.topic).letter == GUARANTEED
            if not is_guaranteed or row.source.topic_id in names.former:
                continue
            topic, key = place_of(self.prefix, row.place.topic), (place, row.block)
            endpoint = EndpointKey(topic.node, topic.other)
            if key not in known:
                is_open = row.block > self._done(place)
                known[key] = self._block(*key, now_s) if is_open else None
            if (block := known[key]) is not None:
                receipt = block.receipts.get(endpoint)
                if receipt is None:
                    receipt = block.receipts[endpoint] = Receipt()
                receipt.take(row)
                block.doubt(row.first, endpoint)
            elif row.block > self.skipped.get(place, -1):
                self.unplaced.take_late(self.prefix, place, endpoint, row, now_s)

    def carry(self, frames: Sequence[FrameRow], names: Names) -> None:
        """Take the frames of a batch: what is late may be in them, and has a further way then."""
        for frame in frames:
            place = names.place(frame.source)
            blocks = {} if place is None else self.open.get(place, {})
            for block in blocks.values():
                for ticket in block.tickets:
                    ticket.carry(frame)

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
        """Return whether nothing more can be published to a block.

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
        self.unplaced.go_ahead(ahead_s)

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
        self.unplaced.forget_recreated(place)
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
        """Note when the offsets in a ledger record were routed: by the broker's clock, in ms."""
        for source in ledger.sources:
            if source.first < 0 or not is_place(self.prefix, source.topic):
                continue
            topic = place_of(self.prefix, source.topic)
            if topic.kind == INGRESS and topic.letter == GUARANTEED:
                place = TopicPartition(source.topic, source.partition)
                self.times.setdefault(place, RoutedTimes()).note(source.first, at_ms)
                self.timed[place] = min(source.first, self.timed.get(place, source.first))

    def times_of(self, place: TopicPartition, first: int, last: int) -> Moments:
        """Return when the first and the last of some offsets of a partition were routed."""
        times = self.times.get(place)
        return Moments(None, None) if times is None else Moments(times.at(first), times.at(last))

    def retimed(self) -> Iterator[Certificate]:
        """Yield once the certificates for which later ledger records give the times."""
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
