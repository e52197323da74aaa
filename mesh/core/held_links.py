"""Links between nodes that are configured apart: each of its ends holds one, and says so.

A node's record of a link is only half of it. Here both halves are combined, from the nodes' own
records. Spec: K26, K27.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from mesh.model.links import Gate, HeldLink, NodeLinks

Records = Mapping[str, NodeLinks]
"""uuid -> what that node says."""

End = tuple[str, str]
"""One end of a link: uuid of the node, and its name for its neighbour."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A link that both of its ends hold.

    Attributes:
        ends: uuids, by the names of the nodes.
        held: As each of them holds it.
    """

    ends: tuple[str, str]
    held: tuple[HeldLink, HeldLink]

    @property
    def version(self) -> int:
        """When it was created: its ends may count separately, and the later one completed it."""
        return max(held.version for held in self.held)

    @property
    def keys(self) -> tuple[End, End]:
        """How its ends name it."""
        (first, second), (there, back) = self.ends, self.held
        return (first, there.neighbour), (second, back.neighbour)


def facts_digest(records: Records, uuids: Sequence[str]) -> str:
    """Return a digest that is equal where two nodes know the same about these nodes."""
    known = repr([(uuid, records[uuid].number) for uuid in sorted(uuids)])
    return blake2b(known.encode(), digest_size=8).hexdigest()


def peer_of(records: Records, held: HeldLink) -> NodeLinks | None:
    """Return what the other end of a link says, or None if nothing was heard from it.

    Before it is known who that is, the name decides, if only one node has it.
    """
    if held.peer:
        return records.get(held.peer)
    named = [one for one in records.values() if one.node == held.neighbour]
    return named[0] if len(named) == 1 else None


def link_back(records: Records, one: NodeLinks, held: HeldLink) -> Pair | None:
    """Return a link as both ends hold it; None if the other end does not hold it.

    One rule says who is meant at both ends, so both find the same: a name of two nodes means
    neither of them, from wherever one looks.
    """
    peer = peer_of(records, held)
    if peer is None:
        return None
    for back in peer.links:
        if (meant := peer_of(records, back)) is not None and meant.uuid == one.uuid:
            if (one.node, one.uuid) < (peer.node, peer.uuid):
                return Pair((one.uuid, peer.uuid), (held, back))
            return Pair((peer.uuid, one.uuid), (back, held))
    return None


def component(records: Records, uuid: str) -> Sequence[str]:
    """Return the nodes connected with one by links that both ends hold, sorted."""
    found = {uuid: None}
    todo = [uuid]
    while todo:
        one = records[todo.pop()]
        for held in one.links:
            pair = link_back(records, one, held)
            for other in pair.ends if pair is not None else ():
                if other not in found:
                    found[other] = None
                    todo.append(other)
    return sorted(found)


def pairs_of(records: Records) -> Iterator[Pair]:
    """Yield each link that both of its ends hold, once."""
    for uuid in sorted(records):
        for held in records[uuid].links:
            pair = link_back(records, records[uuid], held)
            if pair is not None and pair.ends[0] == uuid:
                yield pair


def is_open(records: Records, pair: Pair, *, both: bool = False) -> bool:
    """Return whether a link carries data at one of its ends, or at both, by their own reports."""
    gates = [records[uuid].gate_to(name) for uuid, name in pair.keys]
    return gates.count(Gate.OPEN) > (1 if both else 0)
