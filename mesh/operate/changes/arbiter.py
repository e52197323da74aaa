"""Which of several drivers of changes comes first: one Kafka cluster decides.

Several operators may give commands at once, and each may die between two Kafka clusters. So every
stage is first written in a transaction on the Kafka cluster whose name comes first in the topology
in force, under a transactional id that all drivers share: opening it fences earlier drivers. A
driver then reads what is there, and nobody can have preceded what it commits. The other Kafka
clusters follow. Spec: K28.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.errors import TransportError, TransportFencedError
from mesh.model.control import Change, Stage
from mesh.model.topics import TopicNames
from mesh.operate.changes.in_force import newest_change
from mesh.transport.port import KafkaCluster, Writer
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key

TRIES = 8
"""How often concurrent drivers may overtake one another; each time one gets through."""

_AFTER = {
    Stage.HOLD: (Stage.HOLD, Stage.SWITCH, Stage.ABORT),
    Stage.SWITCH: (Stage.SWITCH, Stage.RUN),
    Stage.RUN: (Stage.RUN,),
    Stage.ABORT: (Stage.ABORT,),
}


class Arbiter:
    """`mesh.config` of the Kafka cluster that decides, as one driver writes it."""

    def __init__(self, kafka: KafkaCluster, prefix: str) -> None:
        """Claim the right to write: the previous holder loses it.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        self._kafka = kafka
        self._prefix = prefix
        self._names = TopicNames(prefix)
        self._stands: Change | None = None
        self._writer: Writer | None = None
        self._claim()

    def put(self, change: Change, known: int) -> Change:
        """Write a stage, if it may follow the present record; return the record in force then.

        That differs from the given one if another driver came first.

        Args:
            change: The stage.
            known: Number of the newest change that was known when this one was planned.

        Raises:
            TransportError: The Kafka cluster did not accept it.
        """
        for _ in range(TRIES):
            is_fresh = self._writer is None
            writer = self._writer or self._claim()
            if self._stands is not None and not may_follow(self._stands, change, known):
                if is_fresh:
                    return self._stands
                self.close()  # another driver may have written since
                continue
            try:
                writer.begin()
                writer.produce(self._names.config(), encode_change(change), change_key(), 0)
                writer.commit()
            except TransportFencedError:
                self.close()
            except TransportError:
                self.close()
                raise
            else:
                self._stands = change
                return change
        raise TransportError(f"others change the mesh at the same time, {TRIES} times in a row")

    def _claim(self) -> Writer:
        writer = self._kafka.writer("operator", self._names.change_transactions())
        try:
            # Read after the fence: nobody writes between this and our commit.
            self._stands = newest_change(self._kafka, self._prefix)
        except BaseException:
            writer.close()  # the present record is unknown: do not write without it
            raise
        self._writer = writer
        return writer

    def close(self) -> None:
        """Release the writer; the next `put` claims again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def may_follow(stands: Change, change: Change, known: int) -> bool:
    """Return whether a record may be written after another.

    A change may not follow one that was unknown when it was planned, even if that is over by now:
    it was planned against another topology than the one in force.
    """
    if change.number == stands.number:
        # The holding nodes matter: of two concurrent beginnings the first names them.
        is_same = replace(change, stage=stands.stage) == stands
        return is_same and change.stage in _AFTER[stands.stage]
    return change.number > stands.number and stands.number <= known and stands.stage.is_over
