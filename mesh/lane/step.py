"""One step of a lane: a run of records goes in, what is to be written of them comes out. Spec: K17.

This is how a worker hands a lane what it has read, and how a catch-up reads it again. Nothing is
written here, and no clock is asked: the owner writes the rows, has `Lane.close` add facts and
ledger to them, and commits. Direct copies that may go before that are in `Lane.direct.ready`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.lane.batch import Rows
from mesh.lane.lane import Lane
from mesh.lane.messages.poison import Poison
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.transport.port import Record


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a lane has decided.

    Attributes:
        taken: Of how many of the records, from the first on; the others are to be handed in again.
        is_paused: Whether it stopped before one whose subject is paused.
        rows: What its transaction is to write by now, by topic and partition. It is the batch's
            own: who writes some takes it out.
    """

    taken: int
    is_paused: bool
    rows: Rows


def step(
    lane: Lane,
    source: Source,
    records: Sequence[Record],
    now_ms: int,
    *,
    records_max: int,
    poison: Poison,
) -> StepResult:
    """Decide what becomes of the next records of a source; mostly of all that are given.

    Args:
        lane: Whose source it is.
        source: Where they were read.
        records: In order, from the lane's position on; at least one.
        now_ms: The present moment.
        records_max: No further frame is taken once the open batch has read and delivered so many.
        poison: Knows the records that broke the routing; those are taken alone.

    Raises:
        UnknownVersionError: A frame of a newer version; nothing of it was taken. Spec: K10.
        PoisonError: A record breaks the routing: the lane must be taken again. Spec: R12.
    """
    run = Run(lane, lane.open(now_ms), source)
    some = poison.portion(source, records)
    taken = poison.take(run, some, records_max)
    is_paused = source.link is None and taken < len(some)
    return StepResult(taken, is_paused, run.batch.rows)
