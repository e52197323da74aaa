"""Whether a Kafka cluster answers, and whether readers get what is there: asked without waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException

from mesh.model.patience import Patience
from mesh.transport.kafka.faults import error_of, is_away
from mesh.transport.port import TopicPartition

ASKED_TOPIC = "__transaction_state"
"""A request must name something: the alternative is every topic there is. The Kafka cluster itself
is not requested: a broker that the others have given up answers that there is no broker, and the
client library, as of 2.16, ends the process over it."""

ASK_EVERY_S = 1.0
ANSWER_WITHIN_S = 3.0
"""How long a request may take: a broker that hangs counts as away after this and `ASK_EVERY_S`."""

LOOK_EVERY_S = 10.0
"""How often to request the ends of logs."""

ENDS_WITHIN_S = 60.0
"""How long such a request may take: longer than any connection waits for its answer. An admin
request that times out first may fail an assertion of the client library (as of 2.16), which ends
the process."""

STALLED_S = 30.0
"""How long a position may stay before the end of its log. A fetch ends within the time of a
request, which is a third of that, however slow the connection is."""

PATIENCE = Patience(1, 16)
"""Factor on that time: it grows with each client that has stalled."""

ASK_AGAIN_S = 0.5
"""How soon to ask brokers again where a log begins if they have not answered."""

Ends = Mapping[TopicPartition, Future[Any]]
"""Pending answers of brokers, each with an `offset`."""


class Health:
    """The last answer of a Kafka cluster.

    Args:
        ask: Sends a small request; its future ends with an answer or an exception.
        clock_s: A monotonic clock.
    """

    def __init__(
        self, ask: Callable[[], Future[object]], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._pending: Future[object] | None = None
        self._asked_s = -ASK_EVERY_S
        self._is_up = False

    def is_up(self) -> bool:
        """Return whether the last request was answered, and send another if that is due."""
        with self._lock:
            now_s = self._clock_s()
            if self._pending is not None and self._pending.done():
                fault = self._pending.exception()
                # A refusal is an answer too.
                self._is_up = fault is None or (
                    isinstance(fault, KafkaException) and not is_away(error_of(fault))
                )
                self._pending = None
            if self._pending is None and now_s - self._asked_s >= ASK_EVERY_S:
                self._asked_s = now_s
                self._pending = self._ask()
            return self._is_up


@dataclass(slots=True)
class StallDetector:
    """Finds partitions of which a client returns nothing more, though there is more.

    After a moment in which a partition had no leader, or its only broker was missing from the
    metadata, the client library (as of 2.16) may wait forever for an answer about the leader's
    epoch: it is connected, reports no error, and fetches nothing from that partition. Its knowledge
    of the end of the log freezes as well: only another client's request can distinguish that from a
    quiet topic.

    Args:
        ask: Requests the ends that a reader of committed records can reach.
        clock_s: A monotonic clock.
    """

    ask: Callable[[Sequence[TopicPartition]], Ends]
    clock_s: Callable[[], float] = time.monotonic
    _looked_s: float | None = None
    _ends: Ends = field(default_factory=dict)
    _since: dict[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    _was_drained: bool = False
    _patience: int = 1

    def is_due(self, *, drained: bool) -> bool:
        """Return whether to look; `drained` says that everything fetched has been returned by now.

        Nothing is due while brokers owe an answer: slow ones get no further requests.
        """
        self._was_drained |= drained
        now_s = self.clock_s()
        if self._looked_s is None:
            self._looked_s = now_s
        if now_s - self._looked_s < LOOK_EVERY_S:
            return False
        return all(asked.done() for asked in self._ends.values())

    def look(self, positions: Mapping[TopicPartition, int]) -> Sequence[TopicPartition]:
        """Return what has stalled, and request the ends for the next look.

        Args:
            positions: The client's positions, for all partitions that it should continue with.
        """
        self._looked_s = now_s = self.clock_s()
        since: dict[TopicPartition, tuple[int, float]] = {}
        is_told = False
        for place, position in positions.items():
            end = told_offset(self._ends.get(place)) or 0
            is_told |= end > 0
            if end > max(0, position):
                was, at_s = self._since.get(place, (position, now_s))
                since[place] = (position, at_s if was == position else now_s)
        # If the client never finished what it had, its positions say nothing.
        self._since = since if self._was_drained else {}
        self._was_drained = False
        if is_told and not since:
            self._patience = 1
        self._ends = self.ask(list(positions)) if positions else {}
        stalled_s = STALLED_S * self._patience
        return [at for at, (_, since_s) in self._since.items() if now_s - since_s >= stalled_s]

    def begin_again(self) -> None:
        """Continue with another client, more patiently: slow brokers must not be given up."""
        self._ends, self._since = {}, {}
        self._patience = PATIENCE.after(self._patience)


class Begins:
    """Asks where logs begin until brokers have answered; never blocks.

    Args:
        ask: Asks where logs begin.
        clock_s: A monotonic clock.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[TopicPartition]], Ends],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._wanted: dict[TopicPartition, Future[Any] | None] = {}
        self._asked_s = -ASK_AGAIN_S

    def __bool__(self) -> bool:
        """Whether something is wanted."""
        return bool(self._wanted)

    def want(self, place: TopicPartition) -> None:
        """Ask where one log begins, as of now."""
        self._wanted[place] = None

    def forget(self, place: TopicPartition) -> None:
        """Stop asking for this one."""
        self._wanted.pop(place, None)

    def forget_all(self) -> None:
        """Stop asking for all."""
        self._wanted.clear()

    def told(self) -> Mapping[TopicPartition, int]:
        """Return, once each, what brokers have answered, and repeat open requests."""
        found: dict[TopicPartition, int] = {}
        for place, asked in list(self._wanted.items()):
            if asked is None or not asked.done():
                continue
            if (begin := told_offset(asked)) is None:
                self._wanted[place] = None
                continue
            del self._wanted[place]
            found[place] = begin
        unasked = [place for place, asked in self._wanted.items() if asked is None]
        now_s = self._clock_s()
        if unasked and now_s - self._asked_s >= ASK_AGAIN_S:
            self._asked_s = now_s
            self._wanted.update(self._ask(unasked))
        return found


def told_offset(asked: Future[Any] | None) -> int | None:
    """Return the offset in a broker's answer; None if there is none, or not yet."""
    if asked is None or not asked.done():
        return None
    try:
        offset = int(asked.result().offset)
    except KafkaException:
        return None
    return offset if offset >= 0 else None
