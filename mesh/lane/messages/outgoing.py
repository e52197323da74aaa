"""Frames made of messages: from the ingress, or from a frame that splits. Spec: K10, K11.

Links that get the same messages share one value; only the header differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.forwarding import crosses_external, next_hop_count
from mesh.core.local_links import LocalLink
from mesh.core.routes import Route
from mesh.lane.lane import Lane
from mesh.lane.messages.sending import next_chain, send
from mesh.lane.run import Run
from mesh.model.frames import Chain, Era, Hop, Origin, SourcePartition, position_in_chain
from mesh.model.reasons import Reason
from mesh.wire.frames import assemble_columns, key_tail, relay_key

FRAME_BYTES = 256_000
"""Frames close here; a larger single message is a frame of one. Spec: K6."""


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages of one source partition in order, as parallel sequences.

    Attributes:
        offsets: Offsets in the *origin's* ingress.
        subjects: Subject of each message.
        stamps: Create time of each, ms.
        tails: Key, headers, payload and ext of each, encoded.
        routes: Where each goes.
    """

    offsets: Sequence[int]
    subjects: Sequence[str]
    stamps: Sequence[int]
    tails: Sequence[bytes]
    routes: Sequence[Route]


def count_routes(routes: Sequence[Route]) -> Mapping[Route, int]:
    """Return how many messages go each way; mostly all of them go the same one."""
    first = routes[0]
    same = routes.count(first)
    return {first: same} if same == len(routes) else Counter(routes)


@dataclass(frozen=True, slots=True)
class Provenance:
    """How messages came to this node: what the headers of their copies start from.

    Attributes:
        node, source, generation: Their origin.
        zone, hops, crossed_external: The link crossed last; empty, 0 and False at the origin.
        join_hops: Joins crossed in a row.
        path: Nodes visited, this one included.
        frame: Offset of the incoming frame, or None at the origin, where offsets are messages'.
        eras: By which topology they were taken, here and in other domains. Spec: K10.
        ext: What a split copies from the incoming header. Spec: K10.
        adds_era: Whether this node is the first of its domain, and so adds to `eras`.
    """

    node: str
    source: SourcePartition
    generation: int
    zone: str
    hops: int
    crossed_external: bool
    path: tuple[str, ...]
    frame: int | None
    eras: tuple[Era, ...]
    join_hops: int
    ext: Mapping[str, bytes] = field(default_factory=dict)
    adds_era: bool = False


def send_stretch(
    run: Run,
    provenance: Provenance,
    stretch: MessageColumns,
    routes: Sequence[Route],
) -> None:
    """Write a stretch to every link that some of its routes leave on.

    Args:
        run: What the messages were read of.
        provenance: How they came here.
        stretch: The messages.
        routes: The distinct routes among them.
    """
    limit = min(FRAME_BYTES, run.lane.topology.max_message_bytes)
    for chosen, links in _groups(routes):
        picked: Sequence[int] = range(len(stretch.routes))
        if len(chosen) != len(routes):
            wanted = dict.fromkeys(chosen)
            picked = [i for i, route in enumerate(stretch.routes) if route in wanted]
        # A split of one frame stays one frame: its chain speaks for the whole incoming record.
        chunks = [picked] if provenance.frame is not None else _chunks(picked, stretch, limit)
        for chunk in chunks:
            _send_frame(run, provenance, stretch, chunk, links)


def _groups(routes: Sequence[Route]) -> Sequence[tuple[Sequence[Route], Sequence[str]]]:
    """Return (routes, links) pairs: links in one pair get the very same messages."""
    by_link: dict[str, list[Route]] = {}
    for route in routes:
        for neighbour in route.neighbours:
            by_link.setdefault(neighbour, []).append(route)
    groups: dict[tuple[Route, ...], list[str]] = {}
    for neighbour in sorted(by_link):
        groups.setdefault(tuple(by_link[neighbour]), []).append(neighbour)
    return list(groups.items())


