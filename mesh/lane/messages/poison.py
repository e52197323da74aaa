"""Records that cannot be routed, whatever it is that they break: each becomes a dead letter. R12.

Routing is pure, but no list of the ways in which a stranger's bytes can surprise it is complete.
What a group of records raises ends their transaction, so nothing half done is ever committed. The
group is then taken one by one, and a record that fails alone again is a dead letter; everything
else passes. No record ends a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.errors import PoisonError, UnknownVersionError
from mesh.lane.messages.accepting import pass_over
from mesh.lane.messages.ingress import take_ingress
from mesh.lane.messages.refusing import refuse
from mesh.lane.messages.transit import take_frames
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.model.reasons import DropReason
from mesh.transport.port import Record, TopicPartition

TRIES = 2
"""A record that failed alone so often is a dead letter: the third failure would be in a group."""

KEPT_MAX = 10_000
"""How many failures are remembered; one that is forgotten is found again."""


_Place = tuple[TopicPartition, bytes, int]


@dataclass(slots=True)
class Poison:
    """What is known of records that fail; one for all lanes of a worker and what is beside them."""

    _alone: dict[TopicPartition, range] = field(default_factory=dict)
    _failures: dict[_Place, tuple[int, str]] = field(default_factory=dict)

    def portion(self, source: Source, records: Sequence[Record]) -> Sequence[Record]:
        """Return how many of some records to take at once: where one has failed, one."""
        is_known = self._failures and _place(source, records[0]) in self._failures
        if is_known or records[0].offset() in self._alone.get(source.at, ()):
            return records[:1]
        return records

    def take(self, run: Run, records: Sequence[Record], most: int) -> int:
        """Route a portion of a source, in order; stop at a frame when the batch has `most` records.

        Returns:
            How many were taken; 0 if the first one's subject is paused.

        Raises:
            UnknownVersionError: A frame of a newer version; nothing of it was taken.
            PoisonError: One of them breaks the routing: the lane must be taken again.
        """
        lane, source = run.lane, run.source
        tries, fault = self._failures.get(_place(source, records[0]), (0, ""))
        if tries >= TRIES:
            _put_aside(run, records[0], fault)
            return 1
        ready, handed_on = len(lane.direct.ready), lane.direct.handed_on.get(source.at)
        try:
            if source.link is None:
                return take_ingress(run, records)
            return take_frames(run, source.link, records, most)
        except UnknownVersionError:
            raise
        except Exception as error:
            # Direct copies of what failed have not left yet: they come again.
            lane.direct.take_back(ready, {} if handed_on is None else {source.at: handed_on})
            raise self._failed(source, records, error) from error

    def _failed(self, source: Source, records: Sequence[Record], error: Exception) -> PoisonError:
        first, last = records[0], records[-1]
        fault = f"{type(error).__name__}: {error}"
        if len(records) == 1:
            place = _place(source, first)
            tries, _ = self._failures.pop(place, (0, ""))
            self._failures[place] = tries + 1, fault
            if len(self._failures) > KEPT_MAX:
                del self._failures[next(iter(self._failures))]
        if first.offset() not in self._alone.get(source.at, ()):
            self._alone[source.at] = range(first.offset(), last.offset() + 1)
        where = f"{source.at} {first.offset()} to {last.offset()}"
        return PoisonError(f"{where}: a record cannot be routed: {fault}")


def _place(source: Source, record: Record) -> _Place:
    return source.at, source.topic_id, record.offset()


def _put_aside(run: Run, record: Record, fault: str) -> None:
    """Write a dead letter in a record's place, and go on behind it."""
    source, offset = run.source, record.offset()
    at = source.at
    run.about_to_read(offset, offset)
    refuse(run, record, DropReason.POISON, fault)
    count = 1 if source.link is None else pass_over(run, source.link, record)
    epoch = record.leader_epoch()
    generation, topic_id = source.generation, source.topic_id
    run.batch.read(at, topic_id, generation, offset, offset, count, leader_epoch=epoch)
    run.lane.log.error("record.poison", topic=at.topic, partition=at.partition, offset=offset)
