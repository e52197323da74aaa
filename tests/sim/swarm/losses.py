"""What is lost on purpose, and the book that is kept of it: nothing may be missing without a word.

A message may be missing at an endpoint only if the endpoint itself was told of it: by an
announcement whose range holds it, which an operator has consented to or a policy has asked for, or
by a dead letter with its identity. Spec: R6, R12, R14.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mesh.model.control import Stop
from mesh.model.facts import Halted
from mesh.model.losses import Loss
from mesh.model.record_headers import MESH_HEADER
from mesh.model.state import DeadLetter, LossReason
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_dead_letter, decode_fact

if TYPE_CHECKING:
    from tests.sim.swarm.oracle import Oracle
    from tests.sim.swarm.watch import Message

Coordinates = tuple[str, int, int]
"""Topic id in hexadecimal, partition and offset."""
Place = tuple[str, str, int]
"""Node, topic and partition."""

LIMITED = frozenset({LossReason.ENDPOINT_FULL, LossReason.ENDPOINT_EXPIRED})
"""Why the oldest of an endpoint are given up."""
GENERATIONS_MAX = 9
GROUP = "clients"
"""Reads the endpoints."""
RESTING = "resting"
"""A group that has read nothing of them, and will."""


def identity_text(message: Message, generation: int) -> str:
    """Return an identity as dead letters tell it."""
    topic_id, partition, offset = message.identity
    return f"{topic_id.hex()}/{partition}/{generation}/{offset}"


@dataclass(slots=True)
class LossBook:
    """What is lost, and what is said of it.

    Attributes:
        frames: Every frame that was committed: which messages stood at these offsets.
        announced: Node and endpoint -> losses that it was told of, in order.
        letters: Target -> identity -> its dead letter.
        kept: Partition of an endpoint -> offset -> what was delivered there.
        stops: What is read no further now.
        consents: What an operator has accepted, ever.
        vanished: Payloads that a log lost before anybody had read them: nobody can know.
    """

    oracle: Oracle
    kafka: Mapping[str, MemoryKafka]
    reached: Counter[str]
    frames: dict[Coordinates, list[Message]] = field(default_factory=lambda: defaultdict(list))
    announced: dict[tuple[str, str], list[Loss]] = field(default_factory=lambda: defaultdict(list))
    letters: dict[str, dict[str, DeadLetter]] = field(default_factory=lambda: defaultdict(dict))
    kept: dict[TopicPartition, dict[int, tuple[Message, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    stops: dict[Place, Stop] = field(default_factory=dict)
    consents: set[Stop] = field(default_factory=set)
    vanished: set[bytes] = field(default_factory=set)
    _names: dict[tuple[bytes, int, int, int], Message] = field(default_factory=dict)
    _starts: dict[TopicPartition, int] = field(default_factory=dict)
    _fresh: list[tuple[str, str, Loss]] = field(default_factory=list)

    # -- what is written ----------------------------------------------------------------------

    def named(self, message: Message, generation: int) -> str:
        """Take note of the name that a message goes by; say whose it is if it has another's."""
        name = (*message.identity[:2], generation, message.identity[2])
        other = self._names.setdefault(name, message)
        return "" if other.payload == message.payload else f"{other} and {message}"

    def delivered(self, record: MemoryRecord, message: Message, generation: int) -> None:
        """Take note of where a message stands in an endpoint."""
        at = TopicPartition(record.topic(), record.partition())
        self.kept[at][record.offset()] = (message, generation)

    def told(self, node: str, endpoint: str, loss: Loss) -> None:
        """Take note of an announcement in an endpoint."""
        self.reached[f"announced: {loss.reason}"] += 1
        self.announced[node, endpoint].append(loss)
        if loss.node == node and len(loss.path) == 1:
            self._fresh.append((node, endpoint, loss))

    def progress(self, record: MemoryRecord) -> Iterator[tuple[str, str]]:
        """Follow what is stopped; yield a rule that is broken."""
        if record.value() is None:
            return
        node = record.topic().split(".")[1]
        fact = decode_fact(record.value() or b"")
        if not isinstance(fact, Halted):
            return
        place, stop = (node, fact.at.topic, fact.at.partition), fact.stop
        if not fact.is_over:
            self.reached[f"stopped: {stop.reason}"] += 1
            self.stops[place] = stop
            return
        lifted = self.stops.pop(place, None)
        if lifted is not None and lifted not in self.consents:
            yield "no consent", f"{node} reads on behind {lifted}"
        self.reached["resumed after consent"] += 1

    def letter(self, record: MemoryRecord) -> Iterator[tuple[str, str]]:
        """Take note of a dead letter; yield what is wrong with it."""
        letter = decode_dead_letter(dict(record.headers() or ())[MESH_HEADER] or b"")
        reason = letter.reason.lower()
        if reason not in LIMITED | {LossReason.QUARANTINED}:
            yield "dead letter", str(letter)
        self.reached[f"dead letter: {reason}"] += 1
        known = self.letters[letter.target]
        # An outbox may refuse again what it lost: a frame of its own each time.
        if letter.identity in known and reason in LIMITED:
            yield "dead letter twice", str(letter)
        known[letter.identity] = letter

    # -- what must hold after every commit ------------------------------------------------------

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield rules that are broken now, with details: what is announced has its letter."""
        for node, endpoint, loss in self._fresh:
            topic = self.oracle.names.endpoint(node, endpoint)
            if loss.reason in LIMITED | {LossReason.QUARANTINED}:
                identity = f"{loss.topic_id}/{loss.partition}/{loss.generation}/{loss.first}"
                if identity not in self.letters[topic]:
                    yield "announced without a letter", f"{loss} at {topic}"
        self._fresh.clear()

    def deleted(self, at: TopicPartition) -> Iterator[tuple[str, str]]:
        """Yield what is deleted from an endpoint although nobody has read it or has its letter."""
        if ".ep." not in at.topic:
            return
        for kafka in self.kafka.values():
            log = kafka.log(at)
            if log is None or log.start <= self._starts.get(at, 0):
                continue
            first, self._starts[at] = self._starts.get(at, 0), log.start
            groups = [
                kafka.groups.get(GROUP, {}),
                *(kafka.groups[g] for g in (RESTING,) if g in kafka.groups),
            ]
            read = min(group.get(at, 0) for group in groups)
            for offset in range(max(first, read), log.start):
                if offset not in self.kept[at]:
                    continue
                message, generation = self.kept[at][offset]
                if identity_text(message, generation) not in self.letters[at.topic]:
                    yield "deleted without a letter", f"{message} at {offset} of {at}"

    # -- what must hold in the end ----------------------------------------------------------------

    def is_told(self, node: str, endpoint: str, message: Message) -> bool:
        """Return whether an endpoint was told that a message is lost."""
        topic = self.oracle.names.endpoint(node, endpoint)
        letters = self.letters[topic]
        if any(identity_text(message, number) in letters for number in range(GENERATIONS_MAX)):
            return True
        return any(self._holds(loss, message) for loss in self.announced[node, endpoint])

    def _holds(self, loss: Loss, message: Message) -> bool:
        topic_id, partition, offset = message.identity
        if (loss.topic_id, loss.partition) == (topic_id.hex(), partition):
            return _is_in(loss, offset)
        return any(
            _is_in(loss, at[2]) and message in found
            for at, found in self.frames.items()
            if at[:2] == (loss.topic_id, loss.partition)
        )

    def given_up(self) -> Iterator[str]:
        """Yield letters of endpoints that hold no more, of which something is not as it must be."""
        for topic, letters in self.letters.items():
            if ".ep." not in topic:
                continue
            node, _, endpoint = topic.removeprefix("mesh.").partition(".ep.")
            for identity, letter in letters.items():
                topic_id, partition, generation, offset = identity.split("/")
                is_said = any(
                    (loss.topic_id, loss.partition) == (topic_id, int(partition))
                    and loss.generation == int(generation)
                    and loss.reason == letter.reason.lower()
                    and _is_in(loss, int(offset))
                    for loss in self.announced[node, endpoint]
                )
                if not is_said:
                    yield f"{letter} was never announced"


def _is_in(loss: Loss, offset: int) -> bool:
    return loss.first <= offset and (loss.last is None or offset <= loss.last)
