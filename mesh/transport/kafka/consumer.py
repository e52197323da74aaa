"""Consumers in groups on real brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as Place

from mesh.errors import TransportError, TransportMovedError
from mesh.transport.kafka.faults import (
    MISSING,
    MOVED,
    Site,
    error_of,
    is_away,
    is_denied,
    transport_error,
)
from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.settings import Settings
from mesh.transport.port import BEGINNING, Passed, Record, TopicPartition

COMMITTED_S = 0.3
"""How long a read asks the group where to begin; the next one asks again."""


class KafkaConsumer:
    """A member of a group; one thread uses it.

    Of the assignors it knows those that any client library has by default, because members that
    others have written are in the same group; so each change takes all partitions away first.
    """

    def __init__(self, site: Site, name: str, group: str, settings: Settings, topic: str) -> None:
        self.name = name
        self.is_closed = False
        self._site = site
        self._group = group
        self._owned: dict[TopicPartition, Passed] = {}
        self._paused: frozenset[TopicPartition] = frozenset()
        self._logged: set[int] = set()
        self._refusal: TransportError | None = None
        self._taking = 0
        self._given: list[Place] = []
        try:
            self._consumer = Consumer(settings)
            self._consumer.subscribe(
                [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException as exc:
            raise transport_error(site, f"join group {group}", error_of(exc)) from exc

    @property
    def ticket(self) -> object:
        """What a writer needs to move the group on in this member's name, as of now."""
        return self._consumer.consumer_group_metadata()

    def owned(self) -> Mapping[TopicPartition, Passed]:
        """Return the partitions owned as of the last read, and where each was taken up."""
        return self._owned

    def _on_assign(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        # Where to begin is asked for by the next read: the answer may have to wait for the end
        # of a transaction, and a group waits for nobody's callback.
        self._given = list(partitions)
        consumer.assign([])

    def _take_up(self) -> bool:
        """Begin to read what the group has given, where it has come to; say whether that is done.

        No answer is given while a transaction that moves the group on is open.
        """
        try:
            answers = self._consumer.committed(self._given, timeout=COMMITTED_S)
        except KafkaException as exc:
            error = error_of(exc)
            if not is_away(error):
                raise transport_error(self._site, f"offsets of {self._group}", error) from exc
            return False
        begins: list[Place] = []
        for answer in answers:
            if answer.error is not None:
                return False
            at = TopicPartition(answer.topic, answer.partition)
            offset = answer.offset if answer.offset >= 0 else BEGINNING
            self._owned[at] = Passed(offset, answer.metadata or "")
            begin = OFFSET_BEGINNING if offset == BEGINNING else offset
            begins.append(Place(at.topic, at.partition, begin))
        self._given = []
        self._consumer.assign(begins)
        self._apply_pause(self._paused & self._owned.keys())
        return True

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        self._taking += 1
        self._given = []
        for place in partitions:
            self._owned.pop(TopicPartition(place.topic, place.partition), None)
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        LOG.warning(self._site.text(f"{self.name} was taken for dead in group {self._group}"))
        self._on_revoke(consumer, partitions)

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        """Return up to `limit` records, and keep the membership alive.

        Raises:
            TransportDeniedError: The brokers refuse this member.
        """
        if self.is_closed or limit < 1:
            return ()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        if self._given and not self._take_up():
            timeout_s = 0.0
        found: list[Message] = []
        taking = self._taking
        message = self._consumer.poll(timeout_s)
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
                return cast("Sequence[Record]", found)
            message = self._consumer.poll(0)
        return cast("Sequence[Record]", found if self._taking == taking else ())

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        code = error.code()
        if is_denied(error) and code not in MISSING:
            raise transport_error(self._site, f"consume in group {self._group}", error)
        if code not in self._logged:
            self._logged.add(code)
            LOG.warning(self._site.text(f"group {self._group}: {error.str()}"))
        return False

    def pause(self, places: Collection[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        before, self._paused = self._paused, frozenset(places)
        resumed = [
            Place(at.topic, at.partition) for at in before - self._paused if at in self._owned
        ]
        if resumed:
            self._consumer.resume(resumed)
        self._apply_pause((self._paused - before) & self._owned.keys())

    def _apply_pause(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._consumer.pause([Place(at.topic, at.partition) for at in places])

    def commit(self, positions: Mapping[TopicPartition, Passed]) -> None:
        """Move the group on; see the port."""
        if not positions:
            return
        if not positions.keys() <= self._owned.keys():
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
        self._owned = {}
        self._consumer.close()


def places_of(positions: Mapping[TopicPartition, Passed]) -> list[Place]:
    """Return positions as the client library takes them."""
    return [
        Place(at.topic, at.partition, passed.offset, passed.remark)
        for at, passed in positions.items()
    ]
