"""Whether a Kafka cluster answers, and whether readers get what there is: asked without waiting."""

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
"""Asked for because something must be: the alternative is every topic there is. Of the Kafka
cluster itself nobody asks with a request of its own: a broker that the others have given up answers
that there is no broker, and the client library, as of 2.16, ends the process over it."""

ASK_EVERY_S = 1.0
ANSWER_WITHIN_S = 3.0
"""How long a request may take: a broker that hangs counts as away after this and `ASK_EVERY_S`."""

LOOK_EVERY_S = 10.0
"""How often ends of logs are asked for."""

ENDS_WITHIN_S = 60.0
"""How long such a question may take: longer than any connection waits for its answer. An admin
request whose own time runs out first may fail an assertion of the client library (as of 2.16),
which ends the process."""

STALLED_S = 30.0
"""So long a position may stand before the end of its log. A fetch ends within the time of a
request, which is a third of that, however slow the way is."""

PATIENCE = Patience(1, 16)
"""So many times as long it may take, the more clients have stalled before."""

ASK_AGAIN_S = 0.5
"""How soon brokers are asked again where a log begins that have not answered."""

Ends = Mapping[TopicPartition, Future[Any]]
"""What brokers answer, each with an `offset`."""


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
        """Return whether the last request was answered, and ask again if that is due."""
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
    """Finds partitions of which a client hands out nothing more, though there is more.

    After a moment in which a partition had no leader, or its only broker was left out of what
    brokers told, the client library (as of 2.16) may wait for good for an answer about the leader's
    epoch: it is connected, tells no error, and fetches nothing of that partition. What it knows of
    the end of the log stands still with it: only somebody else's question tells that from a quiet
    topic.

    Args:
        ask: Asks for the ends that a reader of committed records can get to.
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
        """Return whether to look; `drained` says that all that was fetched is handed out by now.

        Nothing is due while brokers owe an answer: slow ones are not asked more.
        """
        self._was_drained |= drained
        now_s = self.clock_s()
        if self._looked_s is None:
            self._looked_s = now_s
        if now_s - self._looked_s < LOOK_EVERY_S:
            return False
        return all(asked.done() for asked in self._ends.values())

    def look(self, positions: Mapping[TopicPartition, int]) -> Sequence[TopicPartition]:
        """Return what has stalled, and ask for the next look.

        Args:
            positions: Where the client is, of all partitions that it should go on with.
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
        # Where the client was never through with what it had, its positions say nothing.
        self._since = since if self._was_drained else {}
        self._was_drained = False
        if is_told and not since:
            self._patience = 1
        self._ends = self.ask(list(positions)) if positions else {}
        stalled_s = STALLED_S * self._patience
        return [at for at, (_, since_s) in self._since.items() if now_s - since_s >= stalled_s]

    def begin_again(self) -> None:
        """Go on with another client, more patiently: slow brokers must not be given up."""
        self._ends, self._since = {}, {}
        self._patience = PATIENCE.after(self._patience)


class Begins:
    """Asks where logs begin until brokers have answered, and waits for no answer.

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
        """Ask where one begins, as of now."""
        self._wanted[place] = None

    def forget(self, place: TopicPartition) -> None:
        """Want to know it of this one no more."""
        self._wanted.pop(place, None)

    def forget_all(self) -> None:
        """Want to know nothing any more."""
        self._wanted.clear()

    def told(self) -> Mapping[TopicPartition, int]:
        """Return, once each, what brokers have answered since, and ask for what they have not."""
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
    """Return the offset that brokers have answered; None if they have not, or not yet."""
    if asked is None or not asked.done():
        return None
    try:
        offset = int(asked.result().offset)
    except KafkaException:
        return None
    return offset if offset >= 0 else None
