"""Adds to the news that freezes a neighbour what that neighbour wanted last. Spec: K21, DMR-10.

The node keeps that in its own Kafka cluster, which may itself be slow or away: it is read beside
the loop, and the news waits for it. Nobody has acknowledged what an open transaction hides. A
worker that has just taken the leadership has read all of it by then, so that its first word says
no less than its predecessor's last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    NeighbourUnproven,
)
from mesh.model.interest_inputs import VersionByScope
from mesh.transport.port import Record, TopicPartition
from mesh.worker.control.control_writer import learned_versions, read_learned
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall

RETRY_MS = 1_000

LastProven = tuple[Mapping[Scope, Sequence[str]], VersionByScope]
"""What a neighbour wanted when it was last proven, and its version then, by scope."""

FreezingNews = NeighbourUnproven | LinkDisabled
"""News after which a node goes by what a neighbour wanted last, not by the neighbour's own
words."""

log = structlog.get_logger()


def last_proven(records: Sequence[Record], neighbour: str) -> LastProven:
    """Return what records of `learned` say of a neighbour."""
    return read_learned(records, neighbour), learned_versions(records, neighbour)


@dataclass(slots=True)
class FrozenNeighbours:
    """Adds to the news that freezes a neighbour what it wanted last.

    Attributes:
        place: The node's `learned`.
        recall: Reads the node's own topics.
        questions: Asks beside the loop.
        at_hand: What `learned` says, if that is known: valid for one call of `complete`.
    """

    place: TopicPartition
    recall: Recall
    questions: Questions
    at_hand: Sequence[Record] | None = None
    _waiting: dict[str, FreezingNews] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS

    def complete(self, news: Iterable[Input], now_ms: int) -> Iterator[Input]:
        """Yield news in order; what has to wait follows once it is complete.

        A neighbour that is read after all is no longer waited for.

        Args:
            news: Of this turn. What freezes a neighbour comes without what the node has kept of it.
            now_ms: The present moment.
        """
        for input_ in news:
            match input_:
                case NeighbourUnproven(neighbour) | LinkDisabled(neighbour):
                    if self.at_hand is None and self._waiting.get(neighbour) == input_:
                        continue  # reported again; a slow answer is on its way
                    self._forget(neighbour)
                    if self.at_hand is not None:
                        yield _with(input_, last_proven(self.at_hand, neighbour))
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
                yield _with(input_, last_proven(records or (), neighbour))

    def _read(self, neighbour: str, now_ms: int) -> Sequence[Record] | None:
        key = ("frozen", neighbour)
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
            self.questions.forget("frozen", neighbour)


def _with(input_: FreezingNews, last: LastProven) -> FreezingNews:
    learned, versions = last
    return replace(input_, learned=learned, versions=versions)
