"""`python -m tests.sim.apart_trials --seeds A:B [--nodes N]`: halves that meet in loops.

Each seed draws nodes whose files are legal and loop only together; some of them start late, while
messages flow, nodes die and links are cut. So links that carry messages lose against others, and
give way. What is published between two nodes that have a way before and after must come exactly
once, and in order; in the end all refuse the same links. Then a link is taken out and put back.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.config.published import published_text
from mesh.model.control import Change, Stage
from mesh.model.links import HOLD, JOIN, OPEN, RUN, SWITCH, YieldProposal
from mesh.model.topology import Topology, Zone
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from tests.sim.apart import ApartMesh, only, random_apart, with_lanes
from tests.sim.trials import run_trials

QUIET_MS = 10_000
CUT_MS = 20_000
WAIT_MAX = 200
"""Times 20 ms that it is waited for a step by which links give way; there may be none."""


@dataclass
class Trial:
    """One seed's course.

    Attributes:
        workers: Per node.
        owed: Each message that must come, and to whom.
        late: Nodes that come last.
        versions: By which changes links were created.
    """

    seed: int
    nodes: int
    mesh: ApartMesh = field(init=False)
    workers: int = 1
    owed: dict[bytes, set[str]] = field(default_factory=dict)
    late: Sequence[str] = ()
    versions: dict[frozenset[str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw the files."""
        self.rng = random.Random(self.seed)
        files = random_apart(self.rng, nodes_max=self.nodes, extras_max=3, joins=False)
        if self.rng.random() < 0.3:
            self.workers = 2
            files = {node: with_lanes(one, 2) for node, one in files.items()}
        self.mesh = ApartMesh(files, seed=self.seed)

    def run(self) -> None:
        """Start, trouble, heal and judge; then take a link out and put it back."""
        rng, mesh = self.rng, self.mesh
        order = rng.sample(sorted(mesh.files), len(mesh.files))
        self.late = order[len(order) - rng.randint(1, 2) :]
        for node in order[: -len(self.late)]:
            self._start(node)
            mesh.run(rng.choice([0, 0, 200, 1_000]), load=True)
        mesh.settle()
        mesh.run(QUIET_MS)
        self._meet()
        mesh.settle()
        self._judge()
        if rng.random() < 0.5:
            self._put_back()
            mesh.settle()
            mesh.assert_settled(self.versions)

    def _start(self, node: str) -> None:
        self.mesh.start(node)
        for index in range(1, self.workers):
            self.mesh.world.start(node, index)

    def _restart(self, node: str, after_ms: int, file: Topology | None = None) -> None:
        self.mesh.restart(node, file, after_ms=after_ms)
        for index in range(1, self.workers):
            self.mesh.world.start(node, index)

    def _meet(self) -> None:
        """Have the others come, and a few things happen meanwhile."""
        rng, mesh = self.rng, self.mesh
        early = sorted(set(mesh.files) - set(self.late))
        before = {node: mesh.reached(node) for node in early}
        first = len(mesh.published)
        todo: list[Callable[[], None]] = [lambda n=n: self._start(n) for n in self.late]
        happenings = [self._kill, self._cut, self._pass, self._kill_at_a_step]
        todo += [rng.choice(happenings) for _ in range(rng.randint(0, 4))]
        rng.shuffle(todo)
        for happen in todo:
            happen()
            mesh.run(rng.choice([0, 100, 300, 700, 1_500, 4_000]), load=True)
        for node in mesh.files:
            mesh.world.cut(node, [])
        mesh.run(5_000, load=True)
        mesh.settle()
        for value, source in list(mesh.published.items())[first:]:
            if source in before:
                self.owed[value] = before[source] & mesh.reached(source)

    def _running(self) -> set[str]:
        return {name.partition("#")[0] for name in self.mesh.world.workers}

    def _pass(self) -> None:
        self.mesh.run(1_000, load=True)

    def _kill(self) -> None:
        running = sorted(self._running())
        node = self.rng.choice(running)
        self._restart(node, self.rng.choice([0, 200, 2_000, 15_000]))

    def _kill_at_a_step(self) -> None:
        """Wait until links are about to give way, and have a node die in the middle of it."""
        rng, mesh = self.rng, self.mesh
        step = rng.choice([HOLD, HOLD + 1, HOLD + 2, SWITCH, OPEN, JOIN, RUN])
        for _ in range(WAIT_MAX):
            if any(proposal.step == step for proposal in self._proposals()):
                break
            mesh.run(20, load=rng.random() < 0.2)
        mesh.run(rng.choice([0, 0, 20, 50, 100]))
        after_ms = rng.choice([0, 200, 2_000, 15_000, 40_000, 90_000])
        self._restart(rng.choice(sorted(self._running())), after_ms)

    def _proposals(self) -> Iterator[YieldProposal]:
        for worker in self.mesh.world.workers.values():
            machine = worker.machine
            own = machine.probing.records.get(machine.uuid) if machine is not None else None
            if own is not None and own.proposal is not None:
                yield own.proposal

    def _cut(self) -> None:
        node = self.rng.choice(sorted(self._running()))
        others = sorted(self.mesh.files[node].neighbours(node))
        if not others:
            return
        self.mesh.world.cut(node, [self.rng.choice(others)])
        self.mesh.run(self.rng.choice([300, 3_000, CUT_MS]), load=True)
        self.mesh.world.cut(node, [])

    def _judge(self) -> None:
        mesh = self.mesh
        mesh.assert_settled()
        mesh.assert_nothing_twice()
        mesh.assert_in_order()
        for node in mesh.files:
            came = mesh.delivered(node)
            lost = [value for value, to in self.owed.items() if node in to and not came[value]]
            assert not lost, (node, "lost", lost)

    def _put_back(self) -> None:
        """Two nodes take a link of theirs out, one after the other, and put it back."""
        rng, mesh = self.rng, self.mesh
        node = rng.choice(sorted(mesh.files))
        others = sorted(mesh.files[node].neighbours(node))
        if not others:
            return
        ends = [node, rng.choice(others)]
        whole = {one: mesh.files[one] for one in ends}
        homes = Counter(mesh.kafka_of(one) for one in mesh.files)
        # Nodes of one Kafka cluster follow one change, and these work by files of their own.
        is_live = rng.random() < 0.5 and all(homes[mesh.kafka_of(one)] == 1 for one in ends)
        for one in ends:
            self._follow(one, without(whole[one], *ends), 1 if is_live else 0)
        mesh.run(rng.choice([0, 2_000, 70_000]), load=rng.random() < 0.5)
        for one in rng.sample(ends, 2):
            self._follow(one, whole[one], 2 if is_live else 0)
        if is_live:
            self.versions[frozenset(ends)] = 2

    def _follow(self, node: str, file: Topology, number: int) -> None:
        """Have a node work by another file: living, if there is a number, or after a restart."""
        rng, mesh = self.rng, self.mesh
        if not number:
            self._restart(node, rng.choice([0, 1_000]), file)
        else:
            mesh.files[node] = file
            for stage in (Stage.SWITCH, Stage.RUN):
                change = Change(number, stage, published_text(file))
                mesh.write(node, mesh.names.config(), encode_change(change), change_key())
                mesh.run(rng.choice([0, 1_000]), load=True)
        mesh.run(rng.choice([0, 500, 3_000]), load=True)


def without(file: Topology, a: str, b: str) -> Topology:
    """Return a file without the link between two nodes."""
    left = [link for link in file.links if set(link.ends) != {a, b}]
    zones: dict[str, Zone] = {}
    for name, zone in only(file, left).zones.items():
        ends = {end for link in zone.links for end in link.ends}
        zones[name] = replace(zone, nodes=tuple(sorted(ends)))
    return replace(file, zones=zones)


def main() -> int:
    """Run what the command line asks for; exit 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.apart_trials", description=__doc__)
    parser.add_argument("--nodes", type=int, default=6)
    return run_trials(parser, lambda seed, options: Trial(seed, options.nodes).run())


if __name__ == "__main__":
    sys.exit(main())
