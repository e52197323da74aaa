"""What a neighbour wanted at last, for the news that it is not read. Spec: K21, DMR-10.

The node has kept that in its own Kafka cluster, which may be slow or away itself: it is read beside
the loop, and the news waits for it. What an open transaction hides nobody has acknowledged. A
worker that has just taken the leadership has read all of it by then, so that its first word says
no less than its predecessor's last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.model.control import Scope
from mesh.model.effects import Relinked
from mesh.model.inputs import (
    Input,
    LinkDisabled,
    LinkEnabled,
    NeighbourCaughtUp,
    NeighbourReset,
    NeighbourUnreachable,
)
from mesh.transport.port import Record, TopicPartition
from mesh.worker.control.leading import learned_versions, read_learned
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall

RETRY_MS = 1_000

Kept = tuple[Mapping[Scope, Sequence[str]], Mapping[Scope, tuple[int, int]]]
"""What a neighbour wanted, and at which version that was, by scope."""

log = structlog.get_logger()


def kept_of(records: Sequence[Record], neighbour: str) -> Kept:
    """Return what records of `learned` say of a neighbour."""
    return read_learned(records, neighbour), learned_versions(records, neighbour)


@dataclass(slots=True)
class Unread:
    """Adds to the news that a neighbour is not read what it wanted at last.

    Attributes:
        place: The node's `learned`.
        recall: Reads the node's own topics.
        questions: Asks beside the loop.
        at_hand: What `learned` says, if that is known: good for one call of `complete`.
    """

    place: TopicPartition
    recall: Recall
    questions: Questions
    at_hand: Sequence[Record] | None = None
    _waiting: dict[str, NeighbourUnreachable | LinkDisabled] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS

    def complete(self, news: Iterable[Input], now_ms: int) -> Iterator[Input]:
        """Yield news in their order, and such as waited once they are complete.

        Who is read after all is waited for no more.
        """
        for input_ in news:
            match input_:
                case NeighbourUnreachable(neighbour) | LinkDisabled(neighbour):
                    self._forget(neighbour)
                    if self.at_hand is not None:
                        yield _with(input_, kept_of(self.at_hand, neighbour))
                    else:
                        self._waiting[neighbour] = input_
                case (
                    NeighbourCaughtUp(neighbour)
                    | NeighbourReset(neighbour)
                    | LinkEnabled(neighbour)
                ):
                    self._forget(neighbour)
                    yield input_
                case _:
                    yield input_
        self.at_hand = None
        if self._waiting:
            yield from self._answered(now_ms)

    def _answered(self, now_ms: int) -> Iterator[Input]:
        for neighbour in list(self._waiting):
            records = self._read(neighbour, now_ms)
            input_ = None if records is None else self._waiting.pop(neighbour, None)
            if input_ is not None:
                yield _with(input_, kept_of(records or (), neighbour))

    def _read(self, neighbour: str, now_ms: int) -> Sequence[Record] | None:
        key = ("unread", neighbour)
        if not self.questions.is_open(*key) and now_ms - self._tried_ms < RETRY_MS:
            return None
        try:
            return self.questions.answer(key, partial(self.recall.decided, self.place))
        except TransportError as error:
            self._tried_ms = now_ms
            log.warning("learned.not_read", neighbour=neighbour, fault=str(error))
            return None

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Wait for nothing of neighbours that are removed. Spec: K28."""
        for neighbour in relinked.gone:
            self._forget(neighbour)

    def _forget(self, neighbour: str) -> None:
        if self._waiting.pop(neighbour, None) is not None:
            self.questions.forget("unread", neighbour)


def _with(
    input_: NeighbourUnreachable | LinkDisabled, kept: Kept
) -> NeighbourUnreachable | LinkDisabled:
    if isinstance(input_, NeighbourUnreachable):
        return NeighbourUnreachable(input_.neighbour, kept[0])
    return LinkDisabled(input_.neighbour, *kept)
