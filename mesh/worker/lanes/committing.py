"""Commits of lanes: begun, waited for a moment all together, and ended. Spec: K17."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from mesh.errors import TransportError
from mesh.lane.batch import Batch
from mesh.lane.lane import Closing, Lane
from mesh.worker.lanes.direct_copies import DirectCopies
from mesh.worker.lanes.pace import Pace
from mesh.worker.process.clock import Clock
from mesh.worker.process.commits import CommitOutcome, Commits
from mesh.worker.process.transactions import LaneTransactions

MOMENT_S = 0.2
"""How long the loop waits for all commits of a turn together: most finish in that time, so lanes
need not be paused and resumed."""

LAST_S = 0.8
"""The same for all commits of lanes that are handed back: their next owner can then continue at
exact positions. A commit that takes longer is treated like a worker that died."""

log = structlog.get_logger()


@dataclass(slots=True)
class LaneCommits:
    """Commits what the lanes of a worker decide; the owner decides what a failure means.

    Attributes:
        clock: Measures the waiting.
        commits: Waits beside the loop.
        direct: Direct copies go ahead of a commit.
        transactions: Of each lane that is owned, by its number.
        pace: When lanes commit.
    """

    clock: Clock
    commits: Commits
    direct: DirectCopies
    transactions: dict[int, LaneTransactions]
    pace: Pace = field(default_factory=Pace)
    _wait_left_s: float = MOMENT_S

    def begin_turn(self) -> None:
        """Renew the time to wait in a turn."""
        self._wait_left_s = MOMENT_S

    def begin(self, lane: Lane, batch: Batch) -> CommitOutcome | None:
        """Begin to commit what a lane has decided; return what to wait for, None for nothing.

        Raises:
            TransportError: It cannot be written; the lane must be taken again.
        """
        self.direct.settle([lane])
        lane.close(batch, self.clock.now_ms())
        transactions = self.transactions[lane.number]
        transactions.write(batch.rows)
        transactions.begin_commit(self.commits)
        return transactions.pending.outcome

    def is_through(self, lane: Lane) -> bool:
        """Return whether a lane's commit has ended, one way or the other, or there is none."""
        return self.transactions[lane.number].pending.is_through

    def wait(self, begun: Sequence[CommitOutcome]) -> None:
        """Wait for commits for the time that is left in this turn."""
        began_ms = self.clock.now_ms()
        self.commits.wait(begun, self._wait_left_s)
        self._wait_left_s = max(0.0, self._wait_left_s - (self.clock.now_ms() - began_ms) / 1000)

    def end(self, lane: Lane) -> Closing | None:
        """Take the outcome of a lane's commit; return what was committed, if anything.

        Raises:
            TransportError: Nothing was committed, or nobody knows; the lane must be taken again.
        """
        closing, pending = lane.closing, self.transactions[lane.number].pending
        if closing is None or not pending.is_any:
            return None
        pending.end()
        lane.committed(closing)
        return closing

    def go_on_at_the_pace_of(self, closing: Closing, now_ms: int) -> None:
        """Pace later commits, and direct copies, by how long a finished commit took."""
        self.direct.commit_ms = now_ms - closing.began_ms
        self.pace.committed(self.direct.commit_ms, now_ms)

    # -- lanes that are handed back -----------------------------------------------------------

    def begin_last_turn(self) -> None:
        """Allow time for the last commits of lanes that others will take."""
        self._wait_left_s = LAST_S

    def commit_last(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Commit all of lanes that are given up; return those whose positions are committed."""
        begun = []
        for lane in self._end_soon(lanes):
            try:
                if lane.batch is not None:
                    self.begin(lane, lane.batch)
            except TransportError as error:
                log.info("lane.not_committed", lane=lane.number, fault=str(error))
            else:
                begun.append(lane)
        return self._end_soon(begun)

    def _end_soon(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Wait briefly for commits under way; return the lanes that have none any more.

        The log shows what became of the others' commits: nobody waits for them here.
        """
        pending = {lane.number: self.transactions[lane.number].pending for lane in lanes}
        outcomes = [one.outcome for one in pending.values() if one.outcome is not None]
        self.wait([one for one in outcomes if not one.done()])
        ended = []
        for lane in lanes:
            try:
                if pending[lane.number].is_through:
                    self.end(lane)
                    ended.append(lane)
                else:
                    log.info("lane.not_committed", lane=lane.number, fault="brokers do not answer")
            except TransportError as error:
                log.info("lane.not_committed", lane=lane.number, fault=str(error))
        return ended
