"""What a worker lets through of its links, as the node's leader has judged. Spec: K27."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.links import Gate, GateStatus
from mesh.node.learner import Learner

LINKS = "$links"
"""Name of the gates among the inputs of interest: so every lane commits from which positions on
it goes by them, and the leader knows when all do."""


def set_gates(learner: Learner, gates: Mapping[str, GateStatus], number: int) -> Sequence[str]:
    """Have data go over exactly those links that are open; return which were shut by it.

    Of a link that is not open nothing is wanted, nothing is read and nothing is sent, in either
    class; its control topics are read on. Who has no gate here has not been heard of, and does
    not hear either.

    Args:
        learner: Of the worker.
        gates: By neighbour.
        number: Rises whenever they change.

    Spec: K27.
    """
    shut = []
    router = learner.router
    learner.version_read(LINKS, (0, number))
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
    refused = {name: None for name, one in learner.neighbours.items() if one.gate is not None}
    if refused != router.refused:
        router.refused = refused
        router.forget()
    return shut
