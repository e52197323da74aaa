"""What a worker lets through of its links, as the node's leader has judged. Spec: K27."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.links import Gate, GateStatus
from mesh.node.closing import route_by
from mesh.node.learner import Learner

LINKS = "$links"
"""Name of the gates among the inputs of interest: so every lane commits from which positions on
it goes by them, and the leader knows when all do."""


STILL = "$still"
"""Name of what sources hold for, and of the looks whether anything is on its way: version
(`Answer.number`, twice the step, and one more if nothing had come since the look before)."""


def set_gates(learner: Learner, gates: Mapping[str, GateStatus], number: int) -> Sequence[str]:
    """Have data go over exactly those links that are open; return which were shut by it.

    Of a link that is not open nothing is wanted and nothing is sent, in either class, and nothing
    is read but what was sent while it was open; its control topics are read on. A link without
    a gate here has not been heard of, and is open.

    Args:
        learner: Of the worker.
        gates: By neighbour.
        number: Rises whenever they change.

    Spec: K27.
    """
    shut = []
    learner.versions.note(LINKS, (0, number))
    for name, neighbour in learner.neighbours.items():
        gate = gates.get(name)
        if gate is not None and gate.state is Gate.OPEN:
            gate = None
        before, neighbour.gate = neighbour.gate, gate
        if (before is None) == (gate is None):
            continue
        if gate is not None:
            shut.append(name)
        learner.regather(name)
    for neighbour in learner.neighbours.values():
        route_by(neighbour, learner.router)
    return shut
