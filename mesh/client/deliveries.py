"""An endpoint's messages, for a reader that keeps no position. Spec: K8."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from mesh.client.awaited import READ_S, AwaitedTopic, deadline_of
from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.transport.port import BEGINNING, KafkaCluster, Reader, TopicPartition, place_of
from mesh.view.messages import ReceivedMessage, Sifter

LIMIT = 1_000


class Deliveries(Sifter):
    """Reads one endpoint of a node, committed messages only; an iterator without end.

    It may be opened before the endpoint exists: the node creates its topic when it reads the
    first subscription.

    Args:
        kafka: Kafka cluster of the node.
        prefix: Of the mesh's topics.
        node: The node.
        endpoint: The endpoint.
        partitions: Of the node's data topics.
        from_beginning: Whether to start at the oldest message that still exists, or with what
            comes after this object was created.
        now_ms: Monotonic clock.
        pause: Lets time pass while nothing is there yet, in seconds.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        prefix: str,
        node: str,
        endpoint: str,
        partitions: int,
        *,
        from_beginning: bool,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        super().__init__()
        self._kafka, self._now_ms = kafka, now_ms
        self._topic = TopicNames(prefix).endpoint(node, endpoint)
        self._places = TopicPartition.all_of(self._topic, partitions)
        self._ahead: deque[ReceivedMessage] = deque()
        self._starts = {} if from_beginning else dict(kafka.admin().ends(self._places))
        self._reading = AwaitedTopic(kafka, self._topic, self._open, now_ms=now_ms, pause=pause)

    def read(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return messages as soon as there are some, or none after the timeout.

        Raises:
            TransportError: Messages were deleted before they could be read. The next call continues
                with the oldest that still exist.
            ClosedError: This reader is closed, or this process was forked after it was made.
        """
        return self._read_before() or self._reading.read(timeout_s, self._take)

    def _read_before(self) -> list[ReceivedMessage]:
        """Take what was read and not handed out because an iteration stopped."""
        ahead = [] if self._reading.process.is_forked else list(self._ahead)
        self._ahead.clear()
        return ahead

    def read_to_end(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return everything that is there now and was not read yet, or what arrived in time.

        A single `read` returns what arrives first, which may be only some of the partitions.

        Raises:
            TransportError: As for `read`, also if another topic has taken the place of the one that
                was read, or the Kafka cluster does not answer.
            ClosedError: As for `read`.
        """
        self._reading.check_open()
        deadline = deadline_of(self._now_ms(), timeout_s)
        ends = self._kafka.admin().stable_ends(self._places)
        self._refuse_another(ends)
        found = self._read_before()
        try:
            while self._is_before(ends) and self._now_ms() <= deadline:
                found += self._reading.read_on(READ_S, self._take)
        except BaseException:
            self._ahead.extend(found)  # the next call returns it
            raise
        return found

    def _refuse_another(self, ends: Mapping[TopicPartition, int]) -> None:
        """Begin again if the topic ends before what was read of it: it may be another one.

        No record of it would arrive before it has outgrown the former one.
        """
        with self._reading.used():
            reader = self._reading.source
            if reader is None or all(reader.position(place) <= end for place, end in ends.items()):
                return
            if self._reading.notice_another(at_once=True):
                self._begin_again(reader)

    def _is_before(self, ends: Mapping[TopicPartition, int]) -> bool:
        reader = self._reading.source
        if reader is None:
            return any(ends.values()) and not self.is_closed
        return any(reader.position(place) < end for place, end in ends.items())

    def _take(self, reader: Reader, timeout_s: float) -> Sequence[ReceivedMessage]:
        records = reader.read(timeout_s, LIMIT)
        if records and self._reading.notice_another():
            self._begin_again(reader)
        found = self.sifted(records)
        for last in {record.partition(): record for record in records}.values():
            self._starts[place_of(last)] = last.offset() + 1
        if not found:
            self._check(reader)
        return found

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until `close`."""
        while not self._reading.is_closed:
            self._ahead.extend(self._read_before() or self._reading.read_on(READ_S, self._take))
            while self._ahead:
                yield self._ahead.popleft()

    def _open(self) -> Reader:
        reader = self._kafka.reader("deliveries")
        reader.assign({place: self._starts.get(place, BEGINNING) for place in self._places})
        return reader

    def _check(self, reader: Reader) -> None:
        if lost := reader.lost():
            if self._reading.notice_another(at_once=True):
                self._begin_again(reader)
            self._go_on(reader, lost)

    def _begin_again(self, reader: Reader) -> NoReturn:
        """Read the new topic that has the former one's name."""
        reader.renew()
        self._go_on(reader, self._places)

    def _go_on(self, reader: Reader, lost: Sequence[TopicPartition]) -> NoReturn:
        self._starts |= dict.fromkeys(lost, BEGINNING)
        reader.assign(dict.fromkeys(lost, BEGINNING))
        raise TransportError(
            f"{lost[0]}: messages were deleted before they were read; "
            "the next read goes on with the oldest that are still there"
        )

    @property
    def is_closed(self) -> bool:
        """Whether the reader is closed."""
        return self._reading.is_closed

    def close(self) -> None:
        """Release the reader; iterating ends."""
        self._reading.close()
        self._ahead.clear()
