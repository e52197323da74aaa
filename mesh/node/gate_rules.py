"""What one node lets through on its links, by what all nodes say about theirs. Spec: K27."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from mesh.core.held_links import Pair, Records, is_open, link_back
from mesh.core.loops import Judgement, live_losers
from mesh.model.counted import listed
from mesh.model.effects import Note
from mesh.model.links import Gate, GateStatus, NodeLinks
from mesh.model.topology import Topology

LAGGARDS_MAX = 5
"""How many nodes are named that a link waits for; more would not be read."""

NOTHING_REFUSED = Judgement({}, (), {})

Gates = Mapping[str, GateStatus]
"""Gates by neighbour."""


def by_name(record: NodeLinks) -> Gates:
    """Return the gates of a record."""
    return {gate.neighbour: gate for gate in record.gates}


def states(gates: Gates) -> Mapping[str, Gate]:
    """Return the gates that are not open: a neighbour not heard of yet is not shut."""
    return {name: gate.state for name, gate in gates.items() if gate.state is not Gate.OPEN}


def is_probing(gates: Gates) -> bool:
    """Return whether a link waits until all have seen it."""
    return any(gate.state is Gate.PROBING for gate in gates.values())


def opened(gate: GateStatus) -> GateStatus:
    """Return a gate that no longer needs to wait."""
    return GateStatus(gate.neighbour, Gate.OPEN) if gate.state is Gate.PROBING else gate


def on_wire(gate: GateStatus) -> GateStatus:
    """Return a gate as it is published: others know by themselves what a link waits for."""
    return gate if gate.state is Gate.REFUSED else replace(gate, reason="")


def is_same(before: NodeLinks, after: NodeLinks, neighbour: str) -> bool:
    """Return whether two records of one node hold the same link to a neighbour."""
    was, now = before.link_to(neighbour), after.link_to(neighbour)
    return was is not None and now is not None and (was.facts, was.peer) == (now.facts, now.peer)


def only_peers_changed(last: NodeLinks | None, record: NodeLinks) -> bool:
    """Return whether nothing about the own links has changed except who the neighbours are.

    Other links must be published at once: when a change ends, a node whose record has the former
    ones is apart. So must a link that has opened: the next leader goes by what was published.
    """
    if last is None or last.digest != record.digest:
        return False
    if states(by_name(last)) != states(by_name(record)):
        return False
    return [link.facts for link in last.links] == [link.facts for link in record.links]


def up_to_date(records: Records, topology: Topology, former: Collection[str]) -> Records:
    """Return what nodes say, without the links that those that missed changes will drop.

    A node that is down or behind a disabled link may keep its old record for weeks; it follows what
    is in force as soon as it is back, and until then its record must refuse none of that.

    Args:
        records: By uuid.
        topology: In force.
        former: Digests of those before.

    Spec: K27, K28, DMR-10.
    """
    found: dict[str, NodeLinks] = {}
    for uuid, record in records.items():
        found[uuid] = record
        if record.digest in former and record.node in topology.nodes:
            left = topology.neighbours(record.node)
            held = [link for link in record.links if link.neighbour in left]
            found[uuid] = replace(record, links=held)
    return found


def yielding(records: Records, judged: Judgement) -> Sequence[Pair]:
    """Return the links that lose in a loop although they carry data."""
    return [pair for pair in judged.losers if is_open(records, pair)]


def kept_open(
    records: Records,
    own: NodeLinks,
    near: Sequence[str],
    losers: Sequence[Pair],
    said: Collection[str],
) -> Sequence[str]:
    """Return the neighbours whose links lose, but carry data until all nodes let them go.

    If every link of a loop already carries data, messages go round: that ends at once.

    Args:
        records: What each node says.
        own: This node's own record.
        near: uuids of all nodes connected with this one.
        losers: Links that lose although they carry data.
        said: Digests of everything that this node has said to have seen with its present links.

    Spec: K27, K28.
    """
    kept: list[str] = []
    for pair in losers:
        mine, other = sorted(pair.keys, key=lambda end: end[0] != own.uuid)
        if mine[0] != own.uuid:
            continue
        peer = records[other[0]]
        # It opened after all had seen what this node said, but before this one heard the news.
        has_opened = peer.gate_to(other[1]) is Gate.OPEN and peer.seen in said
        if own.gate_to(mine[1]) is Gate.OPEN or has_opened:
            kept.append(mine[1])
    if not kept:
        return ()
    live = live_losers({uuid: records[uuid] for uuid in near})
    ended = [name for pair in live for uuid, name in pair.keys if uuid == own.uuid]
    return [name for name in kept if name not in ended]


def shut(
    records: Records, own: NodeLinks, reasons: Mapping[str, str], kept: Sequence[str]
) -> dict[str, GateStatus]:
    """Return the gates with everything shut that must be; nothing is opened but what is kept.

    Args:
        records: What each node says.
        own: This node's own record, with its gates before.
        reasons: Why links must carry nothing, by neighbour.
        kept: Neighbours whose links carry data nevertheless.
    """
    gates = by_name(own)
    found: dict[str, GateStatus] = {}
    for held in own.links:
        name = held.neighbour
        known = gates.get(name)
        drains = known is not None and (known.state is Gate.OPEN or known.drains)
        if name in reasons:
            found[name] = GateStatus(name, Gate.REFUSED, reasons[name], drains)
        elif name in kept:
            found[name] = GateStatus(name, Gate.OPEN)
        elif known is not None and known.state is Gate.OPEN:
            found[name] = known
        elif link_back(records, own, held) is not None:
            found[name] = GateStatus(name, Gate.PROBING, "", drains)
    return found


def waits_for(node: str, lagging: Sequence[str], losers: Sequence[Pair], judged: Judgement) -> str:
    """Return in words what a probed link waits for.

    Args:
        node: The node at this end of the link.
        lagging: Names of nodes that have not seen everything.
        losers: Links that have to give way.
        judged: The judgement.
    """
    if losers:
        name = "-".join(judged.labels[end] for end in losers[0].ends)
        return f"waits until {name} gives way: {judged.reasons[losers[0].keys[0]]}"
    names = sorted(lagging)
    waited = listed(names, LAGGARDS_MAX)
    return f"waits until the links of all nodes are seen by {waited or node}"


def news(before: Gates, after: Gates) -> Iterator[Note]:
    """Yield what people should know of gates that have changed."""
    for name, gate in after.items():
        known = before.get(name)
        if gate.state is Gate.REFUSED and gate != known:
            yield Note("link.refused", {"neighbour": name, "text": gate.reason})
        elif known is not None and known.state is not Gate.OPEN and gate.state is Gate.OPEN:
            yield Note("link.open", {"neighbour": name})
