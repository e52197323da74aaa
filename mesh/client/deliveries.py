"""An endpoint's messages, read by somebody who keeps no position. Spec: K8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mesh.errors import DecodeError, TransportError
from mesh.model.topics import TopicNames
from mesh.transport.port import BEGINNING, KafkaCluster, Reader, Record, TopicPartition
from mesh.view.messages import Loss, ReceivedMessage, announced, received

READ_S = 0.2
LIMIT = 1_000
RETRY_MS = 500


class Deliveries:
    """Reads one endpoint of a node, committed messages only; an iterator without end.

    It may be opened before the endpoint exists: the node makes its topic when it reads the first
    subscription.

    Attributes:
        foreign: Records passed over because the mesh did not write them.
        losses: What was announced as lost among the messages read so far, oldest first.

    Args:
        kafka: Kafka cluster of the node.
        prefix: Of the mesh's topics.
        node: The node.
        endpoint: The endpoint.
        partitions: Of the node's data topics.
        from_beginning: Whether to start at the oldest message still there, or with what comes
            after this object was made.
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
        self._kafka = kafka
        self._topic = TopicNames(prefix).endpoint(node, endpoint)
        self._places = [TopicPartition(self._topic, number) for number in range(partitions)]
        self._now_ms = now_ms
        self._pause = pause
        self._reader: Reader | None = None
        self._starts = {} if from_beginning else dict(kafka.admin().ends(self._places))
        self._tried_ms = -RETRY_MS
        self._is_closed = False
        self.foreign = 0
        self.losses: list[Loss] = []

    def read(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return messages as soon as there are some, or none after the timeout.

        Raises:
            TransportError: Messages were deleted before they could be read.
        """
        deadline = self._now_ms() + int(timeout_s * 1000)
        while True:
            reader = self._reader or self._open()
            if reader is not None:
                left_s = max(0.0, (deadline - self._now_ms()) / 1000)
                if found := self._sifted(reader.read(min(READ_S, left_s), LIMIT)):
                    return found
                self._check(reader)
            if self._now_ms() >= deadline:
                return ()
            self._pause(0 if reader is not None else READ_S)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until `close`."""
        while not self._is_closed:
            yield from self.read(READ_S)

    def _open(self) -> Reader | None:
        """Return the reader once the endpoint's topic exists."""
        now = self._now_ms()
        if now - self._tried_ms < RETRY_MS:
            return None
        self._tried_ms = now
        if self._topic not in self._kafka.admin().describe([self._topic]):
            return None
        self._reader = self._kafka.reader("deliveries")
        self._reader.assign({place: self._starts.get(place, BEGINNING) for place in self._places})
        return self._reader

    def _sifted(self, records: Sequence[Record]) -> Sequence[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        for record in records:
            try:
                if (loss := announced(record)) is not None:
                    self.losses.append(loss)
                    continue
                found.append(received(record))
            except DecodeError:
                self.foreign += 1
        return found

    def _check(self, reader: Reader) -> None:
        if lost := reader.lost():
            raise TransportError(
                f"{lost[0].topic}[{lost[0].partition}]: messages were deleted before they were "
                "read; start again from the beginning"
            )

    def close(self) -> None:
        """Release the reader; iterating ends."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._reader is not None:
            self._reader.close()
