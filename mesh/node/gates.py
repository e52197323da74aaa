"""What a worker lets through on its links, as the node's leader has judged. Spec: K27."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.interest_inputs import GATES
from mesh.model.links import Gate, GateStatus
from mesh.node.learner import Learner
from mesh.node.link_disabling import route_by


def set_gates(learner: Learner, gates: Mapping[str, GateStatus], number: int) -> Sequence[str]:
    """Let data flow over exactly those links that are open; return those that this has shut.

    Over a link that is not open nothing is wanted and nothing is sent, in either class, and
    nothing is read except what was sent while it was open; its control topics are still read. A
    link without a gate here has not been heard of, and is open.

    Args:
        learner: Of the worker.
        gates: By neighbour.
        number: Rises whenever they change.

    Spec: K27.
    """
    shut = []
    learner.pending.versions.note(GATES, (0, number))
    for name, neighbour in learner.neighbours.items():
        gate = gates.get(name)
        if gate is not None and gate.state is Gate.OPEN:
            gate = None
        before, neighbour.gate = neighbour.gate, gate
        if (before is None) == (gate is None):
            continue
        if gate is not None:
            shut.append(name)
        learner.hearing.regather(name)
    for neighbour in learner.neighbours.values():
        route_by(neighbour, learner.router)
    return shut
