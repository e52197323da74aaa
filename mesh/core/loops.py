"""Which links must carry nothing, judged from the nodes' own records of their links.

Every node that has heard the same records comes to the same answer: links are considered one by
one, oldest first, and one that would give a second way to any node is refused. So of the links of a
loop the one with the highest (creation version, link id) loses, whichever node sees the loop, and
in whatever order its links came up. Spec: DESIGN 3, K26, K27, EMS-6, EMS-15, EMS-16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.core.conflicts import Conflict, first_conflict
from mesh.core.held_links import End, Pair, Records, is_open, link_back, pairs_of
from mesh.core.walks import Graph
from mesh.model.joins import Join
from mesh.model.links import HeldLink, NodeLinks
from mesh.model.names import fold
from mesh.model.topology import Link, ZoneKind


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which links must carry nothing.

    Attributes:
        reasons: The reason for each, for both of its ends.
        losers: Those of them that lose in a loop, or between two nodes of one name.
        labels: What people call each node, by uuid.
    """

    reasons: Mapping[End, str]
    losers: Sequence[Pair]
    labels: Mapping[str, str]


def judgement(records: Records) -> Judgement:
    """Return which links must carry nothing; without them the nodes form a legal mesh.

    Args:
        records: Of all connected nodes, or of some of them.

    Spec: DESIGN 3, K27, EMS-13.
    """
    labels = _labels(records)
    refused: dict[End, str] = {}
    taken: list[Pair] = []
    zones: dict[str, Pair] = {}
    for pair in sorted(pairs_of(records), key=lambda one: _order(one, labels)):
        reason = _disagreement(pair, labels) or _other_zone(pair, zones, labels)
        if reason is None:
            zones |= {zone: zones.get(zone, pair) for zone in _zones(pair)}
            taken.append(pair)
        else:
            refused |= dict.fromkeys(pair.keys, reason)
    losers: list[Pair] = []
    for pair, namesakes in _between_namesakes(taken, records):
        one, other = sorted(f"{records[uuid].node}({uuid})" for uuid in namesakes)
        refused |= dict.fromkeys(
            pair.keys,
            f"{one} and {other} would be two nodes of one name in one mesh, and no path could tell "
            "them apart: give one of them another name",
        )
        losers.append(pair)
        taken.remove(pair)
    while (loop := _first_loop(taken, labels)) is not None:
        at, conflict = loop
        refused |= dict.fromkeys(taken[at].keys, _loop_text(conflict, taken[at], labels))
        losers.append(taken.pop(at))
    return Judgement(refused, losers, labels)


def live_losers(records: Records) -> Sequence[Pair]:
    """Return the links that lose in a loop of which every link carries data at both ends."""
    carrying: dict[str, NodeLinks] = {}
    for uuid, record in records.items():
        pairs = [(held, link_back(records, record, held)) for held in record.links]
        held = [held for held, pair in pairs if pair and is_open(records, pair, both=True)]
        carrying[uuid] = replace(record, links=held)
    return judgement(carrying).losers


def _order(pair: Pair, labels: Mapping[str, str]) -> tuple[object, ...]:
    """Return (creation version, link id)."""
    return pair.version, pair.held[0].zone, sorted(labels[end] for end in pair.ends), pair.ends


def _labels(records: Records) -> Mapping[str, str]:
    """Return what people call each node: its name, and its identity where two have one name."""
    names = [one.node for one in records.values()]
    return {
        uuid: one.node if names.count(one.node) == 1 else f"{one.node}({uuid})"
        for uuid, one in records.items()
    }


def _disagreement(pair: Pair, labels: Mapping[str, str]) -> str | None:
    """Return how the two ends differ over a link, or None. Spec: K27, EMS-13."""
    there, back = pair.held
    if there.facts == back.facts:
        return None
    first, second = (labels[end] for end in pair.ends)
    return (
        f"its ends hold different links: {first} has {_record(there)}, {second} has "
        f"{_record(back)}; give both the same zone and kind"
    )


