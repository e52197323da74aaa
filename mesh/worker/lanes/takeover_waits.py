"""How long who waits when lanes change hands, in the order in which they do. Spec: K14, K15, K16.

One wait lies below, for both who sends ahead of a commit and who takes the lane after it go by it:
`mesh.lane.batch.RESERVED_MS`, before a successor looks where a log of direct messages ends (K18).
"""

from __future__ import annotations

WORKER_LEARNS_FIRST_MS = 10_000
"""How long a worker may learn before it enters the group of its node in any case."""

LANE_HEARS_FIRST_MS = 1_000
"""How long a lane that was taken waits for what its worker is about to hear anyway, before it is
looked up in the node's own topics."""

UNREADABLE_LANE_RESTS_MS = 5_000
"""How often a lane is tried again of which nobody can read where it stood: people mend that."""

FAILED_LANE_RESTS_MS, FAILED_LANE_RESTS_MAX_MS = 100, 1_000
"""How long a lane rests before it is taken again that has failed twice without a commit in between,
and how long at most, twice as long each time: every taking is a new epoch, two transactions and a
reading of all that it keeps, and mostly as vain as the one before."""
