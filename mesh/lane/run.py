"""A run: what is decided of one source of a lane, in the batch that is open.

Whoever decides what becomes of a record needs all three, and they belong together: they are one
value, made once for each run of records that was fetched and never per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.sources import Source
from mesh.model.frames import MessageClass
from mesh.transport.port import Row


@dataclass(frozen=True, slots=True)
class Run:
    """One source of a lane, and the batch that takes what is decided of it.

    Attributes:
        lane: Who decides: a lane, or a catch-up for one of its targets.
        batch: Its open batch.
        source: What is read, or of which something is announced.
    """

    lane: Lane
    batch: Batch
    source: Source

    def about_to_read(self, first: int, last: int) -> None:
        """Decide whether copies of records `first` to `last` may go before the next commit. K18."""
        batch, source = self.batch, self.source
        batch.taking = source.at, first
        if source.message_class is MessageClass.GUARANTEED:
            batch.is_awaited = True
        else:
            self.lane.direct.about_to_read(batch, source.at, last)

    def hand_over(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Take direct copies; those of guaranteed messages wait for the commit. Spec: K18."""
        batch, source = self.batch, self.source
        if source.message_class is MessageClass.GUARANTEED:
            batch.have_wait(source.at, topic, partition, rows)
        else:
            self.lane.direct.hand_over(batch, source.at, topic, partition, rows)