def _chunks(picked: Sequence[int], stretch: MessageColumns, limit: int) -> Iterator[Sequence[int]]:
    """Cut where a frame's messages and subject table together would pass the limit. Spec: K6."""
    tails, subjects = stretch.tails, stretch.subjects
    # No character has more than four bytes: near enough, since only few frames come near.
    table = 4 * sum(map(len, dict.fromkeys(subjects)))
    if sum(map(len, tails)) + table <= limit:
        yield picked
        return
    begin = total = 0
    named: dict[str, None] = {}
    for at, index in enumerate(picked):
        subject = subjects[index]
        size = len(tails[index]) + (0 if subject in named else len(subject.encode()))
        if total + size > limit and at > begin:
            yield picked[begin:at]
            begin, total = at, 0
            named.clear()
            size = len(tails[index]) + len(subject.encode())
        named[subject] = None
        total += size
    yield picked[begin:]


def _send_frame(
    run: Run,
    provenance: Provenance,
    stretch: MessageColumns,
    chunk: Sequence[int],
    links: Sequence[str],
) -> None:
    """Write one frame to all links that get the same messages: one value, a header each."""
    lane, source = run.lane, run.source
    if len(chunk) == len(stretch.offsets):
        offsets, subjects, stamps, tails = (
            stretch.offsets,
            stretch.subjects,
            stretch.stamps,
            stretch.tails,
        )
    else:
        offsets = [stretch.offsets[i] for i in chunk]
        subjects = [stretch.subjects[i] for i in chunk]
        stamps = [stretch.stamps[i] for i in chunk]
        tails = [stretch.tails[i] for i in chunk]
    first, last = offsets[0], offsets[-1]
    table = dict.fromkeys(subjects)
    value = assemble_columns(first, offsets, table, subjects, stamps, tails)
    origin = Origin(
        node=provenance.node,
        source=provenance.source,
        generation=provenance.generation,
        first=first,
        last=last,
        count=len(chunk),
        subjects=tuple(table),
        eras=provenance.eras,
    )
    tail = key_tail(origin, lane.flags, provenance.ext)
    for neighbour in links:
        link = lane.link(neighbour)
        if lane.is_held(link, source) or goes_back(run, provenance, neighbour, len(chunk)):
            continue
        hop = next_hop(run, link, provenance, first, last)
        send(run, link, hop.chain, relay_key(hop, tail), value, len(chunk))


def goes_back(run: Run, provenance: Provenance, neighbour: str, count: int) -> bool:
    """Return whether a neighbour has had some messages already; count that they do not go there.

    No legal topology asks for that. While one changes, nodes that follow it and others that do
    not yet may form a ring; those who hold cannot, but direct copies hold nobody. Spec: K28.
    """
    if neighbour not in provenance.path:
        return False
    refused = ((neighbour, Reason.ARRIVAL_LINK),)
    run.batch.count_not_forwarded(refused, run.source.message_class, count)
    return True


def next_hop(run: Run, link: LocalLink, provenance: Provenance, first: int, last: int) -> Hop:
    """Return the hop part of a copy's header, with its place in the chain.

    Args:
        run: What the messages were read of.
        link: The link it leaves on.
        provenance: How they came here.
        first: Origin offset of the first message, used where this node is the origin.
        last: Likewise of the last.
    """
    if provenance.frame is not None:
        first = last = provenance.frame
    if generation := run.source.generation:
        first = position_in_chain(generation, first)
        last = position_in_chain(generation, last)
    chain = next_chain(run, link, first, last)
    return hop_over(run.lane, link, provenance, chain)


def hop_over(lane: Lane, link: LocalLink, provenance: Provenance, chain: Chain) -> Hop:
    """Return the hop part of a header for a link, with this chain."""
    return Hop(
        zone=link.zone_out,
        hops=next_hop_count(provenance.hops, arrived_on_zone=link.zone == provenance.zone),
        join_hops=0 if link.out is None else provenance.join_hops + 1,
        crossed_external=provenance.crossed_external or crosses_external(link.kind),
        lane_epoch=lane.progress.epoch,
        path=provenance.path,
        chain=chain,
    )
