"""Who changes the topology, however often it takes, and sometimes goes back: see `live_trials`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from mesh.errors import ConfigError, NotInTimeError, TransportError
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.play import run_step
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply
from mesh.operate.changes.begin import abort_change, read_begun
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import MeshToChange
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.status import observe
from mesh.transport.clock import Timekeeper

TRIES = 30
"""So often an operator asks again for a change that could not be carried out while things broke."""
GOES_BACK = 0.3
"""Share of changes that were not carried out in time which are taken back first."""


@dataclass
class Operator:
    """Asks for changes.

    Attributes:
        rng: How patient.
        rest: Lets milliseconds pass.
        mend: Ends whatever is broken.
        going_back: Draws whether to go back; None if nobody does.
    """

    driver: Driver
    backend: SimulatedBackend
    rng: random.Random
    rest: Callable[[int], None]
    mend: Callable[[], None]
    going_back: random.Random | None = None

    def apply(self, number: int, tries: int) -> bool:
        """Ask for a change, again if something broke meanwhile; say whether it was not refused."""
        for left in reversed(range(tries)):
            timeout_s = 120 if not left else self.rng.choice([0.3, 2, 20])
            if not left:
                self.mend()
            try:
                run_step(self.driver, number, Apply(timeout=timeout_s))
            except StepFailedError as error:
                if "would be deleted" in str(error):
                    return False
                if not left:
                    raise
                is_on_its_way_back = "is being aborted" in str(error)
                if self.going_back is not None and (
                    is_on_its_way_back or self.going_back.random() < GOES_BACK
                ):
                    self._go_back(timeout_s if left > 1 else 120)
                self.rest(self.rng.choice([0, 500, 2_000]))
            else:
                break
        return True

    def _go_back(self, timeout_s: float) -> None:
        """Take the change back, if that can be done: by the product's own way."""
        kafka, topology = self.backend.kafka, self.driver.topology
        try:
            found, _ = read_in_force(kafka, topology.prefix)
            if found is None:
                return  # the Kafka clusters that know are away
            begun = read_begun({name: kafka[name] for name in topology.kafka}, topology.prefix)
            with FollowedLaneReports.begun(topology, kafka, self.backend.now_ms) as reports:
                self.driver.view.refresh()
                time = Timekeeper(self.backend.now_ms, self._pause)
                means = MeshToChange(
                    in_force=found,
                    topology=found.topology,
                    kafka=kafka,
                    view=self.driver.view,
                    beats=observe(self.driver.view, time),
                    time=time,
                    tell=lambda _: None,
                )
                abort_change(means, reports, begun).run(timeout_s)
        except (ConfigError, NotInTimeError, TransportError):
            return  # there is none, it is too late, or something is broken: as an operator sees it

    def _pause(self, seconds: float) -> None:
        self.rest(int(1000 * seconds))
