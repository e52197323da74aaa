"""A cluster that is direct-only and the same that is not, with queues in it."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.core.interest import Member
from mesh.core.local_links import local_links
from mesh.core.queues import Nearness
from mesh.core.routing import Router
from mesh.model.control import Interest
from mesh.model.frames import MessageClass
from mesh.model.queues import Attraction, MemberKind, queue_address
from mesh.model.topology import Topology

G, D = MessageClass.GUARANTEED, MessageClass.DIRECT


def mesh(*, direct_only: bool) -> Topology:
    """A cluster of a, b and c; z beside a."""
    return topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {name: {} for name in "abcz"},
            "zones": {
                "C": {"kind": "cluster", "nodes": ["a", "b", "c"], "directOnly": direct_only},
                "E": {"kind": "external", "links": [["a", "z"]]},
            },
        }
    )


TOPOLOGY, PLAIN = mesh(direct_only=True), mesh(direct_only=False)


def router(topology: Topology) -> Router:
    """The router of a, whose neighbours and one guaranteed endpoint want everything."""
    made = Router(local_links(topology, "a"), near=Nearness(topology, "a"))
    made.table.put(">", Member("", "here"), Interest())
    for link in made.links:
        made.table.put(">", Member(link.zone, link.neighbour), Interest())
    return made


def queued(topology: Topology, *members: tuple[str, MemberKind]) -> Router:
    """The router of a, which knows of these members of queue q."""
    made = Router(local_links(topology, "a"), near=Nearness(topology, "a"))
    for node, kind in members:
        member = Member("", "q") if node == "a" else Member("E" if node == "z" else "C", node)
        made.table.put(str(Attraction("q", node, kind, ">")), member, Interest())
        made.table.put(queue_address("q", node), member, Interest())
    return made
