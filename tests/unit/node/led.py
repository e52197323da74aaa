"""The machine of a node that leads, with a neighbour or two, and time that passes on demand."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.core.digest import entry_digest
from mesh.model.control import Acknowledgement, Interest, Mark, Ownership, Scope
from mesh.model.effects import WriteHeartbeat
from mesh.model.inputs import (
    ClientsCaughtUp,
    LaneApplied,
    LeadershipTaken,
    NeighbourCaughtUp,
    Ticked,
)
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine


def topology(**zones: object) -> Topology:
    nodes = {name: {} for name in "abcd"}
    return topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones})


def links(*pairs: str) -> object:
    return {"kind": "multi-hop", "links": [list(pair) for pair in pairs]}


WITH_B = topology(Z=links("ab"))
WITH_C = topology(Z=links("ac"))
WITH_BOTH = topology(Z=links("ab", "ac"))
TO_B, TO_C = Scope("Z", "b", Ownership.OWN), Scope("Z", "c", Ownership.OWN)
FROM = Scope("Z", "a", Ownership.OWN)
X_PROVEN = Mark(7, 1, 1, entry_digest("x", Interest()))


def applied(machine: NodeMachine, scope: Scope) -> Acknowledgement:
    """Return what a reader says who has applied all that a node offers in a scope."""
    mark = machine.leader.marks()[scope]
    return Acknowledgement(mark.epoch, mark.number, mark.number)


class Led:
    """The machine of a with one lane, leading; time and commits pass on demand."""

    def __init__(self, mesh: Topology) -> None:
        self.machine = NodeMachine(mesh, "a", "uuid-a")
        self.now_ms = 0
        neighbours = mesh.neighbours("a")
        self.feed(Ticked(0), LeadershipTaken(3, {}), ClientsCaughtUp())
        self.feed(*map(NeighbourCaughtUp, neighbours), LaneApplied(0, {}))
        self.pass_time()

    def feed(self, *inputs: object) -> list[object]:
        return [effect for input_ in inputs for effect in self.machine.step(input_)]

    def pass_time(self, ms: int = 1_200) -> list[object]:
        effects: list[object] = []
        for _ in range(ms // 100):
            self.now_ms += 100
            effects += self.feed(Ticked(self.now_ms), LaneApplied(0, self.machine.in_force))
        return effects

    def status(self) -> tuple[int, str, bool] | None:
        [*_, beat] = [e for e in self.pass_time() if isinstance(e, WriteHeartbeat)]
        change = beat.heartbeat.change
        return None if change is None else (change.number, str(change.stage), change.is_done)
