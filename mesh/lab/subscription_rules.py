"""What may be wrong with subscriptions of a scenario, each after those before it. Spec: lab.md 1.

A mesh would refuse or leave it without a word to who wrote it; and what is expected of an endpoint
that nobody has would hold, or fail, whatever the mesh does.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.config.nearest import nearest
from mesh.core.endpoints import QueueRules
from mesh.lab.steps import Consume, Expect, Subscribe, Unsubscribe
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.names import fold
from mesh.model.queues import QueuePolicy, declared_queue, policy_in_force
from mesh.model.topology import Topology, ZoneKind


class SubscriptionRules:
    """Follows the steps of a scenario: what each endpoint is subscribed to by then."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str], dict[str, Subscribe]] = {}
        self._names: dict[str, None] = {}  # `node/endpoint`, those of before as well
        self._queues: dict[str, dict[str, None]] = {}  # by node, those of before as well
        self._consumed: dict[str, None] = {}  # `node/queue`, those of before as well

    def follow(
        self, step: Subscribe | Unsubscribe | Consume | Expect, topology: Topology
    ) -> list[str]:
        """Take the next step; return what is wrong with it.

        Args:
            step: As its file says it; its own values may be wrong.
            topology: In force by then.
        """
        if isinstance(step, Expect):
            return self._unknown_endpoint(step) or self._unknown_to_all(step)
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
        self._names[f"{step.node}/{step.endpoint}"] = None
        if step.kind == "queue":
            self._queues.setdefault(step.node, {})[step.endpoint] = None
        faults = (
            _other_kind(step, filters) or _refused_queue(step, filters, topology),
            self._second_home(step, topology),
        )
        return [fault for fault in faults if fault is not None]

    def _unknown_queue(self, step: Consume) -> list[str]:
        """A consumer of what is no queue there waits for messages that never come."""
        there = self._queues.get(step.node, {})
        if step.queue in there:
            self._consumed[f"{step.node}/{step.queue}"] = None
            return []
        hint = nearest(step.queue, [*there]) or "; subscribe it before, with kind: queue"
        return [f"{step.node} has no queue {step.queue!r} at this step{hint}"]

    def _unknown_endpoint(self, step: Expect) -> list[str]:
        """Return that nobody has subscribed an endpoint, to which nothing can have come then."""
        if step.endpoint is None or step.endpoint in self._names:
            return []
        hint = nearest(step.endpoint, [*self._names]) or "; subscribe it before"
        return [f"no step before subscribes an endpoint {step.endpoint!r}{hint}"]

    def _unknown_to_all(self, step: Expect) -> list[str]:
        """Return that nobody has consumed a queue where that is expected.

        What counts is what `consume` took: of all else nothing could be wrong.
        """
        if step.queue is None:
            return []
        names = [name for there in self._queues.values() for name in there]
        node, slash, queue = step.queue.rpartition("/")
        if fold(queue) not in map(fold, names):
            hint = nearest(queue, names) or "; subscribe it before, with kind: queue"
            return [f"no node has a queue {queue!r} at this step{hint}"]
        places = [place if slash else place.rpartition("/")[2] for place in self._consumed]
        if f"{node}{slash}{fold(queue)}" in [_folded(place) for place in places]:
            return []
        hint = nearest(step.queue, places) or f"; add `consume: {{node: NODE, queue: {queue}}}`"
        return [f"no step before consumes {step.queue}, so nothing counts there{hint}"]

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


def _folded(place: str) -> str:
    """Return `node/queue` or a queue's name, with the name as it is compared."""
    node, slash, queue = place.rpartition("/")
    return f"{node}{slash}{fold(queue)}"


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


def _refused_queue(
    step: Subscribe, filters: Mapping[str, Subscribe], topology: Topology
) -> str | None:
    """Return why the node would refuse a queue; the result of a run would not say so."""
    if step.kind != "queue" or step.node not in topology.nodes:
        return None
    rules = QueueRules.at(step.node, topology)
    listed = {(step.endpoint, filter_): _asked(one) for filter_, one in filters.items()}
    return rules.refusal(step.endpoint, _asked(step), rules.policies(listed))


def _asked(step: Subscribe) -> Subscription:
    kind, class_ = EndpointKind(step.kind), MessageClass(step.class_)
    return Subscription(kind, class_, step.policy, noexport=step.noexport)


def _makes_home(step: Subscribe, topology: Topology) -> bool:
    declared = declared_queue(topology.queues, step.endpoint)
    policy = policy_in_force(topology.queues, step.endpoint, step.policy)
    is_declared = declared is not None and declared.home is not None
    return step.kind == "queue" and policy is QueuePolicy.HOME and not is_declared


def _neighbours(topology: Topology, node: str) -> list[str]:
    """Return the neighbours of which a node hears what they want."""
    links = topology.links_of(node) if node in topology.nodes else ()
    return [link.other(node) for link in links if topology.kind_of(link) is not ZoneKind.JOIN]
