"""What putting another topology in force would change: looked at, not done.

Spec: DESIGN 3, DESIGN 4.1, K27, K28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.config.published import published_document
from mesh.core.audience import EndpointFilter
from mesh.core.differences import Action, Described, Difference, ItemKind, differences_between
from mesh.core.legality import Locate
from mesh.core.reach import ReachChange, compare_reach
from mesh.core.rights import RightsChange, compare_rights
from mesh.errors import ConfigError, Problem
from mesh.model.topology import Topology
from mesh.operate.changes.in_force import TopologyInForce
from mesh.operate.changes.unread import Unread
from mesh.transport.port import TopicSpec

UNREAD = "UNREAD"
"""Code of the problem that deleting a topic would lose messages."""

Topics = Mapping[str, Sequence[TopicSpec]]
"""Node -> the topics that it owns."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A topic on a Kafka cluster."""

    kafka: str
    topic: str


@dataclass(frozen=True, slots=True, order=True)
class SettingChange:
    """A topic setting that differs."""

    kafka: str
    topic: str
    setting: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChange:
    """What happens to the topics of nodes; sorted.

    Attributes:
        created: Those that are missing.
        deleted: Those that are no longer needed at all.
        left: Those of deleted nodes that somebody may still read: deliveries, records of lanes,
            dead letters. Nobody writes there again.
        changed: Settings of those that stay.
    """

    created: Sequence[Place]
    deleted: Sequence[Place]
    left: Sequence[Place]
    changed: Sequence[SettingChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The difference between the topology in force and a proposed one.

    Attributes:
        base: What it was made against.
        proposed: The proposed topology.
        differences: Between the two topologies, attribute by attribute.
        topics: Changes of Kafka topics.
        rights: Changes of the nodes' principals.
        reach: Who would receive from whom, and over which way.
        unread: Guaranteed messages in topics that would be deleted.
        queues: Queues whose messages would go to other members.
        knows_interest: Whether the filters in force were considered.
    """

    base: TopologyInForce
    proposed: Topology
    differences: Sequence[Difference]
    topics: TopicsChange
    rights: RightsChange
    reach: ReachChange
    unread: Sequence[Unread] = ()
    queues: Sequence[str] = ()
    knows_interest: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self.differences

    @property
    def to_restart(self) -> Sequence[str]:
        """Nodes that talk to a Kafka cluster whose options change: they keep the old ones.

        They take addresses and options from their own file, which no record replaces.
        """
        changed = [
            one.name
            for one in self.differences
            if one.what is ItemKind.KAFKA and one.action is Action.CHANGE
        ]
        before = self.base.topology
        return [
            node
            for node in self.proposed.nodes
            if node in before.nodes
            and any(before.nodes[one].kafka in changed for one in (node, *before.neighbours(node)))
        ]


def make_plan(
    base: TopologyInForce,
    proposed: Topology,
    topics: TopicsChange,
    *,
    subscriptions: Sequence[EndpointFilter] | None = None,
    unread: Sequence[Unread] = (),
    queues: Sequence[str] = (),
) -> Plan:
    """Return what a proposed topology would change.

    Args:
        base: What is in force.
        proposed: A legal topology that a running mesh can follow, see `unchangeable`.
        topics: See `compare_topics`.
        subscriptions: The filters in force; None if they were not queried.
        unread: See `unread_in`.
        queues: See `queues_shared_otherwise`.
    """
    before = base.topology
    return Plan(
        base=base,
        proposed=proposed,
        differences=differences_between(
            Described(topology=before, document=base.document),
            Described(topology=proposed, document=published_document(proposed)),
        ),
        topics=topics,
        rights=compare_rights(before, proposed),
        reach=compare_reach(before, proposed, subscriptions or ()),
        unread=unread,
        queues=queues,
        knows_interest=subscriptions is not None,
    )


def compare_topics(
    before: Topology,
    after: Topology,
    old: Topics,
    new: Topics,
    endpoints: Mapping[str, Sequence[str]],
) -> TopicsChange:
    """Return what happens to the topics of nodes.

    Args:
        before: The topology in force.
        after: The proposed one.
        old: Topics that nodes own.
        new: Topics that nodes would own.
        endpoints: Endpoints by node, as far as known.
    """
    had, has = _placed(before, old), _placed(after, new)
    unneeded = [place for place in had if place not in has]
    kept = {name: None for node in before.nodes for name in _kept(before, node)}
    left = [place for place in unneeded if place.topic in kept]
    left += [
        Place(before.nodes[node].kafka, before.names.endpoint(node, endpoint))
        for node in before.nodes
        if node not in after.nodes
        for endpoint in endpoints.get(node, ())
    ]
    return TopicsChange(
        created=sorted(place for place in has if place not in had),
        deleted=sorted(place for place in unneeded if place.topic not in kept),
        left=sorted(left),
        changed=sorted(
            SettingChange(place.kafka, place.topic, key, had[place].settings.get(key, ""), value)
            for place, spec in has.items()
            if place in had
            for key, value in spec.settings.items()
            if had[place].settings.get(key) != value
        ),
    )


def _placed(topology: Topology, topics: Topics) -> Mapping[Place, TopicSpec]:
    return {
        Place(topology.nodes[node].kafka, spec.name): spec
        for node, specs in topics.items()
        for spec in specs
    }


def _kept(topology: Topology, node: str) -> Sequence[str]:
    """Return the topics that outlive a node: what it did, said and refused."""
    names = topology.names
    return [
        names.ledger(node),
        names.control_log(node),
        names.dead_letters(node),
        names.config(),
    ]


def refuse_loss(unread: Sequence[Unread], locate: Locate) -> None:
    """Refuse to delete topics with unread messages that nobody will read before.

    Raises:
        ConfigError: One problem per topic.
    """
    problems = [
        Problem(
            code=UNREAD,
            message=(
                f"{one.topic} on {one.kafka} would be deleted and holds {_amount(one)} that "
                f"{one.reader} does not read now; have it read them first, "
                "or lose them by --allow-delete"
            ),
            where=locate(()),
        )
        for one in unread
        if not one.is_read
    ]
    if problems:
        raise ConfigError(problems)


def _amount(one: Unread) -> str:
    if one.records is None:
        return "an unknown number of guaranteed records (its Kafka cluster does not answer)"
    noun = "record" if one.records == 1 else "records"
    return f"{one.records} unread guaranteed {noun}"
