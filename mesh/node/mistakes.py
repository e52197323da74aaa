"""What is wrong with a link in itself: its other end is someone else, or lacks the link."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mesh.core.held_links import Records, link_back
from mesh.model.inputs import IdentityRead
from mesh.model.links import HeldLink
from mesh.model.topology import Topology


def mistaken(
    topology: Topology,
    node: str,
    uuid: str,
    identities: Mapping[str, IdentityRead],
    held: HeldLink,
) -> str | None:
    """Return why a neighbour is not who it should be, or None. Spec: EMS-16.

    Args:
        topology: The node's.
        node: The node at this end of the link.
        uuid: Its identity.
        identities: The writer of each neighbour's control topic.
        held: The link.
    """
    identity = identities.get(held.neighbour)
    if identity is None:
        return None
    if identity.uuid == uuid:
        return f"{held.neighbour} is {node} itself: both have the identity {uuid}"
    if identity.read_in and identity.cluster_id != identity.read_in:
        return (
            f"the control topic of {held.neighbour} is a copy: it was written in Kafka cluster "
            f"{identity.cluster_id} and is read in {identity.read_in}; correct the address"
        )
    for other in topology.neighbours(node):
        known = identities.get(other)
        if other < held.neighbour and known is not None and known.uuid == identity.uuid:
            return f"{held.neighbour} and {other} are one node: both are {identity.uuid}"
    return None


def not_held(records: Records, uuid: str, expected: Collection[str], held: HeldLink) -> str | None:
    """Return that the other end does not hold a link, or not to this node, or None. Spec: K27.

    Args:
        records: What each node says.
        uuid: Identity of the node at this end.
        expected: Digests of topologies from which the other end is about to follow a change.
        held: The link.
    """
    own, peer = records[uuid], records.get(held.peer)
    if peer is None or peer.digest in expected:
        return None  # not heard of, or about to follow a change
    if link_back(records, own, held) is not None:
        return None
    back = next((one for one in peer.links if one.neighbour == own.node), None)
    if back is None:
        return (
            f"{held.neighbour} holds no link to {own.node}: add it to the topology of "
            f"{held.neighbour}, or remove it from that of {own.node}"
        )
    if back.peer:
        return (
            f"{held.neighbour} has its link to another node {own.node} ({back.peer}), and this one "
            f"is {uuid}: give each node a name of its own, or end the one that is not meant"
        )
    return (
        f"{held.neighbour} does not know yet which of several nodes {own.node} its link leads to: "
        "this passes once it has heard that node, and for good if each node has a name of its own"
    )
