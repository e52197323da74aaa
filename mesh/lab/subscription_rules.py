"""What may be wrong with subscriptions of a scenario, each after those before it. Spec: lab.md 1.

A mesh would refuse or leave it without a word to who wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.config.nearest import nearest
from mesh.lab.steps import Consume, Subscribe, Unsubscribe
from mesh.model.names import fold
from mesh.model.queues import QueuePolicy, declared_queue, policy_in_force
from mesh.model.topology import Topology, ZoneKind


class Subscriptions:
    """Follows the steps of a scenario: what each endpoint is subscribed to by then."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str], dict[str, Subscribe]] = {}
        self._queues: dict[str, dict[str, None]] = {}  # by node, those of before as well

    def follow(self, step: Subscribe | Unsubscribe | Consume, topology: Topology) -> list[str]:
        """Take the next step; return what is wrong with it."""
        if isinstance(step, Consume):
            return self._unknown_queue(step)
        filters = self._endpoints.setdefault((step.node, fold(step.endpoint)), {})
        name = next((one.endpoint for one in filters.values()), step.endpoint)
        if name != step.endpoint:
            text = f"write {name} instead of {step.endpoint}, or name another one"
            return [
                f"{step.node} has an endpoint {name}, and case does not tell names apart; {text}"
            ]
        if isinstance(step, Unsubscribe):
            return [] if filters.pop(step.filter, None) else [_absent(step, filters)]
        filters[step.filter] = step
        if step.kind == "queue":
            self._queues.setdefault(step.node, {})[step.endpoint] = None
        faults = _other_kind(step, filters), self._second_home(step, topology)
        return [fault for fault in faults if fault is not None]

    def _unknown_queue(self, step: Consume) -> list[str]:
        """A consumer of what is no queue there waits for messages that never come."""
        there = self._queues.get(step.node, {})
        if step.queue in there:
            return []
        hint = nearest(step.queue, [*there]) or "; subscribe it before, with kind: queue"
        return [f"{step.node} has no queue {step.queue!r} at this step{hint}"]

    def _second_home(self, step: Subscribe, topology: Topology) -> str | None:
        """A queue without a declared home has it where it is wanted. Spec: DESIGN 6.

        A second home beside the first is refused by the mesh itself. Two that are no neighbours do
        not see each other, and each message would be had twice, or by the wrong one.
        """
        if not _makes_home(step, topology):
            return None
        near = {step.node, *_neighbours(topology, step.node)}
        for (node, name), filters in self._endpoints.items():
            if name != fold(step.endpoint) or node in near:
                continue
            if any(_makes_home(one, topology) for one in filters.values()):
                return (
                    f"queue {step.endpoint} has its home at {node} already, which is no neighbour "
                    f"of {step.node} and cannot see a second one; declare one home in spec.queues"
                )
        return None


def _absent(step: Unsubscribe, filters: Mapping[str, Subscribe]) -> str:
    place = f"endpoint {step.endpoint} of {step.node}"
    if not filters:
        return f"{place} is not subscribed at this step; leave it out, or subscribe it before"
    return f"{place} has no filter {step.filter!r} at this step{nearest(step.filter, [*filters])}"


def _other_kind(step: Subscribe, filters: Mapping[str, Subscribe]) -> str | None:
    first = next(iter(filters.values()))
    if (first.kind, first.class_) == (step.kind, step.class_):
        return None
    return (
        f"endpoint {step.endpoint} of {step.node} is a {first.class_} {first.kind} already and "
        f"cannot be a {step.class_} {step.kind} too; name another one, or unsubscribe it first"
    )


def _makes_home(step: Subscribe, topology: Topology) -> bool:
    declared = declared_queue(topology.queues, step.endpoint)
    policy = policy_in_force(topology.queues, step.endpoint, step.policy)
    is_declared = declared is not None and declared.home is not None
    return step.kind == "queue" and policy is QueuePolicy.HOME and not is_declared


def _neighbours(topology: Topology, node: str) -> list[str]:
    """Return the neighbours of which a node hears what they want."""
    links = topology.links_of(node) if node in topology.nodes else ()
    return [link.other(node) for link in links if topology.kind_of(link) is not ZoneKind.JOIN]
