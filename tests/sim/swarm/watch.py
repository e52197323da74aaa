"""What must hold after every commit, read from the logs themselves. Spec: reliability.md 4, 6."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from mesh.errors import ProtocolError
from mesh.model.facts import EpochRaised
from mesh.model.frames import FrameFlags, FrameKind, MessageClass, SourcePartition
from mesh.model.record_headers import MESH_HEADER
from mesh.model.state import Ledger
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import TopicPartition
from mesh.view.messages import announced
from mesh.wire.control import decode_acknowledgement, decode_link_state
from mesh.wire.deliveries import decode_delivery
from mesh.wire.frames import decode_messages, origin_of, peek
from mesh.wire.keys import fact_key, link_key, subscribed_key
from mesh.wire.state import decode_dead_letter, decode_fact, decode_ledger
from tests.sim.meshes import naive_matches
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.folds import Folds
from tests.sim.swarm.losses import LossBook
from tests.sim.swarm.oracle import Arrived, Oracle
from tests.sim.swarm.published import Identity, Message, Name, ViolationError, Wish

if TYPE_CHECKING:
    from tests.sim.swarm.strangers import Strangers

_EPOCH_KEY = fact_key(EpochRaised(0).key)

_NONE = (-1, -1)


@dataclass(slots=True)
class Watch:
    """Follows every log of the mesh and raises `ViolationError` at once."""

    oracle: Oracle | Eras
    kafka: Mapping[str, MemoryKafka]
    now_ms: Callable[[], int]
    reached: Counter[str]
    dirty: dict[tuple[str, int], None] = field(default_factory=dict)
    book: LossBook | None = None
    strangers: Strangers | None = None
    published: dict[Identity, Message] = field(default_factory=dict)
    former: dict[Identity, list[Message]] = field(default_factory=lambda: defaultdict(list))
    wishes: list[Wish] = field(default_factory=list)
    delivered: dict[tuple[str, str], dict[Name, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    carried: dict[str, dict[Name, Message]] = field(default_factory=lambda: defaultdict(dict))
    passed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    cuts: dict[tuple[bytes, int], list[tuple[int, str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: int = 0
    touched: dict[str, None] = field(default_factory=dict)
    _seen: dict[tuple[str, int], int] = field(default_factory=dict)
    _sent: dict[tuple[str, int, SourcePartition], int] = field(default_factory=dict)
    folds: Folds = field(default_factory=Folds)
    _order: dict[tuple[str, int, bytes, int], tuple[int, int]] = field(default_factory=dict)
    _torn: dict[tuple[str, int], None] = field(default_factory=dict)
    _lane_cuts: dict[tuple[str, int], int] = field(default_factory=dict)
    _epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    _taken: dict[tuple[str, int], int] = field(default_factory=dict)
    _handlers: dict[str, tuple[MemoryKafka, int, Callable[[MemoryRecord], None] | None]] = field(
        default_factory=dict
    )
    _hash: object = field(default_factory=lambda: blake2b(digest_size=12))

    @property
    def trace(self) -> str:
        """The hash of all that was committed: places, offsets, virtual times, bytes."""
        return self._hash.hexdigest()

    # -- following ---------------------------------------------------------------------------

    def drain(self) -> None:
        """Judge what has become visible: copies first, then the accounts given of them."""
        if not self.dirty:
            return
        update = self._hash.update
        places = list(self.dirty)
        self.dirty.clear()
        # A topic may go between a record that is handed over and the commit.
        there = [at for at in places if at[0] in self._handlers or self._is_there(at[0])]
        found = [(self._handler(topic), topic, partition) for topic, partition in there]
        found.sort(key=lambda item: (item[0][1], item[1], item[2]))
        for (kafka, _, handle), topic, partition in found:
            self.touched[topic] = None
            if topic not in kafka.topics:
                continue
            log = kafka.topics[topic].logs[partition]
            begin, end = self._seen.get((topic, partition), 0), log.stable
            if end <= begin:
                continue
            self._seen[topic, partition] = end
            now = self.now_ms()
            for record in log.entries[max(0, begin - log.start) : end - log.start]:
                if record is None:
                    continue
                self.events += 1
                told = f"{topic} {partition} {record.offset()} {now} "
                update(told.encode() + (record.key() or b"-") + (record.value() or b"-"))
                if handle is not None:
                    handle(record)
        self._must(() if self.book is None else self.book.check())
        if isinstance(self.oracle, Eras):
            self._must(self.oracle.check())

    def changed(self, topic: str, partition: int) -> None:
        """Judge at once what is deleted from an endpoint."""
        if self.book is not None:
            self._must(self.book.deleted(TopicPartition(topic, partition)))

    def _must(self, faults: Iterable[tuple[str, str]]) -> None:
        for rule, detail in faults:
            raise ViolationError(rule, detail)

    def rewind(self, topic: str, partition: int, end: int) -> None:
        """Forget what a log has lost at its end: it comes again, or something else."""
        at = (topic, partition)
        self._torn[at] = None
        self._seen[at] = min(self._seen.get(at, 0), end)
        if topic in self.oracle.outboxes:
            self.carried.pop(topic, None)
            for place in [one for one in self._order if one[:2] == at]:
                del self._order[place]

    def messages(self) -> Iterator[Message]:
        """Yield all that clients have published, those included whose offsets came again."""
        yield from itertools.chain(self.published.values(), *self.former.values())

    def _handler(
        self, topic: str
    ) -> tuple[MemoryKafka, int, Callable[[MemoryRecord], None] | None]:
        known = self._handlers.get(topic)
        if known is None:
            known = self._handlers[topic] = self._find_handler(topic)
        return known

    def _find_handler(
        self, topic: str
    ) -> tuple[MemoryKafka, int, Callable[[MemoryRecord], None] | None]:
        kafka = self.kafka_of(topic)
        node, _, rest = topic.removeprefix("mesh.").partition(".")
        if topic in self.oracle.outboxes:
            return kafka, 0, self._frame
        if isinstance(self.oracle, Eras) and topic == self.oracle.names.config():
            return kafka, 0, self.oracle.follow
        if rest.startswith("ep."):
            endpoint = rest.removeprefix("ep.")
            return kafka, 0, lambda record: self._delivery(node, endpoint, record)
        if rest == "ledger":
            return kafka, 1, lambda record: self._ledger(node, record)
        if rest == "control":
            return kafka, 1, lambda record: self._control(node, record)
        if rest == "progress":
            return kafka, 1, self._progress
        if rest == "dlq":
            return kafka, 1, self._dead_letter
        if rest.startswith("to.") and rest.endswith(".c"):
            return kafka, 1, lambda record: self._told_to_a_neighbour(node, record)
        return kafka, 1, None

    def _is_there(self, topic: str) -> bool:
        return any(topic in one.topics for one in self.kafka.values())

    def kafka_of(self, topic: str) -> MemoryKafka:
        """Return the Kafka cluster that has a topic."""
        return next(one for one in self.kafka.values() if topic in one.topics)

    # -- links ------------------------------------------------------------------------------

    def _frame(self, record: MemoryRecord) -> None:
        topic, partition = record.topic(), record.partition()
        strangers = self.strangers
        if strangers is not None and strangers.is_strange(topic, partition, record.offset()):
            return
        sender, reader, of = self.oracle.outboxes[topic]
        peeked = peek(record.key() or b"")
        hop = peeked.hop
        self._path(hop.path, sender, (*hop.path, reader), record)
        whole = (*hop.path, reader)
        arrived = self.oracle.arrivals(whole)
        told = Arrived(hop.zone, hop.hops, hop.join_hops, hop.crossed_external)
        if told not in arrived and (peeked.count or self.book is None):
            raise ViolationError("hops on a link", f"{told} instead of {arrived} in {record}")
        is_repair = bool(peeked.flags & FrameFlags.REPAIR)
        if not is_repair:
            self._chain(topic, partition, of, peeked, record)
        origin = origin_of(peeked)
        messages = decode_messages(record.value() or b"", origin)
        source = peeked.source
        for offset, index, _, key, _, payload, _ in messages:
            identity = (source.topic_id, source.partition, offset)
            subject = origin.subjects[index]
            message = self._known(identity, subject, payload, key, of, record)
            if isinstance(self.oracle, Eras):
                self.oracle.crossed(message, whole, told)
            if self.book is not None:
                outbox_id = self.kafka_of(topic).topics[topic].info.topic_id.hex()
                self.book.frames[outbox_id, partition, record.offset()].append(message)
                if is_repair:
                    continue
            if message.name in self.carried[topic]:
                if self._may_repeat(message, reader):
                    continue
                raise ViolationError(f"twice on a link ({of})", f"{message.identity} in {record}")
            self.carried[topic][message.name] = message
            self._ordered(topic, partition, message, of, record)
        if len(messages) > 1:
            self.reached["frame of several messages"] += 1
        if hop.crossed_external:
            self.reached["message behind an external link"] += 1
        if hop.join_hops:
            self.reached[f"message behind {min(hop.join_hops, 3)} joins in a row"] += 1

    def _chain(self, topic, partition, of, peeked, record) -> None:
        chain = peeked.hop.chain
        at = (topic, partition, chain.source)
        before = self._sent.get(at, -1)
        is_seen = (topic, partition) not in self._torn or chain.previous < before
        if of is MessageClass.GUARANTEED and chain.previous != before and is_seen:
            text = f"previous is {chain.previous}, last sent was {before}, in {record}"
            raise ViolationError("chain of a link", text)
        if peeked.kind is FrameKind.GAP:
            self._sent[at] = chain.last
            return
        if not max(chain.previous, -1) < chain.first <= chain.last or chain.last <= before:
            raise ViolationError("chain of a link", f"{chain} after {before} in {record}")
        self._sent[at] = chain.last

    def _path(self, path, last, whole, record) -> None:
        if not path or path[-1] != last or (len(whole) > 1 and not self.oracle.arrivals(whole)):
            raise ViolationError("path", f"{'>'.join(whole)} is no legal way, in {record}")

    def _known(self, identity, subject, payload, key, of, record) -> Message:
        message = self.published.get(identity)
        if message is not None and message.payload != payload:
            # A log that was cut off gives its offsets out again.
            same = [one for one in self.former.get(identity, ()) if one.payload == payload]
            message = same[0] if same else message
        if message is None:
            raise ViolationError("phantom", f"{identity} was never published, in {record}")
        if (message.subject, message.payload, message.key) != (subject, payload, key):
            raise ViolationError("corrupt", f"{message} became {subject} {payload!r} in {record}")
        if message.of is not of:
            raise ViolationError("class", f"{message} became {of} in {record}")
        return message

    def _ordered(self, topic, partition, message, of, record) -> None:
        at = (topic, partition, *message.identity[:2])
        if of is MessageClass.GUARANTEED and self._order.get(at, _NONE) >= message.order:
            raise ViolationError("order", f"{message.identity} in {record}")
        self._order[at] = message.order

    # -- endpoints ----------------------------------------------------------------------------

    def _delivery(self, node: str, endpoint: str, record: MemoryRecord) -> None:
        if self.book is not None and (loss := announced(record)) is not None:
            self.book.told(node, endpoint, loss)
            return
        headers = dict(record.headers() or ())
        told = decode_delivery(headers[MESH_HEADER])
        self._path(told.path, node, told.path, record)
        identity = (told.source.topic_id, told.source.partition, told.offset)
        subject = headers["mesh-subject"].decode()
        of = told.message_class
        message = self._known(identity, subject, record.value(), record.key(), of, record)
        if isinstance(self.oracle, Eras):
            self.oracle.crossed(message, told.path, None)
        if told.path[0] != message.node:
            raise ViolationError("path", f"{told.path} of {message}")
        if self.book is not None:
            self.book.delivered(record, message, told.generation)
            if both := self.book.named(message, told.generation):
                raise ViolationError("one name for two messages", both)
        seen = self.delivered[node, endpoint]
        if message.name in seen:
            at = next(
                wish.of for wish in self.wishes if (wish.node, wish.endpoint) == (node, endpoint)
            )
            raise ViolationError(f"twice at a {at} endpoint ({of})", f"{message} in {record}")
        seen[message.name] = None
        lanes = self.oracle.topology.nodes[node].lanes
        in_force = self._lane_cuts.get((node, record.partition() % lanes), -1)
        mine = [w for w in self.wishes if (w.node, w.endpoint) == (node, endpoint)]
        wanted = [w for w in mine if naive_matches(w.filter_, subject)]
        if not wanted:
            raise ViolationError("unwanted", f"{message} at {node}/{endpoint}")
        if mine[0].of is MessageClass.DIRECT:
            return
        self._ordered(record.topic(), record.partition(), message, of, record)
        if all(wish.ended is not None and wish.ended <= in_force for wish in wanted):
            raise ViolationError("unwanted", f"{message} at {node}/{endpoint}, after its end")

    # -- accounts -----------------------------------------------------------------------------

    def _ledger(self, node: str, record: MemoryRecord) -> None:
        ledger = decode_ledger(record.value() or b"")
        is_beside = record.partition() >= self.oracle.topology.nodes[node].lanes
        if self.book is not None and is_beside:
            self._dropped(node, ledger)  # who was fenced as a lane may end a catch-up yet
            return
        if ledger.lane_epoch < self._epochs.get((node, ledger.lane), 0):
            raise ViolationError("stale epoch", f"lane {ledger.lane} in {record}")
        self._epochs[node, ledger.lane] = ledger.lane_epoch
        accepted = {(d.topic, d.partition) for d in ledger.dropped if d.reason == "gap_accepted"}
        for source in ledger.sources:
            at = (node, source.topic, source.partition)
            before = self.passed.get(at, 0)
            # How far direct copies went is known to a worker better than to Kafka: it may go back.
            is_back = source.first < before and not source.topic.endswith(".d")
            is_back &= at[1:] not in accepted
            if is_back or source.next < source.first:
                text = f"{source.topic}[{source.partition}] read from {source.first}"
                raise ViolationError("position", f"{text}, committed was {before}")
            self.passed[at] = source.next
        for cut in ledger.cuts:
            if cut.uuid == f"u-{node}":
                self._lane_cuts[node, ledger.lane] = cut.clients_offset
            ingress = self.oracle.ingresses.get(cut.topic)
            if ingress is not None and ingress[0] == node:
                self.cuts[cut.topic_id, cut.partition].append(
                    (cut.position, cut.uuid, cut.clients_offset)
                )
        self._dropped(node, ledger)

    def _dropped(self, node: str, ledger: Ledger) -> None:
        for lost in ledger.dropped:
            self.reached[f"dropped: {lost.reason}"] += 1
            self.refused[lost.reason, lost.topic] += lost.messages
        for refusal in ledger.not_forwarded:
            self.reached[f"not forwarded: {refusal.reason}"] += 1
            self.refused[str(refusal.reason), node] += refusal.messages

    def _progress(self, record: MemoryRecord) -> None:
        self.folds.take(record)
        if record.key() != _EPOCH_KEY:
            self._must(self.book.progress(record) if self.book is not None else ())
            return
        raised = decode_fact(record.value() or b"")
        assert isinstance(raised, EpochRaised)
        epoch = raised.epoch
        at = (record.topic(), record.partition())
        if epoch <= self._taken.get(at, 0):
            text = f"{epoch} after {self._taken[at]} in {record}"
            raise ViolationError("lane epoch", text)
        self._taken[at] = epoch

    def _control(self, node: str, record: MemoryRecord) -> None:
        value = record.value()
        if record.key() != subscribed_key() or value is None:
            return
        complete = decode_acknowledgement(value).complete
        for wish in self.wishes:
            if wish.node == node and wish.offset <= complete and wish.settled_ms is None:
                wish.settled_ms = self.now_ms()

    def _told_to_a_neighbour(self, node: str, record: MemoryRecord) -> None:
        """Judge positions by which a neighbour deletes: a successor begins nowhere below. K5."""
        value = record.value()
        if record.key() != link_key() or value is None:
            return
        try:
            told = decode_link_state(value)
        except ProtocolError:
            return  # a stranger's
        for one in told.positions:
            committed = self.folds.position(node, one)
            if committed is not None and one.needed > committed:
                text = f"{node} told {one} and has committed {committed}"
                raise ViolationError("told before it was committed", text)

    def _dead_letter(self, record: MemoryRecord) -> None:
        if self.strangers is not None:
            told = decode_dead_letter(dict(record.headers() or ())[MESH_HEADER] or b"")
            if self.strangers.letter(told.topic, told.partition, told.offset, told.reason):
                return
        if self.book is not None:
            self._must(self.book.letter(record))
            return
        raise ViolationError(
            "dead letter", str(decode_dead_letter(dict(record.headers())[MESH_HEADER]))
        )
