"""What crosses links, reaches endpoints or does not leave, and how fast: from the ledgers.

Each batch of a lane leaves one small record, so this costs a hundredth of reading the messages.
Spec: kafka.md 1 (`ledger`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mesh.errors import ProtocolError, TransportError
from mesh.model.frames import MessageClass
from mesh.model.state import Ledger
from mesh.model.topology import Topology
from mesh.operate.minutes import MINUTE_MS, Minutes
from mesh.transport.port import KafkaCluster, Record, TopicPartition, place_of
from mesh.view.tail import Tail
from mesh.wire.state import decode_ledger

WINDOW_S = 5.0
"""Rates are averages over this time: lanes commit in batches, and a batch is no burst."""

SECONDS_KEPT = 60
"""Rates of the last minute, one a second, for small pictures."""

BACK_MAX = 20_000
"""Batches of each lane that are read back at the start: half an hour of a busy lane."""

BATCH_MAX = 1 << 40
"""Upper limit for one batch: a record with more messages, or fewer than none, is no lane's."""

SLICE_MAX = 2_000
"""Earlier batches that are taken at once: a twentieth of a core at one slice a second."""


@dataclass(slots=True)
class Flow:
    """Messages of both classes that went one way.

    Attributes:
        guaranteed, direct: By the minute.
        per_s: Rates of the last minute, newest last: (guaranteed, direct).
        counts: All counted messages, by class.
        frames: For a link: how many frames carried them.
        read: For a link: how many its reader has taken.
    """

    guaranteed: Minutes = field(default_factory=Minutes)
    direct: Minutes = field(default_factory=Minutes)
    per_s: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SECONDS_KEPT))
    counts: Counter[MessageClass] = field(default_factory=Counter)
    frames: int = 0
    read: int = 0
    _fresh: list[int] = field(default_factory=lambda: [0, 0])
    _window: deque[tuple[float, int, int]] = field(default_factory=deque)

    def take(self, message_class: MessageClass, count: int, at_ms: int, *, is_new: bool) -> None:
        """Count messages of one batch."""
        is_direct = message_class is MessageClass.DIRECT
        (self.direct if is_direct else self.guaranteed).add(at_ms, count)
        self.counts[message_class] += count
        if is_new:
            self._fresh[is_direct] += count

    def tick(self, now_s: float, before_s: float | None) -> None:
        """Note the rates of this moment.

        Args:
            now_s: The moment.
            before_s: When the previous tick was; None if there was none, so that it is unknown
                since when messages were counted.
        """
        if not self._window:
            self._window.append((now_s if before_s is None else before_s, 0, 0))
            if before_s is None:
                self._fresh = [0, 0]
                return
        self._window.append((now_s, self._fresh[0], self._fresh[1]))
        self._fresh = [0, 0]
        while len(self._window) > 2 and now_s - self._window[1][0] >= WINDOW_S:
            self._window.popleft()
        passed_s = now_s - self._window[0][0]
        if passed_s > 0:
            entries = list(self._window)[1:]
            rates = [sum(entry[which] for entry in entries) / passed_s for which in (1, 2)]
            self.per_s.append((rates[0], rates[1]))

    @property
    def total(self) -> int:
        """Messages of both classes that were counted."""
        return self.counts.total()

    @property
    def rates(self) -> tuple[float, float]:
        """Guaranteed and direct messages per second, now."""
        return self.per_s[-1] if self.per_s else (0.0, 0.0)

    def of_minute(self, minute: int) -> tuple[float, float]:
        """Return the mean rates of a minute."""
        return self.guaranteed.of(minute) / 60, self.direct.of(minute) / 60


