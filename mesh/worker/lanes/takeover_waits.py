"""Waits of a takeover, in the order they apply. Spec: K14, K15, K16.

Others stand where they are used:

- before all else, where a worker ended without a word: `mesh.transport.port.MEMBER_TIMEOUT_MS`,
  or what brokers allow below it, `mesh.transport.kafka.MEMBER_TIMEOUT_LEAST_MS` at the least;
- by who gives lanes up: `mesh.worker.lanes.committing.LAST_S` for their commits,
  `mesh.worker.lanes.direct_copies.LEAVE_S` for their direct copies, and
  `mesh.worker.process.errands.LEAVE_S` for takings that were called off;
- by who takes them: `mesh.lane.batch.RESERVED_MS` before it looks where a log of direct messages
  ends (K18; who sends ahead of a commit goes by it too), and
  `mesh.worker.process.recall.DEADLINE_MS` for the next record of its progress;
- after the taking: `mesh.worker.second_writer.held_targets.RETRY_MS` before a held target is caught
  up, `mesh.worker.lanes.truncated_logs.AWAITED_MS` for a record that is to be read once more, and
  `mesh.worker.lanes.first_records.RETRY_MS` before brokers are asked again whose the first records
  are;
- beside it, for the leadership: `mesh.worker.control.leadership.RETRY_MS`;
- at other times as well, so that nothing runs too often: `mesh.worker.lanes.admission.ASK_MS`
  between two questions about the group, `mesh.worker.lanes.committing.MOMENT_S` for the commits of
  a turn, `mesh.worker.lanes.direct_copies.FLUSH_MS` and `mesh.worker.lanes.direct_copies.GAP_MS`
  for direct copies, `mesh.worker.process.errands.LOOK_S` for records while an errand is under way.
"""

from __future__ import annotations

from mesh.model.patience import Patience

WORKER_LEARNS_FIRST_MS = 10_000
"""How long a worker may learn before it enters its node's group in any case."""

LANE_HEARS_FIRST_MS = 1_000
"""How long a lane that was taken waits for what its worker is about to hear anyway, before the
worker looks it up in the node's own topics."""

UNREADABLE_LANE_RESTS_MS = 5_000
"""How often to retry a lane whose progress is unreadable: people have to repair that."""

FAILED_LANE_RESTS_MS = Patience(100, 1_000)
"""How long a lane rests before it is taken again, at first and at most, once it has failed twice
without a commit in between. The rest doubles each time: every taking costs a new epoch, two
transactions and a reading of all it keeps, and would mostly fail like the one before."""
