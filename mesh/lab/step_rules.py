"""What may be wrong with a step on a topology, a line each. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import assert_never

from mesh.config.nearest import link_fault, nearest, node_fault
from mesh.errors import ConfigError
from mesh.lab import steps
from mesh.lab.tree_rules import expected_of_trees, tree_faults
from mesh.model.counted import numbered
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.interest_controls import ControlKind
from mesh.model.names import name_fault
from mesh.model.record_headers import header_fault
from mesh.model.subject import filter_fault, subject_fault
from mesh.model.topology import Topology
from mesh.operate.audit.drills import ends_of, refuse_unless_allowed

Workers = Mapping[str, int]
"""Worker processes per node, where they are not one."""


def faults_of(step: steps.Step, topology: Topology, workers: Workers) -> list[str]:
    """Return what is wrong with a step's values.

    Args:
        step: As its file says it, with every value of its type.
        topology: The mesh on which it is run.
        workers: How many workers each node has.

    Returns:
        One sentence for each fault, which says what to write; none if the step can be run.
    """
    faults: list[str | None] = []
    match step:
        case steps.OfNode():
            faults.append(node_fault(step.node, topology.nodes))
        case steps.OfLink():
            faults.append(link_fault(step.link, topology))
        case steps.OfBrokers():
            faults.append(_broker(step, topology))
        case _:
            pass
    match step:
        case steps.Subscribe() | steps.Unsubscribe():
            faults += [filter_fault(step.filter), name_fault(step.endpoint)]
            if isinstance(step, steps.Subscribe) and step.policy and step.kind != "queue":
                faults.append("only a queue has a policy; write kind: queue or remove it")
        case steps.Publish():
            faults += [subject_fault(step.subject), *map(header_fault, step.headers)]
        case steps.Consume():
            faults.append(name_fault(step.queue))
        case steps.Leave():
            faults.append(_left(step))
        case steps.Role() | steps.Unrole() | steps.Send() | steps.Move() | steps.Evict():
            faults += tree_faults(step, topology)
        case steps.OfWorkers():
            faults.append(_worker(step, workers))
        case steps.Cut():
            faults.append(_only(step))
        case steps.Truncate():
            faults += [_data(step.topic, step.partition, topology), _one_broker(step, topology)]
        case steps.DeleteRecords():
            faults.append(_data(step.topic, step.partition, topology))
        case steps.RecreateTopic():
            faults.append(_data(step.topic, 0, topology))
        case steps.Inject():
            faults.append(_injected(step, topology))
        case steps.Storm():
            faults.append(_storm(step, topology))
        case steps.Expect():
            faults.append(_expected(step, topology))
        case steps.OfNode() | steps.OfLink() | steps.OfBrokers():
            pass  # any other
        case steps.Settle() | steps.Drain() | steps.Wait() | steps.Apply():
            pass  # they name nothing of a topology; what `Apply` leads to is judged by itself
        case _:
            assert_never(step)
    return [fault for fault in faults if fault is not None]


def _left(step: steps.Leave) -> str | None:
    if (step.queue is None) == (step.app is None):
        return "write one of `queue: name` and `app: name`: what is left"
    return name_fault(step.queue or step.app or "")


def _only(step: steps.Cut) -> str | None:
    if step.only is None or step.only in step.link:
        return None
    return f"`only` names one of {', '.join(step.link)}"


def _injected(step: steps.Inject, topology: Topology) -> str | None:
    try:
        refuse_unless_allowed(topology)
        ends_of(topology, step.from_, step.to)
    except ConfigError as error:
        return error.problems[0].message
    return None


def _expected(step: steps.Expect, topology: Topology) -> str | None:
    named = [step.endpoint, step.link, step.queue, step.interest, step.findings]
    of_trees = [step.send, step.holder, step.parts]
    if [*named, *of_trees].count(None) != len(named) + len(of_trees) - 1:
        return (
            "expect one of `endpoint: node/name`, `link: a->b`, `queue: name`, `interest: a->b`, "
            "`findings: {KIND: n}`, `send: name`, `holder: tree/role` and `parts: [[a], [b]]`"
        )
    if (step.interest is None) != (step.filters is None):
        return "`interest: a->b` goes with `filters: [...]`, what b wants of a"
    if (fault := _counted(step)) is not None:
        return fault
    if of_trees.count(None) != len(of_trees):
        return expected_of_trees(step, topology)
    if step.findings is not None:
        return next(filter(None, starmap(_found, step.findings.items())), None)
    if step.queue is not None:
        node, slash, name = step.queue.rpartition("/")
        return name_fault(name) or (node_fault(node, topology.nodes) if slash else None)
    if step.endpoint is not None:
        node, slash, name = step.endpoint.partition("/")
        if not (slash and name):
            return f"an endpoint is written `node/name`, not {step.endpoint!r}"
        return node_fault(node, topology.nodes) or name_fault(name)
    if (fault := next(filter(None, map(filter_fault, step.filters or ())), None)) is not None:
        return fault
    link = step.link or step.interest or ""
    source, arrow, target = link.partition("->")
    if not (arrow and target) or link.split() != [link]:
        return f"a link is written `a->b`, not {link!r}"
    return link_fault((source, target), topology)


def _found(kind: str, count: int) -> str | None:
    if kind not in set(FindingKind):
        return f"the auditor has no finding {kind!r}{nearest(kind, list(FindingKind))}"
    return None if count > 0 else f"write how many findings {kind} there are: 1 or more"


def _counted(step: steps.Expect) -> str | None:
    """Return what is expected of something that has no such count, or that nothing is."""
    of, counts = next(
        (of, counts) for of, counts in COUNTS.items() if getattr(step, of) is not None
    )
    for count in dict.fromkeys(one for counts in COUNTS.values() for one in counts):
        if count not in counts and getattr(step, count) is not None:
            named = " and ".join(f"`{one}`" for one in counts) or _ALONE[of]
            return f"`{of}` has no `{count}`; of it {named} can be expected"
    if step.findings == {}:
        return "no finding is expected; add kinds, as in `findings: {split: 1}`"
    if of in ("endpoint", "link", "send") and all(getattr(step, one) is None for one in counts):
        named = " or ".join(f"`{one}`" for one in counts)
        return f"nothing is expected of {getattr(step, of)}; add {named}"
    return None


_ALONE = {"findings": "kinds alone", "interest": "`filters` alone", "parts": "parts alone"}
COUNTS = {
    "findings": (),
    "endpoint": ("count", "ordered"),
    "link": ("messages", "frames", "control"),
    "queue": ("count",),
    "interest": (),
    "send": ("reached", "replies", "nulls", "not_found", "last"),
    "holder": ("node",),
    "parts": (),
}
"""What is expected -> what is counted of it."""


def _worker(step: steps.OfWorkers, workers: Workers) -> str | None:
    if step.worker is None:
        return None
    count = workers.get(step.node, 1)
    if step.worker >= count:
        return f"{step.node} has {numbered(count, 'worker')}; more are written in `spec.workers`"
    return None


def _broker(step: steps.OfBrokers, topology: Topology) -> str | None:
    kafka = topology.kafka.get(step.kafka)
    if kafka is None:
        return f"no Kafka cluster {step.kafka!r}{nearest(step.kafka, list(topology.kafka))}"
    if not kafka.is_embedded:
        return (
            f"Kafka cluster {step.kafka} is given by bootstrap.servers; only brokers that the lab "
            "starts itself can be killed: remove bootstrap.servers"
        )
    if step.broker is not None and step.broker > kafka.brokers:
        return f"Kafka cluster {step.kafka} has {kafka.brokers} brokers, counted from 1"
    return None


def owner_of(topic: str, topology: Topology) -> str | None:
    """Return the node that a data topic belongs to: ingress, outbox or endpoint; or None."""
    names = topology.names
    for node in topology.nodes:
        data = [
            name
            for message_class in MessageClass
            for name in (
                names.ingress(node, message_class),
                *(
                    names.outbox(node, other, message_class)
                    for other in topology.neighbours(node)
                    if topology.sends(node, other)
                ),
            )
        ]
        if topic in data:
            return node
        if name_fault(names.endpoint_of(node, topic)) is None:
            return node
    return None


def _data(topic: str, partition: int, topology: Topology) -> str | None:
    node = owner_of(topic, topology)
    if node is None:
        some = min(topology.nodes, default="NODE")
        example = topology.names.ingress(some, MessageClass.GUARANTEED)
        return (
            f"{topic!r} is not an ingress, outbox or endpoint topic of this mesh; "
            f"write for example {example}"
        )
    if partition >= (count := topology.nodes[node].partitions):
        return f"{topic} has {numbered(count, 'partition')}"
    return None


def _one_broker(step: steps.Truncate, topology: Topology) -> str | None:
    node = owner_of(step.topic, topology)
    if node is None:
        return None
    kafka = topology.home_of(node, topology.kafka)
    if kafka.is_embedded and kafka.brokers == 1:
        return None
    return f"truncate needs an embedded Kafka cluster of one broker; {kafka.name} is not one"


def _storm(step: steps.Storm, topology: Topology) -> str | None:
    if not topology.nodes:
        return "this mesh has no node that a storm could hit; add one to `nodes`"
    given = [name for name, kafka in topology.kafka.items() if not kafka.is_embedded]
    if "kill_broker" in step.faults and given:
        return (
            f"Kafka cluster {given[0]} is given by bootstrap.servers and its brokers cannot be "
            "killed: leave kill_broker out of `faults`"
        )
    for zone in topology.zones.values():
        if zone.direct_only:
            return (
                f"zone {zone.name} is direct-only, which the checker of storms does not know: take "
                "directOnly out of it"
            )
    for control in topology.interest:
        if control.kind is ControlKind.LOCAL:
            return f"{control}, which the checker of storms does not know: take it out of interest"
    return None


def faults_of_all(listed: Sequence[steps.Step]) -> str | None:
    """Return what is wrong with the steps together."""
    if sum(isinstance(step, steps.Storm) for step in listed) > 1:
        return "a scenario has at most one storm; its result is judged as a whole"
    subscriptions = [step for step in listed if isinstance(step, steps.Subscribe)]
    if any(isinstance(step, steps.Storm) for step in listed) and any(
        subscription.noexport for subscription in subscriptions
    ):
        return "the checker of storms does not know noexport: leave it out of the subscriptions"
    return None