class Traffic:
    """Follows the ledgers of every node.

    Attributes:
        links: By direction, (source, target).
        delivered: By (node, endpoint).
        taken: What clients published, by node.
        not_forwarded: Messages by direction and reason, since `since_ms`.
        faults: Kafka clusters that did not answer at the last look, with the reason.
    """

    def __init__(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        self.links: dict[tuple[str, str], Flow] = {}
        self.delivered: dict[tuple[str, str], Flow] = {}
        self.taken: dict[str, Flow] = {}
        self.not_forwarded: dict[tuple[str, str], Counter[str]] = {}
        self.faults: dict[str, str] = {}
        self._tails: dict[str, Tail] = {}
        self._ingress: dict[str, tuple[str, MessageClass]] = {}
        self._outboxes: dict[str, tuple[str, str]] = {}
        self._oldest_ms: dict[TopicPartition, int] = {}
        self._first_new_ms: int | None = None
        self._ticked_s: float | None = None
        self.extend(topology, kafka)

    def extend(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        """Follow the nodes of this topology too; counts are kept."""
        names = topology.names
        for node, declared in topology.nodes.items():
            tail = self._tails.get(declared.kafka)
            if tail is None:
                tail = Tail(kafka[declared.kafka], "traffic", BACK_MAX)
                self._tails[declared.kafka] = tail
            tail.add(TopicPartition.all_of(names.ledger(node), declared.lane_partitions))
            self.taken.setdefault(node, Flow())
            for message_class in MessageClass:
                self._ingress[names.ingress(node, message_class)] = (node, message_class)
                for other in topology.neighbours(node):
                    self._outboxes[names.outbox(node, other, message_class)] = (node, other)

    @property
    def is_whole(self) -> bool:
        """Whether everything to be read of the past has been read."""
        return all(tail.is_filled for tail in self._tails.values())

    def look(self, *, looks_for_new: bool) -> None:
        """Take what has arrived, and a slice of the past.

        Args:
            looks_for_new: Whether brokers are asked for ledgers that did not exist yet.
        """
        for name, tail in self._tails.items():
            if looks_for_new:
                try:
                    tail.look_for()
                except TransportError as error:
                    self.faults[name] = str(error)
                    continue
                self.faults.pop(name, None)
            self._take_all(tail.new(), is_new=True)
            self._take_all(tail.earlier(SLICE_MAX), is_new=False)

    @property
    def in_flight(self) -> int:
        """Counted messages that were sent over links and have not been read there yet."""
        return sum(flow.total - flow.read for flow in self.links.values())

    def tick(self, now_s: float) -> None:
        """Note the rates of this moment; called about once a second."""
        for flows in (self.links, self.delivered, self.taken):
            for flow in flows.values():
                flow.tick(now_s, self._ticked_s)
        self._ticked_s = now_s

    def _take_all(self, records: Iterable[Record], *, is_new: bool) -> None:
        for record in records:
            try:
                ledger = decode_ledger(record.value() or b"")
            except ProtocolError:
                continue  # a newer version of the wire: the auditor reports it
            at_ms = record.timestamp()[1]
            place = place_of(record)
            self._oldest_ms[place] = min(at_ms, self._oldest_ms.get(place, at_ms))
            if is_new and self._first_new_ms is None:
                self._first_new_ms = at_ms
            if _can_be(ledger):
                self._take(ledger, at_ms, is_new=is_new)

    def _take(self, ledger: Ledger, at_ms: int, *, is_new: bool) -> None:
        node = ledger.node
        for of in ledger.sources:
            if (found := self._ingress.get(of.topic)) is not None:
                self.taken[found[0]].take(found[1], of.messages, at_ms, is_new=is_new)
            elif (link := self._outboxes.get(of.topic)) is not None:
                self.links.setdefault(link, Flow()).read += of.messages
        for to in ledger.sent:
            if not to.repair:
                flow = self.links.setdefault((node, to.neighbour), Flow())
                flow.take(to.message_class, to.messages, at_ms, is_new=is_new)
                flow.frames += to.frames
        for delivery in ledger.delivered:
            flow = self.delivered.setdefault((node, delivery.endpoint), Flow())
            flow.take(delivery.message_class, delivery.messages, at_ms, is_new=is_new)
        for refusal in ledger.not_forwarded:
            reasons = self.not_forwarded.setdefault((node, refusal.neighbour), Counter())
            reasons[refusal.reason] += refusal.messages

    @property
    def since_ms(self) -> int | None:
        """Since when everything is counted, by brokers' clocks; None before anything was."""
        if not self.is_whole:
            return self._first_new_ms
        cut = [place for tail in self._tails.values() for place in tail.cut]
        begun = [self._oldest_ms[place] for place in cut if place in self._oldest_ms]
        return max(begun) if begun else min(self._oldest_ms.values(), default=None)

    def is_on_record(self, at_ms: int) -> bool:
        """Return whether the minute of a moment was counted completely."""
        since = self.since_ms
        return since is not None and at_ms // MINUTE_MS > since // MINUTE_MS

    def close(self) -> None:
        """Release the readers."""
        for tail in self._tails.values():
            tail.close()


def _can_be(ledger: Ledger) -> bool:
    told = [
        *(one.messages for one in ledger.sources),
        *(one.messages for one in ledger.sent),
        *(one.messages for one in ledger.delivered),
        *(one.messages for one in ledger.not_forwarded),
    ]
    return all(0 <= count < BATCH_MAX for count in told)