def _record(held: HeldLink) -> str:
    ways = "".join(
        f", {join.source}->{join.target} {join.filter} hops {join.hops}" for join in held.joins
    )
    return f"{held.kind} in zone {held.zone}{ways}"


def _zones(pair: Pair) -> Sequence[str]:
    held = pair.held[0]
    return [join.zone for join in held.joins] or [held.zone]


def _other_zone(pair: Pair, zones: Mapping[str, Pair], labels: Mapping[str, str]) -> str | None:
    """Return in words that a zone differs elsewhere, or None. A join is a zone. Spec: EMS-13."""
    held = pair.held[0]
    for zone in _zones(pair):
        known = zones.get(zone)
        if known is None or (known.held[0].kind == held.kind and not held.joins):
            continue
        at = "-".join(labels[end] for end in known.ends)
        return (
            f"zone {zone} is {known.held[0].kind} at link {at} and another {held.kind} here; "
            "give one of them another name"
            if known.held[0].kind == held.kind
            else f"zone {zone} is {known.held[0].kind} at link {at} and {held.kind} here; "
            "give one of them another name, or both one kind"
        )
    return None


def _between_namesakes(
    taken: Sequence[Pair], records: Records
) -> Sequence[tuple[Pair, tuple[str, str]]]:
    """Return the links that would join two nodes of one name, and their uuids. Spec: EMS-16.

    Paths, outboxes and members of queues name nodes, so in one mesh a name is one node's.
    """
    parts: dict[str, dict[str, str]] = {}  # uuid -> what it is connected with: name -> uuid
    found: list[tuple[Pair, tuple[str, str]]] = []
    for pair in taken:
        one, other = (parts.setdefault(end, {fold(records[end].node): end}) for end in pair.ends)
        if one is other:
            continue
        if (name := next((name for name in one if name in other), None)) is not None:
            found.append((pair, (one[name], other[name])))
            continue
        one |= other
        parts |= dict.fromkeys(other.values(), one)
    return found


def _first_loop(taken: Sequence[Pair], labels: Mapping[str, str]) -> tuple[int, Conflict] | None:
    """Return the first link that closes a loop with those before it, and the loop.

    Adding links never removes ways, so the place is found by bisection.
    """
    found = _conflict(taken, labels)
    if found is None:
        return None
    low, high = 0, len(taken)  # the first `low` links are legal together, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        conflict = _conflict(taken[:middle], labels)
        if conflict is None:
            low = middle
        else:
            high, found = middle, conflict
    return high - 1, found


def _conflict(pairs: Sequence[Pair], labels: Mapping[str, str]) -> Conflict | None:
    return first_conflict(_graph(pairs, labels), sorted(labels.values()))


def _graph(pairs: Sequence[Pair], labels: Mapping[str, str]) -> Graph:
    kinds: dict[str, ZoneKind] = {}
    joins: dict[str, Join] = {}
    links: list[Link] = []
    for pair in pairs:
        ends, held = [labels[end] for end in pair.ends], pair.held[0]
        if not held.joins:
            kinds[held.zone] = ZoneKind(held.kind)
            links.append(Link.between(held.zone, *ends))
        for join in held.joins:
            kinds[join.zone] = ZoneKind.JOIN
            there = join.source == pair.held[1].neighbour
            source, target = ends if there else ends[::-1]
            joins[join.zone] = replace(join, source=source, target=target)
            links.append(Link.between(join.zone, *ends))
    return Graph.of_links(sorted(labels.values()), kinds, sorted(links), joins)


def _loop_text(conflict: Conflict, pair: Pair, labels: Mapping[str, str]) -> str:
    """Return the loop in one line: both walks, and what to do."""
    first, second = conflict.walks
    link = "-".join(labels[end] for end in pair.ends)
    if conflict.node == conflict.source:
        fault = f"{conflict.source} would reach itself: {first}"
    else:
        fault = f"{conflict.source} would reach {conflict.node} by two walks: {first} and {second}"
    return f"{fault}; {link} ({pair.held[0].zone}) is the newest link of it: remove it, or another"
