"""Which links of a node a change of the topology adds, removes or leaves alone. Spec: K27, K28."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.core.lineage import made_of
from mesh.core.local_links import local_links
from mesh.model.control import Scope, Stage, Version, change_version
from mesh.model.interest_inputs import CHANGE
from mesh.model.names import fold
from mesh.model.queues import shared_by
from mesh.model.topology import Topology
from mesh.node.offers import readers_of, scopes_of


def is_switching(version: Version) -> bool:
    """Return whether nodes take a topology one after the other, by the newest change's version."""
    return version == change_version(version[0], Stage.SWITCH)


def has_switched(version: Version) -> bool:
    """Return whether all nodes work by a topology, by the newest change's version."""
    return version == change_version(version[0], Stage.RUN)


def topology_cut(number: int) -> dict[str, int]:
    """Return the cut that lanes announce where they begin to route by a topology's number.

    `CHANGE` takes the place of a node's uuid, and the number that of its `clients` offset.
    Nothing is announced before the first change of a mesh. Spec: K25, K28.
    """
    return {CHANGE: number} if number > 0 else {}


@dataclass(frozen=True, slots=True)
class LinkChanges:
    """What happens to a node's neighbours; one whose link is recreated is both gone and added.

    Attributes:
        gone: Neighbours whose links are removed.
        added: Neighbours whose links are new.
        awaited: They and the node must know each other's offers by the new topology before sources
            go on: if a link is new, and all of them if queues are shared out differently.
    """

    gone: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()


NO_CHANGES = LinkChanges()


def link_changes(before: Topology, after: Topology, node: str) -> LinkChanges:
    """Return what a change means for one node; both ends of a link come to the same answer.

    A link stays if zone, kind and joins are the same as both ends see them.
    """
    old, new = _seen(before, node), _seen(after, node)
    added = tuple(name for name in sorted(new) if old.get(name) != new[name])
    is_shared_otherwise = _sharing(before) != _sharing(after)
    return LinkChanges(
        gone=tuple(name for name in sorted(old) if new.get(name) != old[name]),
        added=added,
        awaited=tuple(sorted(new)) if is_shared_otherwise else added,
    )


def scopes_read(topology: Topology, node: str) -> Mapping[str, Sequence[Scope]]:
    """Return the scopes in which each neighbour of a node offers interest to it."""
    found = {}
    for name in topology.neighbours(node):
        links = local_links(topology, name)
        found[name] = [scope for scope in scopes_of(links) if node in readers_of(links, scope)]
    return found


def with_node(topology: Topology, node: str, before: Topology) -> Topology:
    """Return a topology that includes a node: one that is removed has no links, until it ends.

    Addresses of Kafka clusters stay as they were: what is in force has no secrets, and nothing
    that only one process knows. Of the node's own entry only the realm can change.
    """
    kafka = {**topology.kafka, **before.kafka}
    own, declared = before.nodes[node], topology.nodes.get(node)
    realm = own.realm if declared is None else declared.realm
    own = replace(own, realm=realm, is_member=declared is not None)
    nodes = {**topology.nodes, node: own}
    return replace(topology, kafka=kafka, nodes=nodes)


def _seen(topology: Topology, node: str) -> Mapping[str, object]:
    return {link.other(node): made_of(topology, link) for link in topology.links_of(node)}


def _sharing(topology: Topology) -> Mapping[str, object]:
    """Return what determines the members of each declared queue that get messages. Spec: K28."""
    return {fold(name): shared_by(topology.queues, name) for name in topology.queues}
