"""Homes of queues that a scenario's subscriptions make, and which of them nobody would refuse.

Spec: DESIGN 6, lab.md 1.
"""

from __future__ import annotations

from mesh.lab.steps import Subscribe, Unsubscribe
from mesh.model.names import fold
from mesh.model.queues import QueuePolicy, declared_queue, policy_in_force
from mesh.model.topology import Topology, ZoneKind


class QueueHomes:
    """Follows the steps of a scenario: a queue without a declared home has it where it is wanted.

    A second home beside the first is refused by the mesh itself. Two that are no neighbours do
    not see each other, and each message would be had twice, or by the wrong one.
    """

    def __init__(self) -> None:
        self._filters: dict[tuple[str, str], dict[str, None]] = {}

    def follow(self, step: Subscribe | Unsubscribe, topology: Topology) -> str | None:
        """Take the next step; return what is wrong with it."""
        place = fold(step.endpoint), step.node
        if isinstance(step, Unsubscribe):
            self._filters.get(place, {}).pop(step.filter, None)
            return None
        declared = declared_queue(topology.queues, step.endpoint)
        policy = policy_in_force(topology.queues, step.endpoint, step.policy)
        is_found = declared is not None and declared.home is not None
        if step.kind != "queue" or policy is not QueuePolicy.HOME or is_found:
            return None
        self._filters.setdefault(place, {})[step.filter] = None
        near = {step.node, *_neighbours(topology, step.node)}
        for (queue, node), filters in self._filters.items():
            if queue == place[0] and filters and node not in near:
                return (
                    f"queue {step.endpoint} has its home at {node} already, which is no neighbour "
                    f"of {step.node} and cannot see a second one; declare one home in spec.queues"
                )
        return None


def _neighbours(topology: Topology, node: str) -> list[str]:
    """Return the neighbours of which a node hears what they want."""
    links = topology.links_of(node) if node in topology.nodes else ()
    return [link.other(node) for link in links if topology.kind_of(link) is not ZoneKind.JOIN]
