"""The first records of a source wait until it is known which topic they belong to. Spec: R6, K9.

Brokers look topics up by name, and a topic may be recreated between the look at its id and the
first fetch: its records would go out under the identity of the former one. Ids are never reused, so
a look that began after the fetch and finds the same id proves where the records belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, Record, TopicInfo, TopicPartition
from mesh.worker.process.questions import Questions

RETRY_MS = 1_000
"""How often to ask brokers again that did not answer."""

log = structlog.get_logger()


@dataclass(slots=True)
class FirstRecords:
    """The first records read from sources, as long as their topic is not proven.

    Attributes:
        admins: Per Kafka cluster.
        questions: Asks beside the loop.
    """

    admins: Mapping[str, Admin]
    questions: Questions
    _awaited: dict[TopicPartition, None] = field(default_factory=dict)
    _kept: dict[TopicPartition, Sequence[Record]] = field(default_factory=dict)
    _proven: dict[TopicPartition, None] = field(default_factory=dict)
    _asked: dict[str, list[TopicPartition]] = field(default_factory=dict)
    _failed_ms: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything is kept, or is still to be kept."""
        return bool(self._awaited or self._kept)

    def is_first(self, at: TopicPartition) -> bool:
        """Return whether nothing has been read from a source yet."""
        return at in self._awaited

    def expect(self, at: TopicPartition) -> None:
        """Record that a source is read from now on."""
        self._awaited[at] = None

    def keep(self, at: TopicPartition, records: Sequence[Record]) -> None:
        """Have the first records of a source wait."""
        del self._awaited[at]
        self._kept[at] = records

    @property
    def proven(self) -> Sequence[TopicPartition]:
        """The sources whose waiting first records are proven to be their own."""
        return list(self._proven)

    def prove(self, at: TopicPartition) -> None:
        """Record that the waiting records of a source are its own: brokers are not asked again."""
        self._proven[at] = None

    def forget(self, at: TopicPartition) -> Sequence[Record]:
        """Return the waiting records of a source, and forget the source."""
        self._awaited.pop(at, None)
        self._proven.pop(at, None)
        for kafka, asked in list(self._asked.items()):
            if at in asked:
                asked.remove(at)  # the answer says nothing about what is kept next
            if not asked:
                del self._asked[kafka]
                self.questions.forget("first records", kafka)  # nobody would take the answer
        return self._kept.pop(at, ())

    def looked_at(
        self, kafka_of: Callable[[TopicPartition], str], now_ms: int
    ) -> Iterator[tuple[TopicPartition, TopicInfo]]:
        """Ask brokers; yield the sources that they describe as they were after the fetch.

        Args:
            kafka_of: Returns the Kafka cluster of a source.
            now_ms: The present moment.
        """
        wanted: dict[str, list[TopicPartition]] = {}
        for at in [one for one in self._kept if one not in self._proven]:
            wanted.setdefault(kafka_of(at), []).append(at)
        for kafka, places in wanted.items():
            if now_ms - self._failed_ms.get(kafka, now_ms - RETRY_MS) < RETRY_MS:
                continue
            # Records kept after the request was sent wait for the next one.
            asked = self._asked.setdefault(kafka, places)
            topics = list(dict.fromkeys(at.topic for at in asked))
            try:
                ask = partial(self.admins[kafka].describe, topics)
                told = self.questions.answer(("first records", kafka), partial(answers_so_far, ask))
            except TransportError as error:
                log.info("source.not_identified", kafka=kafka, fault=str(error))
                told = {}, False
            if told is None:
                continue
            del self._asked[kafka]
            found, _ = told
            if not all(topic in found for topic in topics):
                self._failed_ms[kafka] = now_ms
            for at in asked:
                if at.topic in found:
                    yield at, found[at.topic]
