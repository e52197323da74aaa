"""All the work of a worker beside its lanes, and in which order it is done. Spec: K20."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.inputs import Input
from mesh.worker.limits.outboxes import Backlogs
from mesh.worker.queue_moves.movers import Movers
from mesh.worker.second_writer.held_targets import HeldTargets
from mesh.worker.second_writer.repairs import Repairs


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """What a worker does beside its lanes, a little in each turn.

    Attributes:
        repairs: Sends again what neighbours miss.
        holds: Writes targets that are held.
        backlogs: Watches how much waits.
        movers: Moves messages of queues to where somebody consumes.
    """

    repairs: Repairs
    holds: HeldTargets
    backlogs: Backlogs
    movers: Movers

    def step(
        self, link_states: Mapping[str, LinkState], now_ms: int, *, leads: bool
    ) -> Iterator[Input]:
        """Advance each a little; a lane's second writer serves one of them at a time. K20.

        Args:
            link_states: What neighbours have read of this node.
            now_ms: The present moment.
            leads: Whether this worker leads the node.
        """
        is_free = not self.movers.is_opening
        if self.holds.is_active and self.repairs.is_due(now_ms):
            self.holds.give_way(now_ms)
        if is_free and not self.holds.is_active:
            yield from self.repairs.step(now_ms)
        if is_free and not self.repairs.is_active:
            yield from self.holds.step(now_ms)
        yield from self.backlogs.step(link_states, now_ms)
        # Movers that open one after another leave one step to the others in between.
        may_open = is_free and not self.repairs.is_active and not self.holds.is_active
        yield from self.movers.step(link_states, now_ms, leads=leads, may_open=may_open)

    @property
    def is_waiting(self) -> bool:
        """Whether an opening or a commit is under way that a turn will soon continue."""
        return any(one.is_waiting for one in (self.repairs, self.holds, self.movers))

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to another topology."""
        for part in (self.repairs, self.backlogs, self.movers):
            part.relink(relinked, now_ms)

    def close(self) -> None:
        """Stop; the worker that takes the lanes next goes on."""
        self.repairs.close()
        self.holds.close()
        self.movers.close()
