"""Does a worker's memory stay what it was? Hours of messages, churn, and a node that joins and leaves.

Three nodes stay, on one real Kafka cluster. In each cycle filters of one of them come and the
former go, subjects that nobody has seen before are published, and a fourth node joins the running
mesh, receives, and leaves again. Every message is counted where it belongs. Told are the resident
size of each worker that stays, by cycle, and how much it grows in an hour.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import linear_regression, median

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.real import RealBackend
from mesh.lab.steps import Apply, Drain, Publish, Settle, Step, Subscribe, Unsubscribe
from mesh.lab.tally import Tally
from mesh.local.fleet import Fleet
from mesh.model.topology import Topology
from mesh.view.mesh_view import MeshView
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.memory import resident_mb

STAY = ("n0", "n1", "n2")
GUEST = "guest"
FILTERS = 100
SUBJECTS = 20
MESSAGES = 25
"""Of each subject in a cycle."""

TIMEOUT_S = 120
GROWN_MAX = 1.05
_TENTH = 10


def topology(*, has_guest: bool) -> Topology:
    """Return the mesh, with the guest or without."""
    links = [["n0", "n1"], ["n1", "n2"], *([["n1", GUEST]] if has_guest else [])]
    names = [*STAY, GUEST] if has_guest else STAY
    return topology_from_mapping(
        {
            "kafka": {"here": {}},
            "nodes": {name: {"kafka": "here"} for name in names},
            "zones": {"Z": {"kind": "multi-hop", "links": links}},
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was seen.

    Attributes:
        hours: When each cycle had ended, since the first one had.
        mb: Resident size of each worker after each cycle.
        delivered: Messages that came to the endpoints that stay.
    """

    hours: Sequence[float]
    mb: Mapping[str, Sequence[float]]
    delivered: int

    def slope(self, node: str) -> float:
        """Return how many MB a worker grows by in an hour."""
        if self.hours[-1] == self.hours[0]:
            return 0.0
        return linear_regression(self.hours, self.mb[node]).slope

    def grown(self, node: str) -> float:
        """Return the size in the last tenth of the cycles as a multiple of that in the second."""
        sizes, tenth = self.mb[node], max(1, len(self.hours) // _TENTH)
        return median(sizes[-tenth:]) / median(sizes[tenth : 2 * tenth] or sizes[:1])

    def goals(self) -> Sequence[Goal]:
        """Return what is promised: nothing grows."""
        return [Goal(f"{node}, last tenth to second", GROWN_MAX, self.grown(node)) for node in STAY]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "hours": list(self.hours),
            "mb": {node: list(sizes) for node, sizes in self.mb.items()},
            "mb_per_hour": {node: self.slope(node) for node in STAY},
            "delivered": self.delivered,
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        lines = [f"{len(self.hours)} cycles in {self.hours[-1]:.2f} h, {self.delivered} delivered"]
        lines.append(f"{'':<6}{'begin, MB':>11}{'end':>9}{'most':>9}{'MB/h':>9}")
        for node in STAY:
            sizes = self.mb[node]
            lines.append(
                f"{node:<6}{sizes[0]:11.1f}{sizes[-1]:9.1f}{max(sizes):9.1f}{self.slope(node):9.2f}"
            )
        return [*lines, *(goal_line(goal.as_json()) for goal in self.goals())]


@dataclass(slots=True)
class Soak:
    """A mesh that is driven through cycles."""

    driver: Driver
    proposals: dict[int, Proposal]
    number: int = 0
    cycle: int = 0
    published: int = 0
    _filters: Sequence[str] = field(default=())

    def run(self, step: Step) -> None:
        """Run one step.

        Raises:
            StartError: It was not done in time.
        """
        self.number += 1
        try:
            run_step(self.driver, self.number, step)
        except StepFailedError as error:
            raise StartError(f"cycle {self.cycle}: {step.word}: {error}") from error

    def begin(self) -> None:
        """Subscribe what stays."""
        for node in STAY[1:]:
            self.run(Subscribe(node=node, endpoint="s", filter="soak/>"))
        self.run(Settle(timeout=TIMEOUT_S))

    def once(self) -> None:
        """Run a cycle; returns when every message has come."""
        self.cycle += 1
        self._churn()
        self._change(has_guest=True)
        self.run(Subscribe(node=GUEST, endpoint="s", filter="soak/>"))
        self.run(Settle(timeout=TIMEOUT_S))
        self._publish()
        self.run(Unsubscribe(node=GUEST, endpoint="s", filter="soak/>"))
        self.run(Drain(timeout=TIMEOUT_S))
        self._change(has_guest=False)

    def _churn(self) -> None:
        former = self._filters
        self._filters = [f"churn/{self.cycle}/{number}/*" for number in range(FILTERS)]
        for one in self._filters:
            self.run(Subscribe(node="n1", endpoint="churn", filter=one))
        for one in former:
            self.run(Unsubscribe(node="n1", endpoint="churn", filter=one))

    def _publish(self) -> None:
        for number in range(SUBJECTS):
            subject = f"soak/{self.cycle}/{number}"
            self.run(Publish(node="n0", subject=subject, count=MESSAGES, key="k"))
            self.published += MESSAGES

    def _change(self, *, has_guest: bool) -> None:
        mesh = Mesh(spec={}, topology=topology(has_guest=has_guest))
        self.proposals[self.number + 1] = Proposal(mesh=mesh)
        self.run(Apply(timeout=TIMEOUT_S))

    def delivered(self) -> int:
        """Return how many messages came to what stays.

        Raises:
            StartError: One is missing, doubled or out of order.
        """
        self.driver.count_everything()
        for node in STAY[1:]:
            found = self.driver.tally.endpoints[f"{node}/s"]
            told = (found.count, found.distinct, found.disordered)
            if told != (self.published, self.published, 0):
                raise StartError(f"{node}: {self.published} published; {told}")
        return self.published * len(STAY[1:])


def cycles(soak: Soak, fleet: Fleet, minutes: float) -> Iterator[tuple[float, Sequence[float]]]:
    """Run cycles until the time is over; yield when each ended, and the workers' sizes."""
    end_s = time.monotonic() + minutes * 60
    while time.monotonic() < end_s:
        soak.once()
        sizes = [resident_mb(fleet.workers[node][0]) for node in STAY]
        yield time.monotonic(), sizes
        told = ", ".join(f"{size:.1f}" for size in sizes)
        say(f"cycle {soak.cycle}: {told} MB")


def measure(directory: Path, *, minutes: float) -> Found:
    """Run for so long, at least one cycle."""
    mesh = topology(has_guest=False)
    file = directory / "mesh.yaml"
    write_topology(mesh, file)
    fleet = Fleet.start(mesh, file, directory, progress=say)
    try:
        backend = RealBackend(fleet)
        proposals: dict[int, Proposal] = {}
        driver = Driver(
            mesh,
            backend,
            Tally(mesh, backend.kafka, backend.now_ms),
            MeshView(mesh, backend.kafka, backend.now_ms),
            proposals=proposals,
        )
        try:
            soak = Soak(driver, proposals)
            soak.begin()
            seen = list(cycles(soak, fleet, minutes))
            first_s = seen[0][0]
            return Found(
                hours=[(at_s - first_s) / 3600 for at_s, _ in seen],
                mb={node: [sizes[index] for _, sizes in seen] for index, node in enumerate(STAY)},
                delivered=soak.delivered(),
            )
        finally:
            driver.close()
            backend.close()
    finally:
        fleet.stop()


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("soak", __doc__)
    parser.add_argument("--minutes", type=at_least(1), default=120, help="how long")
    options = parser.parse_args(arguments)
    run = partial(measure, minutes=options.minutes)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
