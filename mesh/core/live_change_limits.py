"""What cannot be changed on a running mesh. Spec: K2, K14, K24, K27, DESIGN 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.core.legality import Locate
from mesh.errors import ConfigError, Problem
from mesh.model.control import Identity
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Node, Topology

CANNOT_CHANGE = "CANNOT_CHANGE"
"""Code of every problem found here."""


def refuse_unchangeable(before: Topology, after: Topology, locate: Locate) -> None:
    """Refuse what a running mesh cannot follow; arguments as for `unchangeable`.

    Raises:
        ConfigError: Lists all problems.
    """
    if problems := list(unchangeable(before, after, locate)):
        raise ConfigError(problems)


def unchangeable(before: Topology, after: Topology, locate: Locate) -> Iterator[Problem]:
    """Yield one problem per change that a running mesh cannot follow.

    Args:
        before: The topology in force.
        after: The proposed one.
        locate: Gives the place of a path below `spec` of the proposed one.
    """
    if before.prefix != after.prefix:
        message = (
            f"the prefix is {before.prefix!r} and stays: every topic name begins with it; "
            "start another mesh under the new one"
        )
        yield Problem(code=CANNOT_CHANGE, message=message, where=locate(("prefix",)))
    for name, kafka in after.kafka.items():
        known = before.kafka.get(name, kafka)
        if known.is_embedded and kafka.is_embedded and known.brokers != kafka.brokers:
            message = (
                f"Kafka cluster {name} was started with {_count(known.brokers, 'broker')} and "
                f"nothing starts or ends brokers of a mesh that runs: leave {known.brokers}, "
                "or end the mesh and give `mesh up` the changed file"
            )
            where = locate(("kafka", name, "brokers"))
            yield Problem(code=CANNOT_CHANGE, message=message, where=where)
    for name, node in after.nodes.items():
        if name in before.nodes:
            for key, message in _of_node(before.nodes[name], node):
                where = locate(("nodes", name, key))
                yield Problem(code=CANNOT_CHANGE, message=message, where=where)
    for name, zone in after.zones.items():
        old = before.zones.get(name)
        if old is not None and old.links and old.kind is not zone.kind:
            message = (
                f"zone {name} is {old.kind} and has links, so it cannot become {zone.kind}: "
                "give the zone another name, and its links move there"
            )
            where = locate(("zones", name, "kind"))
            yield Problem(code=CANNOT_CHANGE, message=message, where=where)


def made_otherwise(target: Topology, node: str, found: Identity | None) -> Sequence[str]:
    """Return how a topology differs from what a node was made with, in words.

    The node's file may have said so, by which it was started before it was part of the mesh: later
    starts go by the topology in force, and its topics stay as they were made. Spec: K2, K14.

    Args:
        target: Declares the node.
        node: The node.
        found: What it reports about itself, or None.
    """
    if found is None:
        return ()
    declared = target.nodes[node]
    ingress = TopicNames(target.prefix).ingress(node, MessageClass.GUARANTEED)
    partitions = [one.partitions for one in found.topics if one.name == ingress]
    pairs = [
        ("lane", found.lanes, declared.lanes),
        *(("partition", made, declared.partitions) for made in partitions),
    ]
    return [
        f"node {node} was made with {_count(made, noun)} and cannot have {said}: "
        f"write `{noun}s: {made}`, or declare a node of another name"
        for noun, made, said in pairs
        if made != said
    ]


def _of_node(old: Node, new: Node) -> Iterator[tuple[str, str]]:
    """Yield (key, message) for what cannot change of a node."""
    other_name = "declare a node of another name"
    if old.kafka != new.kafka:
        lives = f"node {old.name} lives on Kafka cluster {old.kafka}"
        yield "kafka", f"{lives} and cannot move to {new.kafka}: {other_name} there"
    if old.lanes != new.lanes:
        made = f"node {old.name} was made with {_count(old.lanes, 'lane')}"
        yield "lanes", f"{made} and cannot have {new.lanes}: {other_name}"
    if old.partitions != new.partitions:
        made = f"node {old.name} was made with {_count(old.partitions, 'partition')}"
        yield "partitions", f"{made} and cannot have {new.partitions}: {other_name}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
