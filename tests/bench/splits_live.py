"""How soon a mesh on real brokers finds that it is in parts, and whole again: by the colours of the
tree layer, and by the auditor, which believes none of them.

Four nodes in a row on two Kafka clusters, the auditor beside them; the link in the middle is cut
and healed at random moments. Colours count once the heartbeats of all nodes name the parts that
there are, the auditor once its finding can be read.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mesh.config.legal import load_legal_topology
from mesh.errors import StartError
from mesh.lab.audit_follower import AuditFollower
from mesh.local.auditor import spawn_auditor
from mesh.local.fleet import Fleet
from mesh.local.jars import find_kafka
from mesh.view.mesh_view import MeshView
from mesh.worker.process.clock import MonotonicClock
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.quiet import percentiles
from tests.bench.stage import refuse_fallen

TOPOLOGY = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {name: parts}
spec:
  kafka: {left: {}, right: {}}
  nodes: {a: {kafka: left}, b: {kafka: left}, c: {kafka: right}, d: {kafka: right}}
  zones: {Z: {kind: multi-hop, links: [[a, b], [b, c], [c, d]]}}
"""
ENDS = ("b", "c")
LIMIT_S = 20
WAIT_S = 120.0
REST_S = (3.0, 8.0)
"""How long a mesh is left alone before what comes next; drawn, so that no beat is met on purpose."""

LOOK_S = 0.05
CUTS = (50, 95, 100)
WHOLE, APART = ["abcd"], ["ab", "cd"]


@dataclass(slots=True)
class Found:
    """Seconds from each cut and heal until it was found, by the name of who found it."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        return [
            Goal(f"{name}, s, p95", LIMIT_S, percentiles(some, CUTS)["p95"])
            for name, some in self.seconds.items()
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {"seconds": self.seconds, "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        told = [
            f"{name:<16} of {len(some)}, s "
            + "  ".join(f"{cut} {value:.1f}" for cut, value in percentiles(some, CUTS).items())
            for name, some in self.seconds.items()
        ]
        return [*told, *(goal_line(goal.as_json()) for goal in self.goals())]


@dataclass(slots=True)
class Watched:
    """A mesh at work, what its nodes say and what its auditor found."""

    fleet: Fleet
    view: MeshView
    audit: AuditFollower
    clock: MonotonicClock

    def parts(self) -> list[str]:
        """Return the nodes by the colours that their heartbeats tell."""
        by_colour: dict[str, str] = {}
        for node, seen in sorted(self.view.nodes.items()):
            colour = "" if seen.heartbeat is None else seen.heartbeat.colour
            by_colour[colour] = by_colour.get(colour, "") + node
        return sorted(by_colour.values())

    def count(self, kind: str) -> int:
        """Return how many findings of a kind the auditor has made."""
        return self.audit.found().get(kind, 0)

    def until(self, *wanted: Callable[[], bool]) -> list[float]:
        """Return after how many seconds each of these held for the first time."""
        began_s = time.monotonic()
        found: dict[int, float] = {}
        while len(found) < len(wanted):
            self.view.refresh()
            self.audit.refresh()
            now_s = time.monotonic() - began_s
            for at, holds in enumerate(wanted):
                if at not in found and holds():
                    found[at] = now_s
            if now_s > WAIT_S:
                raise StartError(f"not found within {WAIT_S:.0f} s; parts by colour {self.parts()}")
            refuse_fallen(self.fleet)
            self.clock.wait(LOOK_S)
        return [found[at] for at in range(len(wanted))]

    def cut(self, is_cut: bool) -> None:
        """Cut the link in the middle, or heal it."""
        for end, other in (ENDS, ENDS[::-1]):
            self.fleet.cut(end, [other] if is_cut else [])


@contextmanager
def watched(directory: Path) -> Iterator[Watched]:
    """Start the mesh and its auditor; both serve."""
    file = directory / "mesh.yaml"
    file.write_text(TOPOLOGY, encoding="utf-8")
    clock = MonotonicClock()
    with ExitStack() as ends:
        fleet = Fleet.start(
            load_legal_topology(file), file, directory, software=find_kafka(progress=say)
        )
        ends.callback(fleet.stop)
        for node in fleet.topology.nodes:
            fleet.start_node(node)
        auditor = spawn_auditor(fleet)
        ends.callback(auditor.stop, 10)
        kafka = {name: fleet.kafka(name, "bench") for name in fleet.topology.kafka}
        view = MeshView(fleet.topology, kafka, clock.now_ms)
        ends.callback(view.close)
        audit = AuditFollower(fleet.topology, kafka, clock.now_ms)
        ends.callback(audit.close)
        made = Watched(fleet, view, audit, clock)
        made.until(lambda: len(view.nodes) == 4, lambda: audit.is_live)
        yield made


def measure(directory: Path, *, cuts: int, seed: int) -> Found:
    """Cut and heal again and again, each at a moment of its own."""
    draw = random.Random(seed)
    found = Found()
    with watched(directory) as mesh:
        mesh.clock.wait(10 * REST_S[1])  # as it starts an auditor has much to do
        for number in range(cuts):
            for kind, parts in (("split", APART), ("heal", WHOLE)):
                mesh.clock.wait(draw.uniform(*REST_S))
                before = mesh.count(kind)
                mesh.cut(kind == "split")
                colours_s, auditor_s = mesh.until(
                    lambda parts=parts: mesh.parts() == parts,
                    lambda kind=kind, before=before: mesh.count(kind) > before,
                )
                found.seconds.setdefault(f"{kind} by colour", []).append(colours_s)
                found.seconds.setdefault(f"{kind} by auditor", []).append(auditor_s)
                say(f"{number + 1}: {kind} by colour {colours_s:.1f}, by auditor {auditor_s:.1f} s")
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("splits_live", __doc__)
    parser.add_argument("--cuts", type=at_least(1), default=15)
    parser.add_argument("--seed", type=at_least(0), default=1)
    options = parser.parse_args(arguments)
    run = partial(measure, cuts=options.cuts, seed=options.seed)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
