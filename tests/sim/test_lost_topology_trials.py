"""What `mesh.config` holds is lost at random amid changes, restarts by older files and founding.

Nothing is lost or doubled, and once people have said what is in force all goes on. Spec: K28.
"""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Stage
from mesh.model.topology import Topology
from mesh.operate.changes.founding import publish
from mesh.operate.changes.in_force import read_in_force
from tests.sim.changing import ChangedMesh

LINKS = ("", "ab", "bc", "ac", "ab bc", "ac bc", "ab ac")
KAFKA = ("k", "far")


class Trial:
    """Three nodes, and an operator who knows what is in force whatever is lost."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        lanes, workers = self.rng.choice((1, 1, 2)), self.rng.choice((1, 1, 2))
        nodes = {one: {"kafka": "far" if one == "b" else "k", "lanes": lanes} for one in "abc"}
        self.topologies = [_topology(nodes, links) for links in LINKS]
        self.in_force = self.target = self.rng.choice(self.topologies)
        self.mesh = ChangedMesh(self.in_force, seed, workers)
        self.files = [self.in_force]
        self.is_lost = self.is_begun = False

    def step(self) -> None:
        """Do one thing that may happen now."""
        if self.is_lost:
            end = self.abort if self.is_begun else self.begin
            acts = [self.restart, self.restart, self.lose, self.found, end]
        elif self.is_begun:
            acts = [self.abort, self.restart, self.lose]
        else:
            acts = [self.change, self.change, self.begin, self.restart, self.lose]
        self.rng.choice(acts)()

    def change(self) -> None:
        self.in_force = self.rng.choice(self.topologies)
        self.mesh.change_to(self.in_force, "abc")
        self.files.append(self.in_force)

    def begin(self) -> None:
        self.mesh.number += 1
        self.target, self.is_begun = self.rng.choice(self.topologies), True
        self.mesh.say(Stage.HOLD, self.target, "abc")
        self.live(100, 1_000, 5_000)

    def abort(self) -> None:
        self.mesh.say(Stage.ABORT, self.target)
        self.is_begun = False
        self.live(100, 1_000, 5_000)

    def lose(self) -> None:
        """Have somebody delete it on one Kafka cluster, or on both."""
        for name in self.rng.choice((KAFKA, KAFKA, KAFKA[:1], KAFKA[1:])):
            self.mesh.world.kafka[name].recreate("mesh.config")
        self.is_lost = True
        self.live(100, 3_000, 12_000)

    def restart(self) -> None:
        """Start workers again, by a file that may be older than what is in force."""
        self.mesh.world.adopt(self.rng.choice(self.files[-3:]))
        for node in self.rng.choice(("a", "b", "c", "abc", "abc")):
            for index in range(self.rng.randint(1, self.mesh.workers)):
                self.mesh.world.kill(node, index)
                self.mesh.world.start(node, index)
        self.live(100, 2_000, 15_000)

    def found(self) -> None:
        """Say what is in force, and let all come to rest."""
        if self.is_begun:
            self.abort()
        mesh, kafka = self.mesh, self.mesh.world.kafka
        mesh.in_force = publish(self.in_force, kafka)
        mesh.number = max(mesh.number, mesh.in_force)
        found, _ = read_in_force(kafka, mesh.names.prefix)
        assert found is not None
        assert found.lineage is not None
        mesh.lineage, self.is_lost = found.lineage, False
        mesh.run(25_000)
        mesh.settle()

    def live(self, *ms: int) -> None:
        self.mesh.run(self.rng.choice(ms), load=True)


def _topology(nodes: dict[str, dict[str, object]], links: str) -> Topology:
    zone = {"kind": "multi-hop", "links": [list(ends) for ends in links.split()]}
    zones = {"Z": zone} if links else {}
    return topology_from_mapping({"kafka": dict.fromkeys(KAFKA), "nodes": nodes, "zones": zones})


@pytest.mark.parametrize("seed", range(12))
def test_all_goes_on_once_it_is_known_what_is_in_force(seed: int) -> None:
    """Spec: K28."""
    trial = Trial(seed)
    for _ in range(trial.rng.randint(3, 9)):
        trial.step()
    trial.found()
    trial.live(1_000)
    trial.change()
    trial.mesh.run(30_000)
    trial.mesh.settle()
    trial.mesh.assert_exact()
