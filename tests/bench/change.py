"""How long a live change takes, and whom it pauses: nine nodes, three Kafka clusters, under load.

Three cities, each fully linked, and a chain between them. A cycle links the third city to the
chain (walks begin), moves it to another city (walks move), and takes it off (walks end). Before
each change every node publishes; nothing is waited for in between.

The simulator tells virtual time, real brokers real time; both are of the same code.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.real import RealBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply, Drain, Publish, Settle, Subscribe
from mesh.local.fleet import Fleet
from mesh.model.topology import Topology
from mesh.worker.process.logs import set_up_logs
from tests.bench.command import at_least, carry_out, parser_of, say

CITIES = {"tk": "tokyo", "ny": "newyork", "pa": "paris"}
CHANGES = {
    "begin": [["tk1", "ny1"], ["ny1", "pa1"]],
    "move": [["tk1", "ny1"], ["tk1", "pa1"]],
    "end": [["tk1", "ny1"]],
}
"""What walks do, and the chain that it takes; one after the other, again and again."""

MESSAGES = 20
"""Published at each node before each change."""

TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: half of the changes were as quick, nineteen of twenty were."""

    p50: float
    p95: float
    most: float

    @classmethod
    def of(cls, values_ms: Sequence[int]) -> Times:
        """Return them of one or more values."""
        seconds = sorted(value / 1000 for value in values_ms)
        cuts = quantiles(seconds, n=20, method="inclusive") if seconds[1:] else seconds * 19
        return cls(cuts[9], cuts[18], seconds[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, by what walks do.

    Attributes:
        in_force: From the command until the change is in force everywhere.
        pauses: Of the holding nodes, each counted; None where nobody holds.
    """

    backend: str
    rounds: int
    in_force: Mapping[str, Times]
    pauses: Mapping[str, Times | None]


def topology(links: Sequence[Sequence[str]]) -> Topology:
    """Return the mesh with this chain."""
    nodes = {f"{city}{n}": {"kafka": kafka} for city, kafka in CITIES.items() for n in (1, 2, 3)}
    zones: dict[str, object] = {
        city.upper(): {"kind": "one-hop", "nodes": [f"{city}{n}" for n in (1, 2, 3)]}
        for city in CITIES
    }
    zones["WO"] = {"kind": "multi-hop", "links": links}
    kafka: dict[str, object] = {name: {} for name in CITIES.values()}
    return topology_from_mapping({"kafka": kafka, "nodes": nodes, "zones": zones})


def scenario(rounds: int) -> Scenario:
    """Return so many cycles of changes."""
    first = topology(CHANGES["end"])
    publish = [Publish(node=node, subject="a/b", count=MESSAGES, key="k") for node in first.nodes]
    steps = [Subscribe(node=node, endpoint="s", filter=">") for node in first.nodes]
    steps.append(Settle())
    proposals: dict[int, Proposal] = {}
    for _ in range(rounds):
        for links in CHANGES.values():
            steps += publish
            proposals[len(steps)] = Proposal(mesh=Mesh(spec={}, topology=topology(links)))
            steps.append(Apply(timeout=TIMEOUT_S))
    steps.append(Drain(timeout=TIMEOUT_S))
    return Scenario(
        name="change", seed=1, audit=False, topology=first, steps=steps, proposals=proposals
    )


def measured(result: Mapping[str, Any], rounds: int) -> Found:
    """Return the figures of a run.

    Raises:
        StartError: Some step failed, or something arrived twice or out of order.
    """
    for step in result["steps"]:
        if not step["ok"]:
            raise StartError(f"step {step['step']}: {step['detail']['error']}")
    for name, endpoint in result["endpoints"].items():
        if endpoint["duplicates"] or endpoint["disordered"] or endpoint["missing"]:
            raise StartError(f"{name}: {endpoint}")
    details = [step["detail"] for step in result["steps"] if step["step"] == "apply"]
    by_kind = {what: details[index :: len(CHANGES)] for index, what in enumerate(CHANGES)}
    pauses = {
        what: [ms for one in found for ms in one["pauses_ms"].values()]
        for what, found in by_kind.items()
    }
    return Found(
        backend=result["backend"],
        rounds=rounds,
        in_force={what: Times.of([one["ms"] for one in found]) for what, found in by_kind.items()},
        pauses={what: Times.of(values) if values else None for what, values in pauses.items()},
    )


def measure(backend: str, rounds: int, directory: Path) -> Found:
    """Run the cycles."""
    wanted = scenario(rounds)
    if backend == "sim":
        simulated = SimulatedBackend(wanted.topology, wanted.seed)
        return measured(run_scenario(wanted, simulated, backend_name="sim"), rounds)
    file = directory / "mesh.yaml"
    write_topology(wanted.topology, file)
    fleet = Fleet.start(wanted.topology, file, directory, progress=say)
    try:
        real = RealBackend(fleet)
        try:
            return measured(run_scenario(wanted, real, backend_name="kafka"), rounds)
        finally:
            real.close()
    finally:
        fleet.stop()


def rows(found: Found) -> Sequence[str]:
    """Return the figures as lines for people."""
    lines = [f"{found.rounds} changes of each kind on {found.backend}, in seconds"]
    lines.append(f"{'WALKS':8}{'IN FORCE P50':>14}{'P95':>8}{'PAUSE P50':>12}{'P95':>8}")
    for what, times in found.in_force.items():
        pause = found.pauses[what]
        paused = "nobody" if pause is None else f"{pause.p50:12.2f}{pause.p95:8.2f}"
        lines.append(f"{what:8}{times.p50:14.2f}{times.p95:8.2f}{paused:>12}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("change", __doc__)
    parser.add_argument("--backend", choices=("sim", "kafka"), default="sim")
    parser.add_argument("--rounds", type=at_least(1), default=10, help="changes of each kind")
    options = parser.parse_args(arguments)
    set_up_logs(level=logging.ERROR)
    return carry_out(options, partial(measure, options.backend, options.rounds), rows, asdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
