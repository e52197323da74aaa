"""How far a lane has followed what it routes by, and what it waits for. Spec: K16, K25, K28."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.model.control import NEVER, Stage, Version, change_version
from mesh.model.interest_inputs import CHANGE
from mesh.node.learner import Learner

RETELL_MS = 24 * 3_600_000
"""After how long a lane tells all cuts again, in milliseconds. Its ledger is kept for a week: who
reads it for the first time later than that would know nothing of a mesh where nobody subscribes."""


@dataclass(slots=True)
class Following:
    """Versions of interest and of the topology: the former owner's of a lane, and its own.

    A lane that was taken reads nothing before all is known here that its former owner routed by.

    Attributes:
        awaited: What that was; nothing once it is known.
        cuts_told_ms: When the lane told all cuts last; at first, when it was taken.
        topology: Number of the topology by which it was taken last; 0 for a file. That a later
            change has begun, or was aborted, brings none.
        change: How far the lane has followed changes of the topology, here or at its former owner.
        change_before: How far its former owner had.
    """

    awaited: Mapping[str, Version]
    cuts_told_ms: int
    topology: int = 0
    change: Version = field(init=False)
    change_before: Version = field(init=False)
    _has_cut: bool = False

    def __post_init__(self) -> None:
        """Begin with what the former owner had followed."""
        self.change = self.change_before = self.awaited.get(CHANGE, NEVER)
        number = self.change[0]
        if self.change >= change_version(number, Stage.SWITCH):
            self.topology = max(self.topology, number)

    @property
    def is_learning(self) -> bool:
        """Whether it waits for what its former owner knew: nothing is routed before. Spec: K16."""
        return bool(self.awaited)

    @property
    def has_cut(self) -> bool:
        """Whether the lane has told, since it was taken, by which versions it routes."""
        return self._has_cut

    def owes_cuts(self, now_ms: int) -> bool:
        """Return whether it is long ago that the lane told all cuts."""
        return now_ms - self.cuts_told_ms >= RETELL_MS

    def told_cuts(self, now_ms: int) -> None:
        """Record that the lane tells all cuts now."""
        self.cuts_told_ms = now_ms

    def stop_waiting_if_known(self, learner: Learner) -> bool:
        """Wait no longer if this worker knows all that the former owner did; return whether so.

        That is the newest change of the topology, and the interest without which messages would
        miss endpoints to which they are owed.
        """
        is_late = self.change > learner.followed or self.topology > learner.topology_number
        if is_late or learner.is_behind(self.awaited):
            return False
        self.awaited = {}
        return True

    def forget_change(self, learner: Learner) -> None:
        """Stop waiting for a change of the topology of which nobody tells any more. Spec: K28."""
        self.change, self.topology = learner.followed, learner.topology_number
        self.awaited = {one: v for one, v in self.awaited.items() if one != CHANGE}

    def is_settled(self, number: int) -> bool:
        """Return whether no node works by a topology any more that is older than this one.

        Args:
            number: Of the topology by which the lane works.
        """
        return self.change[0] != number or self.change == change_version(number, Stage.RUN)

    def follow(self, in_force: Mapping[str, Version]) -> Mapping[str, Version]:
        """Follow what the routing goes by from a cut on; return what that cut is to report.

        What its former owner knew is reported until it is known here: it stays promised.
        """
        self.change = max(self.change, in_force.get(CHANGE, NEVER))
        told = {one: v for one, v in self.awaited.items() if v > in_force.get(one, NEVER)}
        told |= {} if self.change == NEVER else {CHANGE: self.change}
        self._has_cut = bool(in_force or told)
        return {**in_force, **told}
