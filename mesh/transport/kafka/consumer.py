"""Consumers in groups on real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as Place

from mesh.errors import TransportError, TransportMovedError, TransportUnavailableError
from mesh.transport.groups import Takings
from mesh.transport.kafka.faults import (
    GONE,
    MISSING,
    MOVED,
    Site,
    error_of,
    is_away,
    is_denied,
    transport_error,
)
from mesh.transport.kafka.health import Begins, StallDetector
from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.settings import Settings
from mesh.transport.kafka.unpacking import UNPACKABLE, PackedBatches
from mesh.transport.port import BEGINNING, Passed, Record, Skipped, TopicPartition

_NO_EPOCH = -1

COMMITTED_S = 0.3
"""How long to wait for the group's position before asking again."""


Agrees = Callable[[TopicPartition, int, int], int]
"""Returns how far, up to an offset, a log is what was read of it: see `Admin.agrees_until`."""


@dataclass(frozen=True, slots=True)
class _Taking:
    """A group's position in a partition, and the offset from which to read that."""

    passed: Passed
    begin: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A group's assignment, and where to begin: requested beside the reading thread."""

    given: Sequence[Place]
    answers: Future[Mapping[TopicPartition, _Taking] | None]


class KafkaConsumer:
    """A member of a group; one thread uses it.

    The start position is requested in another thread, because the answer may take half a minute,
    and a thread that reads many queues by turns must not wait for one of them.

    It supports the assignors that every client library has by default, because members written by
    others are in the same group; so each change takes all partitions away first.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        group: str,
        settings: Settings,
        topic: str,
        stalls: StallDetector,
        begins: Begins,
        packed: PackedBatches,
        agrees: Agrees,
    ) -> None:
        self.name = name
        self.is_closed = False
        self._site = site
        self._group = group
        self._settings = settings
        self._topic = topic
        self._stalls = stalls
        self._begins = begins
        self._packed = packed
        self._agrees = agrees
        self._starts: dict[TopicPartition, int] = {}
        self._outside: dict[TopicPartition, int] = {}
        self._skipped: list[Skipped] = []
        self._ends: dict[TopicPartition, int] = {}
        self._takings = Takings()
        self._paused: frozenset[TopicPartition] = frozenset()
        self._logged: set[int] = set()
        self._refusal: TransportError | None = None
        self._taking = 0
        self._given: list[Place] = []
        self._asked: _Asked | None = None
        self._beside = ThreadPoolExecutor(1, f"offsets-{name}")
        self._consumer = self._join()

    def _join(self) -> Consumer:
        try:
            consumer = Consumer(self._settings)
            consumer.subscribe(
                [self._topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
        except KafkaException as exc:
            raise transport_error(self._site, f"join group {self._group}", error_of(exc)) from exc
        return consumer

    @property
    def ticket(self) -> object:
        """What a writer needs to move the group on in this member's name, as of now."""
        return self._consumer.consumer_group_metadata()

    def owned(self) -> Mapping[TopicPartition, Passed]:
        """Return the partitions owned as of the last read, and where each was taken up."""
        return self._takings.owned

    def _on_assign(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        # The next read asks where to begin: the answer may have to wait for the end of a
        # transaction, and a group waits for no callback.
        self._given = list(partitions)
        consumer.assign([])

    def _take_up(self, within_s: float) -> bool:
        """Begin to read the assignment from the group's positions; return whether that is done.

        No answer is given while a transaction that moves the group on is open.
        """
        asked = self._asked
        if asked is None:
            asking = self._beside.submit(_ask_where, self._consumer, self._given, self._agrees)
            asked = self._asked = _Asked(self._given, asking)
        wait([asked.answers], within_s)
        if not asked.answers.done():
            return False
        self._asked = None
        if asked.given is not self._given:
            return False  # the group has since replaced that assignment
        try:
            answers = asked.answers.result()
        except KafkaException as exc:
            error = error_of(exc)
            if not is_away(error):
                raise transport_error(self._site, f"offsets of {self._group}", error) from exc
            return False
        except TransportUnavailableError:
            return False
        if answers is None:
            return False
        for at, taking in answers.items():
            self._takings.begin(at, taking.passed)
        self._given = []
        # Not by its name: the client library would return to the log's beginning, see
        # `KafkaReader`. If offset 0 is gone it goes on after that: see `_go_on`.
        self._assign({at: max(0, taking.begin) for at, taking in answers.items()})
        return True

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        if consumer is self._consumer:  # a former client's partitions are gone already
            self._forget(partitions)
        consumer.unassign()

    def _forget(self, partitions: Sequence[Place]) -> None:
        self._taking += 1
        self._given = []
        for place in partitions:
            at = TopicPartition(place.topic, place.partition)
            self._takings.end(at)
            self._starts.pop(at, None)
            self._outside.pop(at, None)
            self._begins.forget(at)
            self._packed.forget(at)

    def _on_lost(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        if consumer is self._consumer:
            LOG.warning(self._site.text(f"{self.name} was taken for dead in group {self._group}"))
        self._on_revoke(consumer, partitions)

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        """Return up to `limit` records, and keep the membership alive.

        Args:
            timeout_s: How long to wait for the first one.
            limit: How many at most; with none the consumer is not polled.

        Raises:
            TransportDeniedError: The brokers refuse this member.
        """
        if self.is_closed or limit < 1:
            return ()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        if self._given and not self._take_up(min(timeout_s, COMMITTED_S)):
            timeout_s = 0.0
        if self._begins:
            self._go_on()
        found: list[Any] = []
        if self._packed:
            found += self._pass_packed(limit)
        taking = self._taking
        message = self._poll(0.0 if found else timeout_s)
        while message is not None:
            if self._taking != taking:
                # What was read before the assignment changed is read again, here or elsewhere.
                found.clear()
                taking = self._taking
            try:
                if self._is_record(message):
                    found.append(message)
            except TransportError as exc:
                if not found:
                    raise
                # What was read is not read again: it is handed out first.
                self._refusal = exc
                break
            if len(found) >= limit:
                break
            message = self._poll(0)
        if self._stalls.is_due(drained=message is None) and not self._is_changing():
            try:
                self._look_for_stalls()
            except TransportError as exc:
                self._refusal = exc  # what was read is handed out first, here too
        # What was read of partitions that have since been revoked is read elsewhere.
        return self._takings.follow(cast("list[Record]", found if self._taking == taking else []))

    def _go_on(self) -> None:
        """Read on where logs begin beyond this member's position, and note what that skips."""
        begins = self._begins.told()
        if not begins:
            return
        for at, begin in begins.items():
            position = self._outside.pop(at)
            if begin > position and not self._is_unread(at, position):
                skipped = Skipped(at, position, begin - 1)
                self._skipped.append(skipped)
                LOG.warning(self._site.text(f"group {self._group}: {skipped}"))
        # A partition that is stuck after a fault cannot be sought, and no part of an assignment can
        # be restarted alone.
        self._assign({**self._reached(), **self._outside, **begins})

    def _pass_packed(self, most: int) -> Sequence[Record]:
        """Return records of batches that cannot be unpacked, and continue after them."""
        records, behind = self._packed.take(most)
        if behind:
            self._assign({**self._reached(), **self._outside, **behind})
        return records

    def _assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, and nothing else."""
        self._starts = dict(positions)
        for at in positions:
            self._ends.pop(at, None)
        self._consumer.assign([Place(at.topic, at.partition, to) for at, to in positions.items()])
        self._apply_pause(self._paused & self._takings.owned.keys())

    def _reached(self) -> dict[TopicPartition, int]:
        """Return how far the records go that were handed out, of all that is owned."""
        asked = [Place(at.topic, at.partition) for at in self._starts]
        answers = self._consumer.position(asked) if asked else ()
        return {
            at: max(start, answer.offset, self._ends.get(at, BEGINNING))
            for (at, start), answer in zip(self._starts.items(), answers, strict=True)
        }

    def _is_unread(self, at: TopicPartition, position: int) -> bool:
        """Return whether the group has no position yet: it begins with what is there."""
        is_new = self._takings.owned[at].offset == BEGINNING
        return is_new and position <= 0 and at not in self._ends

    def skipped(self) -> Sequence[Skipped]:
        """Return, once each, what was deleted before the group had passed it."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def _poll(self, timeout_s: float) -> Message | None:
        """Return the next record or fault, and note ends of partitions on the way."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            message = self._consumer.poll(max(0.0, deadline_s - time.monotonic()))
            if message is None:
                return None
            error, topic, partition = message.error(), message.topic(), message.partition()
            if topic is None or partition is None:
                return message
            if error is None:
                self._ends.pop(TopicPartition(topic, partition), None)
            if error is None or error.code() != KafkaError._PARTITION_EOF:
                return message
            self._ends[TopicPartition(topic, partition)] = message.offset() or 0

    def _is_changing(self) -> bool:
        """Return whether it is still asking where to begin with the assignment."""
        return bool(self._given) or (self._asked is not None and not self._asked.answers.done())

    def _look_for_stalls(self) -> None:
        """Join again, with another client, if this one returns nothing more."""
        resting = self._paused | self._outside.keys() | self._packed.places
        reached = {at: to for at, to in self._reached().items() if at not in resting}
        stalled = self._stalls.look(reached)
        for at in stalled:
            what = f"{at} at offset {reached[at]}"
            LOG.warning(
                self._site.text(f"{self.name} got nothing more of {what}; a new client reads on")
            )
        if stalled:
            self._join_again()

    def _join_again(self) -> None:
        """Continue with another client; without one, everything stays as it is.

        The former one leaves in the background: while its brokers hang that takes seconds.
        """
        former, self._consumer = self._consumer, self._join()
        self._beside.submit(former.close)
        self._end_all()
        self._stalls.begin_again()

    def _end_all(self) -> None:
        self._taking += 1
        self._given, self._asked = [], None
        self._takings.end_all()
        self._starts.clear()
        self._outside.clear()
        self._begins.forget_all()
        self._packed.forget_all()

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        code = error.code()
        if code in GONE:
            self._note_outside(message)
            return False
        if code == UNPACKABLE:
            self._note_packed(message)
        if is_denied(error) and code not in MISSING:
            raise transport_error(self._site, f"consume in group {self._group}", error)
        if code not in self._logged:
            self._logged.add(code)
            LOG.warning(self._site.text(f"group {self._group}: {error.str()}"))
        return False

    def _note_outside(self, message: Message) -> None:
        """Ask where a log begins that lacks this member's position."""
        at = TopicPartition(message.topic() or "", message.partition() or 0)
        if at in self._takings.owned:
            # If a later leader has less than was read the client library reports no offset.
            offset = message.offset()
            self._outside[at] = self._reached().get(at, 0) if offset is None else offset
            self._begins.want(at)

    def _note_packed(self, message: Message) -> None:
        """Search for the end of a batch that blocks this member."""
        at = TopicPartition(message.topic() or "", message.partition() or 0)
        if at in self._takings.owned:
            self._packed.note(at, max(message.offset() or 0, self._reached().get(at, 0)))

    def pause(self, places: Collection[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        before, self._paused = self._paused, frozenset(places)
        owned = self._takings.owned.keys()
        resumed = [Place(at.topic, at.partition) for at in (before - self._paused) & owned]
        if resumed:
            self._consumer.resume(resumed)
        self._apply_pause((self._paused - before) & owned)

    def _apply_pause(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._consumer.pause([Place(at.topic, at.partition) for at in places])

    def begin_again(self) -> None:
        """Read what is owned from where its logs begin; see the port."""
        self._taking += 1
        self._outside.clear()
        self._begins.forget_all()
        self._packed.forget_all()
        self._takings.begin_again()
        self._assign(dict.fromkeys(self._takings.owned, 0))

    def commit(self, positions: Mapping[TopicPartition, Passed]) -> None:
        """Move the group on; see the port."""
        if not positions:
            return
        if not positions.keys() <= self._takings.owned.keys():
            raise TransportMovedError(self._moved("it owns them no more"))
        try:
            answers = self._consumer.commit(offsets=places_of(positions), asynchronous=False)
        except KafkaException as exc:
            error = error_of(exc)
            if error.code() in MOVED:
                raise TransportMovedError(self._moved(error.str())) from exc
            raise transport_error(self._site, f"commit in group {self._group}", error) from exc
        for answer in answers or ():
            if answer.error is not None:
                raise transport_error(self._site, f"commit in group {self._group}", answer.error)

    def _moved(self, why: str) -> str:
        return self._site.text(f"commit in group {self._group}: {why}; nothing was committed")

    def close(self) -> None:
        """Leave the group at once; nothing is committed."""
        if self.is_closed:
            return
        self.is_closed = True
        self._end_all()
        try:
            self._packed.close()
            self._beside.shutdown()  # pending requests end or are cancelled in a moment
        finally:  # Ctrl-C or not: a member left behind keeps its partitions from all others
            self._beside.shutdown()
            self._consumer.close()


def _ask_where(
    consumer: Consumer, given: Sequence[Place], agrees: Agrees
) -> Mapping[TopicPartition, _Taking] | None:
    """Ask for a group's position, and whether its logs still have it; None without an answer.

    Raises:
        KafkaException: The group's coordinator does not answer.
        TransportError: The brokers do not.
    """
    found: dict[TopicPartition, _Taking] = {}
    for answer in consumer.committed(list(given), timeout=COMMITTED_S):
        if answer.error is not None:
            return None
        at = TopicPartition(answer.topic, answer.partition)
        passed = passed_of(answer)
        begin, epoch = passed.offset, passed.leader_epoch
        if begin > 0 and epoch is not None:
            begin = agrees(at, epoch, begin)
        found[at] = _Taking(passed, begin)
    return found


def passed_of(place: Place) -> Passed:
    """Return what a group has committed, as the client library reports it."""
    if place.offset < 0:
        return Passed(BEGINNING)
    return Passed(place.offset, place.metadata or "", place.leader_epoch)


def places_of(positions: Mapping[TopicPartition, Passed]) -> list[Place]:
    """Return positions as the client library takes them."""
    return [
        Place(at.topic, at.partition, one.offset, one.remark, _epoch_of(one))
        for at, one in positions.items()
    ]


def _epoch_of(passed: Passed) -> int:
    return _NO_EPOCH if passed.leader_epoch is None else passed.leader_epoch
