"""Reader on real brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from mesh.transport.kafka.faults import GONE, MISSING, Site, error_of, transport_error
from mesh.transport.kafka.health import Begins, Health, StallDetector
from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.settings import Settings
from mesh.transport.kafka.unpacking import UNPACKABLE, PackedBatches
from mesh.transport.port import BEGINNING, Record, TopicPartition, place_of

SLICE_S = 0.05
"""Longest single wait in the client library: how long a change of the assignment may take."""

LEADERS_S = 0.5
"""Longest wait for the leaders of new topics."""

BEHIND_S = 1.0
"""How often to note the ends of logs."""

_EOF = KafkaError._PARTITION_EOF


class KafkaReader:
    """Reads committed records of assigned partitions.

    Only the thread that calls `read` touches the client library, which blocks a second thread for
    as long as the first one polls. All other methods leave notes that the next read (or the
    running one, within `SLICE_S`) acts on, so they never wait.

    The client library itself is never asked where a log begins (as of 2.16): if the answer arrives
    after the partition was moved, it asks again and goes there wherever it was moved to, so that
    everything comes twice. A log is read from offset 0, and only if that is gone another client
    asks for its beginning.

    Args:
        site: The Kafka cluster.
        name: End of the client id that brokers show.
        settings: Of the client library.
        health: Knows whether the Kafka cluster answers.
        stalls: Finds partitions that return nothing more.
        begins: Asks where logs begin.
        packed: Finds where batches end that cannot be unpacked.
        topics: Topics whose leaders should be known early.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        settings: Settings,
        health: Health,
        stalls: StallDetector,
        begins: Begins,
        packed: PackedBatches,
        topics: Collection[str] = (),
    ) -> None:
        self.name = name
        self.is_closed = False
        self.noted = 0
        self.heeded = 0
        self._site = site
        self._settings = settings
        self._health = health
        self._stalls = stalls
        self._begins = begins
        self._packed = packed
        self._is_outdated = False
        self._consumer = self._open()
        # Guards the following; never held while the client library waits.
        self._lock = threading.Lock()
        self._starts: dict[TopicPartition, int] = {}
        self._changes: dict[TopicPartition, int | None] = {}
        self._passed: dict[TopicPartition, int] = {}
        self._watched: dict[TopicPartition, None] = {}
        self._lost: dict[TopicPartition, None] = {}
        self._outside: set[TopicPartition] = set()
        self._logged: set[tuple[str, int]] = set()
        self._asked: set[str] = set()
        self._behind: Mapping[TopicPartition, int] = {}
        self._behind_s = -BEHIND_S
        if topics:
            self._find_leaders(set(topics))

    def _open(self) -> Consumer:
        try:
            return Consumer(self._settings)
        except KafkaException as exc:
            raise transport_error(self._site, f"open reader {self.name}", error_of(exc)) from exc

    def renew(self) -> None:
        """Forget what was learned about topics: one of them has been recreated.

        The client library keeps the epoch of each partition's leader and ignores lower ones. A
        recreated topic begins with the lowest: if the former one had seen elections, the leader
        would be sought at the wrong broker forever, without a word.
        """
        with self._lock:
            self._is_outdated = True

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions from these offsets; one that is already assigned is moved there."""
        with self._lock:
            self.noted += 1
            for place, offset in positions.items():
                self._changes[place] = offset
                self._starts[place] = offset
                self._passed.pop(place, None)
                self._lost.pop(place, None)
                self._outside.discard(place)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these; records of them already fetched may still be returned once."""
        with self._lock:
            self.noted += 1
            for place in partitions:
                if self._starts.pop(place, None) is not None:
                    self._changes[place] = None
                self._passed.pop(place, None)
                self._watched.pop(place, None)
                self._lost.pop(place, None)
                self._outside.discard(place)

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        """Return up to `limit` records, as soon as there is one, or none after the timeout.

        Args:
            timeout_s: How long to wait for the first one.
            limit: How many at most.
        """
        if self.is_closed or limit < 1:
            return ()
        deadline_s = time.monotonic() + timeout_s
        while True:
            if self._is_outdated:
                self._reopen()
            if self._begins:
                self._find_begins()
            if self._changes:
                self._apply_changes()
            wait_s = deadline_s - time.monotonic()
            found: list[Message] = []
            # A poll returns with the first record; a consume would wait until it has all of them.
            first = self._consumer.poll(min(max(wait_s, 0), SLICE_S))
            if first is not None:
                found = self._consumer.consume(limit - 1, 0) if limit > 1 else []
                found.insert(0, first)
            if self._stalls.is_due(drained=len(found) < limit):
                self._look_for_stalls()
            records: list[Any] = self._sift(found)
            if self._packed:
                records += self._pass_packed(limit - len(records))
            if records or wait_s <= 0:
                if self._watched:
                    self._note_positions()
                if time.monotonic() - self._behind_s >= BEHIND_S:
                    self._note_behind()
                return cast("Sequence[Record]", records)

    def _reopen(self) -> None:
        """Continue with another consumer from where the present one has come."""
        consumer = self._open()
        assigned = self._consumer.position(self._consumer.assignment())
        self._consumer.close()
        self._consumer = consumer
        self._stalls.begin_again()
        with self._lock:
            self._is_outdated = False
            self._asked.clear()
            for one in assigned:
                place = TopicPartition(one.topic, one.partition)
                if place in self._starts and place not in self._changes:
                    read_to = self._passed.get(place, BEGINNING)
                    self._changes[place] = max(self._starts[place], read_to, one.offset)

    def _apply_changes(self) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
            self.heeded = self.noted
        for place in changes:
            self._begins.forget(place)
            self._packed.forget(place)
        assigned = {(place.topic, place.partition) for place in self._consumer.assignment()}
        moved = [place for place in changes if (place.topic, place.partition) in assigned]
        if moved:
            self._consumer.incremental_unassign([Place(at.topic, at.partition) for at in moved])
        added = [
            Place(place.topic, place.partition, max(0, offset))
            for place, offset in changes.items()
            if offset is not None
        ]
        if added:
            self._find_leaders({place.topic for place in added})
            self._consumer.incremental_assign(added)

    def _find_begins(self) -> None:
        """Continue where logs begin whose offset 0 is gone, as soon as brokers have answered."""
        begins = self._begins.told()
        with self._lock:
            for place, begin in begins.items():
                if place in self._starts and place not in self._changes:
                    self._changes[place] = begin

    def _pass_packed(self, most: int) -> Sequence[Record]:
        """Return records of batches that cannot be unpacked, and continue after them."""
        records, behind = self._packed.take(most)
        with self._lock:
            for record in records:
                place = place_of(record)
                if place in self._starts and place not in self._changes:
                    self._starts[place] = record.offset() + 1
            for place, offset in behind.items():
                if place in self._starts and place not in self._changes:
                    self._changes[place] = offset
        return records

    def _find_leaders(self, topics: set[str]) -> None:
        """Request the leaders of new topics before they are assigned.

        By itself the client library looks once a second, and waits half a second before it requests
        the beginning of a partition whose leader it does not know yet.
        """
        if topics <= self._asked:
            return
        self._asked |= topics
        with suppress(KafkaException):
            self._consumer.list_topics(timeout=LEADERS_S)

    def _sift(self, found: list[Message]) -> list[Message]:
        records = [message for message in found if message.error() is None]
        if len(records) != len(found):
            for message in found:
                if (error := message.error()) is not None:
                    self._take_event(message, error)
        return records

    def _take_event(self, message: Message, error: KafkaError) -> None:
        code = error.code()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None:
            return  # about the connection: logged by the client library, judged by `reachable`
        place = TopicPartition(topic, partition)
        is_begun = code in GONE and self._is_begun(place)
        if code == UNPACKABLE:
            self._note_packed(place, offset or 0)
        with self._lock:
            if place not in self._starts or place in self._changes:
                return
            if code == _EOF:
                self._passed[place] = offset or 0
                return
            if code in GONE:
                if self._starts[place] == BEGINNING and not is_begun:
                    self._begins.want(place)
                    return
                self._lost[place] = None
                self._outside.add(place)
                return
        if code not in MISSING and (topic, code) not in self._logged:
            # A missing topic may still appear; anything else deserves a line.
            self._logged.add((topic, code))
            LOG.warning(self._site.text(f"reader {self.name}: topic {topic}: {error.str()}"))

    def _note_packed(self, place: TopicPartition, begin: int) -> None:
        """Search for the end of a batch, unless the reader is to go elsewhere."""
        [answer] = self._consumer.position([Place(place.topic, place.partition)])
        with self._lock:
            if place in self._starts and place not in self._changes:
                self._packed.note(place, max(begin, self._starts[place], answer.offset))

    def _is_begun(self, place: TopicPartition) -> bool:
        """Return whether anything was returned of a partition since it was last moved."""
        [answer] = self._consumer.position([Place(place.topic, place.partition)])
        return answer.offset >= 0 or place in self._passed

    def _note_positions(self) -> None:
        with self._lock:
            asked = [place for place in self._watched if place not in self._changes]
        if not asked:
            return
        places = self._consumer.position([Place(at.topic, at.partition) for at in asked])
        with self._lock:
            for place, answer in zip(asked, places, strict=True):
                # An end of partition may already say more; a move since then starts over.
                if place in self._starts and place not in self._changes:
                    known = self._passed.get(place, BEGINNING)
                    self._passed[place] = max(known, answer.offset)

    def _reached(self) -> Mapping[TopicPartition, int]:
        """Return how far the records go that were handed out, of all that is assigned."""
        with self._lock:
            starts = {at: s for at, s in self._starts.items() if at not in self._changes}
            passed = dict(self._passed)
        asked = [Place(at.topic, at.partition) for at in starts]
        answers = self._consumer.position(asked) if asked else ()
        return {
            at: max(start, answer.offset, passed.get(at, BEGINNING))
            for (at, start), answer in zip(starts.items(), answers, strict=True)
        }

    def _note_behind(self) -> None:
        """Note the ends of logs as of the last fetches: the client library sends no request."""
        self._behind_s = time.monotonic()
        found: dict[TopicPartition, int] = {}
        for at, reached in self._reached().items():
            _, end = self._consumer.get_watermark_offsets(
                Place(at.topic, at.partition), cached=True
            )
            found[at] = max(0, end - max(0, reached))
        self._behind = found

    def _look_for_stalls(self) -> None:
        """Continue with another consumer if the client library returns nothing more."""
        resting = self._outside | self._packed.places
        reached = {at: to for at, to in self._reached().items() if at not in resting}
        for place in self._stalls.look(reached):
            self._is_outdated = True
            at = f"{place} at offset {reached[place]}"
            text = f"reader {self.name} got nothing more of {at}; a new client reads on"
            LOG.warning(self._site.text(text))

    def behind(self) -> Mapping[TopicPartition, int]:
        """Return how far each position is behind the end of its log."""
        return self._behind

    def position(self, place: TopicPartition) -> int:
        """Return the offset to be read next; `BEGINNING` before anything is known.

        It is never too high. It is exact at the end of a partition; elsewhere from the second read
        after it was first requested.
        """
        with self._lock:
            start = self._starts.get(place)
            if start is None:
                return BEGINNING
            self._watched[place] = None
            return max(start, self._passed.get(place, BEGINNING))

    def lost(self) -> Sequence[TopicPartition]:
        """Return, once each, partitions whose position is outside their log."""
        with self._lock:
            lost = list(self._lost)
            self._lost.clear()
        return lost

    def reachable(self) -> bool:
        """Return whether the Kafka cluster answers; no wait, and False before the first answer."""
        return self._health.is_up()

    def close(self) -> None:
        """Release everything; call it when no thread is reading any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self._packed.close()
        self._consumer.close()
