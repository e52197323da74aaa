"""One piece of work at a time: its resources are opened, it goes on turn by turn, and ends.

So the scheduler is idle, opens, or has work under way. What comes next, and what becomes of it, is
decided by the agendas: repairs and held targets. Spec: K16, K20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mesh.errors import PoisonError, TransportError
from mesh.lane.lane import Lane
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.opening import DueCatchUp, OpenedCatchUp, Opening


class Work(Protocol):
    """Work under way."""

    @property
    def lane(self) -> Lane:
        """The lane whose second writer it has."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a commit, or for another writer."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""

    @property
    def steps_a_turn(self) -> int:
        """How often it goes on in a turn: the lane waits meanwhile."""

    def read(self) -> Iterator[Input]:
        """Read some more; yield what commits of the lane report.

        Raises:
            TransportError: Nothing more can be read.
        """

    def go_on(self, now_ms: int) -> None:
        """Write what was read, or take the outcome of that.

        Raises:
            TransportError: It was not written.
            PoisonError: A record breaks the routing.
        """

    def close(self) -> None:
        """Release what it reads and writes with."""


D = TypeVar("D", bound=DueCatchUp)
W = TypeVar("W", bound=Work)


class Agenda(Protocol[D, W]):
    """Decides what work there is."""

    def next_due(self, now_ms: int) -> D | None:
        """Return what comes next; None if there is nothing to do now."""

    def is_wanted(self, due: D) -> bool:
        """Return whether what is being opened is still wanted."""

    def begin(self, due: D, opened: OpenedCatchUp, now_ms: int) -> W | None:
        """Begin with what was opened; None if it is no longer wanted."""

    def may_go_on(self, work: W) -> bool:
        """Return whether the work under way is still what is needed."""

    def failed(self, due: D, error: TransportError | PoisonError | None) -> None:
        """Record that it has failed; without an error, that it changed nothing."""

    def left(self, work: W) -> None:
        """Note that work has ended: it is over, or was given up."""


@dataclass(slots=True)
class Scheduler(Generic[D, W]):
    """Does what an agenda says, one after another.

    Attributes:
        home: The node's own Kafka cluster.
        lanes: All lanes of the worker.
        agenda: Says what comes next.
        due: What is being opened, or carried out; None if it is idle.
        opening: Opens what that needs, or None.
        work: The work under way, or None.
    """

    home: KafkaCluster
    lanes: Lanes
    agenda: Agenda[D, W]
    due: D | None = None
    opening: Opening[D] | None = None
    work: W | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has a lane's second writer just now."""
        return self.due is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what is being opened, or its work does."""
        is_writing = self.work is not None and self.work.is_waiting
        return self.opening is not None or is_writing

    def drop_if_needless(self) -> None:
        """Give up work that is no longer needed."""
        if self.work is not None and not self.agenda.may_go_on(self.work):
            self.leave()

    def step(self, now_ms: int, *, may_begin: bool = True) -> Iterator[Input]:
        """Go on; yield what commits of the lane report."""
        try:
            if self.due is None and may_begin:
                self._begin(now_ms)
            if self.opening is not None:
                self._open(self.opening, now_ms)
            for _ in range(0 if self.work is None else self.work.steps_a_turn):
                if self.work is not None and self.lanes.owns(self.work.lane):
                    yield from self._go_on(self.work, now_ms)
        except (TransportError, PoisonError) as error:
            if self.due is not None:
                self.agenda.failed(self.due, error)
            self.leave()

    def _begin(self, now_ms: int) -> None:
        self.due = self.agenda.next_due(now_ms)
        if self.due is not None:
            self.opening = Opening(self.home, self.lanes, self.due)

    def _open(self, opening: Opening[D], now_ms: int) -> None:
        opened, due = opening.step(now_ms), opening.due
        if opening.is_vain or not self.agenda.is_wanted(due):
            self.agenda.failed(due, None)
            self.leave()
        elif opened is not None:
            work = self.agenda.begin(due, opened, now_ms)
            if work is None:
                self.leave()
            else:
                self.opening, self.work = None, work

    def _go_on(self, work: W, now_ms: int) -> Iterator[Input]:
        if not work.is_waiting:
            yield from work.read()
            if self.work is not work or not self.agenda.may_go_on(work):
                return  # what a commit told has changed the topology meanwhile, or ended the lane
        work.go_on(now_ms)
        if work.is_over:
            self.leave()

    def leave(self) -> None:
        """Stop, and release its resources; the rest is done later, or by a successor."""
        for one in (self.work, self.opening):
            if one is not None:
                one.close()
        if (work := self.work) is not None:
            self.lanes.stand_still(work.lane, for_now=False)
            self.agenda.left(work)
        self.due = self.opening = self.work = None
