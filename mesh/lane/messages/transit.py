"""A neighbour's frames: accepted as the chain says, relayed untouched or split, delivered here.

Spec: K10, K11, K18, R10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mesh.core.joins import row_of
from mesh.core.local_links import LocalLink
from mesh.core.routes import Arrival, Route
from mesh.errors import ProtocolError, UnknownVersionError
from mesh.lane.cuts import eras_of
from mesh.lane.lane import Lane
from mesh.lane.memos import RoutedTable
from mesh.lane.messages.accepting import WHOLE, judge_frame, note_unreadable
from mesh.lane.messages.addressing import by_address
from mesh.lane.messages.delivering import deliver
from mesh.lane.messages.gaps import relay as relay_gap
from mesh.lane.messages.outgoing import (
    MessageColumns,
    Provenance,
    count_routes,
    goes_back,
    next_hop,
    send_stretch,
)
from mesh.lane.messages.refusing import refuse
from mesh.lane.messages.selecting import selected
from mesh.lane.messages.sending import send
from mesh.lane.partly_taken import is_skipped, note_partly_taken
from mesh.lane.run import Run
from mesh.lane.traces import remember_frame
from mesh.model.frames import (
    NONE_OFFSET,
    Era,
    FrameKind,
    Hop,
    MessageClass,
    Origin,
)
from mesh.model.joins import NO_JOINS
from mesh.model.reasons import DropReason
from mesh.model.topology import Topology
from mesh.transport.port import Record
from mesh.wire.frames import (
    Peeked,
    decode_eras,
    decode_header,
    decode_messages,
    flagged_tail,
    peek,
    read_headers,
    relay_key,
    scan_value,
    subject_table,
    with_eras,
)


def take_frames(run: Run, link: LocalLink, records: Sequence[Record], records_max: int) -> int:
    """Take frames of one outbox partition, in order, until the batch has so many records.

    Args:
        run: The partition, and the batch that takes what becomes of them.
        link: Over which they come.
        records: One or more, each offset higher than the one before.
        records_max: How many records a batch may have.

    Returns:
        How many of the records were taken: at least one.

    Raises:
        UnknownVersionError: A newer version wrote there: the link stops. Spec: K10.
    """
    batch, source = run.batch, run.source
    is_catch_up = run.lane.catch_up_router is not None  # as `is_catch_up`, without a call per run
    taken = 0
    for record in records:
        offset = record.offset()
        run.about_to_read(offset, offset)
        count = 0
        try:
            if not (is_catch_up and is_skipped(run, offset)):
                peeked = peek(record.key() or b"")
                count = peeked.count
                _take_frame(run, link, record, peeked)
        except UnknownVersionError:
            raise  # not the record's fault: the link stops. Spec: K10
        except ProtocolError as error:
            refuse(run, record, DropReason.CODEC, str(error))
            note_unreadable(run, offset)
        at, generation, epoch = source.at, source.generation, record.leader_epoch()
        batch.read(at, source.topic_id, generation, offset, offset, count, leader_epoch=epoch)
        taken += 1
        if batch.records >= records_max:
            break
    return taken


def _take_frame(run: Run, link: LocalLink, record: Record, peeked: Peeked) -> None:
    """Take a frame: relay it, split it, deliver it here, or none of that.

    Its subjects are read before it is judged: where their table is unreadable nothing is known of
    the frame, and the chain must not go on behind it. One whose value alone is damaged is in its
    place all the same.
    """
    lane = run.lane
    offset, said = record.offset(), decode_eras(peeked.eras_bytes)
    eras = eras_of(run, offset, said)
    hop = peeked.hop
    arrival = _arrival(lane, link, hop, _barred(lane, eras) if lane.ages.made_after else ())
    table = _routed(run, arrival, peeked)
    after = _accepted_after(run, link, record, peeked, arrival)
    if after is None:
        return
    provenance = Provenance(
        node=peeked.node,
        source=peeked.source,
        generation=peeked.generation,
        zone=hop.zone,
        hops=hop.hops,
        crossed_external=hop.crossed_external,
        path=(*hop.path, lane.node),
        frame=offset,
        eras=eras,
        join_hops=hop.join_hops,
        adds_era=eras is not said,
    )
    if peeked.kind is FrameKind.GAP:
        relay_gap(run, provenance, arrival, peeked, _tail(lane, provenance, peeked))
        return
    value = record.value() or b""
    if lane.traces is not None:
        remember_frame(run.batch, value)
    if table.only is not None and after == WHOLE:
        _relay(run, provenance, peeked, value, table.only)
    else:
        header = decode_header(peeked.key)
        provenance = replace(provenance, ext=header.ext)
        _take_apart(run, provenance, header.origin, peeked, value, table, after)
    if table.delivers:
        _deliver(run, provenance, _origin(peeked, table), value, table, after)


def _accepted_after(
    run: Run, link: LocalLink, record: Record, peeked: Peeked, arrival: Arrival
) -> int | None:
    """Return which messages of a frame are taken, as `judge_frame` does; None if none is."""
    offset, path = record.offset(), peeked.hop.path
    fault = _fault(run.lane, path)
    if not path or path[-1] != link.neighbour:
        # The outbox is the neighbour's alone: who else writes there is no part of its chain.
        refuse(run, record, fault or DropReason.SENDER, f"path {'>'.join(path)}")
        note_partly_taken(run, offset)
        return None
    after = judge_frame(run, offset, peeked)
    if after is None:
        return None
    if fault is not None:
        # What went round has been taken all the same: its chain must not break over it.
        refuse(run, record, fault, f"path {'>'.join(path)}")
    elif link.neighbour in arrival.barred:
        # It waited through a change that took the link away, and another that brought it back.
        run.batch.count_dropped(DropReason.EARLIER_TOPOLOGY, run.source.at, peeked.count)
    else:
        return after
    note_partly_taken(run, offset)
    return None


def _barred(lane: Lane, eras: Sequence[Era]) -> tuple[str, ...]:
    return lane.ages.barred(eras, lane.learner.lineage.domain)


def _fault(lane: Lane, path: Sequence[str]) -> DropReason | None:
    """Return why a message that came this way went round, or None if it did not."""
    if lane.node in path:
        return DropReason.LOOP_TRACE
    return DropReason.LOOP_HOPS if _is_too_long(path, lane.topology) else None


def _is_too_long(path: Sequence[str], topology: Topology) -> bool:
    """Return whether a path has as many nodes as there are; those that were removed count too."""
    return len(path) >= len(topology.nodes) and len(path) >= len({*topology.nodes, *path})


def _tail(lane: Lane, provenance: Provenance, peeked: Peeked) -> bytes:
    """Return what a relay hands on: as it came, but a repair is none on the next link. K20.

    And the first node of another domain adds its era. Spec: K10.
    """
    tail = peeked.tail if peeked.flags == lane.flags else flagged_tail(peeked, lane.flags)
    return with_eras(peeked, tail, provenance.eras) if provenance.adds_era else tail


def _origin(peeked: Peeked, table: RoutedTable) -> Origin:
    return Origin(
        node=peeked.node,
        source=peeked.source,
        generation=peeked.generation,
        first=peeked.first,
        last=peeked.last,
        count=peeked.count,
        subjects=table.subjects,
    )


def _arrival(lane: Lane, link: LocalLink, hop: Hop, barred: tuple[str, ...]) -> Arrival:
    row = NO_JOINS
    if hop.join_hops:
        row = row_of(lane.topology.joins, (*hop.path, lane.node), hop.join_hops)
    return Arrival(link.zone, link.neighbour, hop.crossed_external, row, barred)


def _routed(run: Run, arrival: Arrival, peeked: Peeked) -> RoutedTable:
    """Return a frame's subject table with its routes, remembered by the table's very bytes."""
    lane, message_class = run.lane, run.source.message_class
    tables = lane.memos.tables(arrival, message_class)
    raw = peeked.table_bytes
    table = tables.get(raw)
    if table is None:
        table = _route_table(lane, arrival, message_class, raw)
        lane.memos.remember_table(tables, raw, table)
    return table


def _route_table(
    lane: Lane, arrival: Arrival, message_class: MessageClass, raw: bytes
) -> RoutedTable:
    router = lane.router
    subjects = subject_table(raw)
    # Tables of many subjects hardly repeat: what the router remembers is asked for all at once.
    routes: list[Route | None] = list(map(router.memo(arrival, message_class).young.get, subjects))
    found = [
        router.route(subject, arrival, message_class) if route is None else route
        for subject, route in zip(subjects, routes, strict=True)
    ]
    only = found[0] if found and found.count(found[0]) == len(found) else None
    if only is not None and (only.asks or only.addressed):
        only = None
    return RoutedTable(
        subjects, found, only, any(route.endpoints for route in dict.fromkeys(found))
    )


def _relay(
    run: Run,
    provenance: Provenance,
    peeked: Peeked,
    value: bytes,
    route: Route,
) -> None:
    """Hand the value on untouched under a new header."""
    lane, source = run.lane, run.source
    run.batch.count_not_forwarded(route.refused, source.message_class, peeked.count)
    _count_left(run, route, peeked.count)
    tail = _tail(lane, provenance, peeked) if route.neighbours else b""
    for neighbour in route.neighbours:
        link = lane.link(neighbour)
        if lane.is_held(link, source) or goes_back(run, provenance, neighbour, peeked.count):
            continue
        hop = next_hop(run, link, provenance, NONE_OFFSET, NONE_OFFSET)
        key = relay_key(hop, tail, peeked.kind)
        send(run, link, hop.chain, key, value, peeked.count)


def _count_left(run: Run, route: Route, count: int) -> None:
    """Count copies for queues that left this node while they were under way. Spec: DESIGN 4.4.

    And those that go somewhere by a wider filter than was asked for.
    """
    run.batch.count_widened(route.widened, count)
    if route.homeless:
        run.batch.count_dropped(DropReason.QUEUE_LEFT, run.source.at, count * len(route.homeless))


def _take_apart(
    run: Run,
    provenance: Provenance,
    origin: Origin,
    peeked: Peeked,
    value: bytes,
    table: RoutedTable,
    after: int,
) -> None:
    """Cut the messages apart, without decoding them, for links that want only some.

    Where selectors refuse none, or all, the value is handed on untouched after all.
    """
    offsets: list[int] = []
    subjects: list[str] = []
    stamps: list[int] = []
    tails: list[bytes] = []
    routes: list[Route] = []
    base, items = scan_value(value, origin)
    for delta, index, stamp, begin, end in items:
        offset = origin.first + delta
        if offset <= after:
            continue
        offsets.append(offset)
        subjects.append(origin.subjects[index])
        stamps.append(base + stamp)
        tails.append(value[begin:end])
        routes.append(table.routes[index])
    if len(offsets) < origin.count:
        run.batch.count_dropped(DropReason.DUPLICATE, run.source.at, origin.count - len(offsets))
    if any(route.asks for route in table.routes):
        headers = [
            read_headers(tail, 0) if route.asks else ()
            for route, tail in zip(routes, tails, strict=True)
        ]
        routes = selected(run.lane.router, routes, subjects, headers)
    counts = count_routes(routes) if routes else {}
    if len(counts) == 1 and len(offsets) == origin.count and not routes[0].addressed:
        _relay(run, provenance, peeked, value, routes[0])
        return
    for route, count in counts.items():
        run.batch.count_not_forwarded(route.refused, run.source.message_class, count)
        _count_left(run, route, count)
    stretch = MessageColumns(offsets, subjects, stamps, tails, routes)
    for some, its_routes in by_address(stretch, list(counts)):
        send_stretch(run, provenance, some, its_routes)


def _deliver(
    run: Run,
    provenance: Provenance,
    origin: Origin,
    value: bytes,
    table: RoutedTable,
    after: int,
) -> None:
    wanted = None if table.only is not None else [bool(route.endpoints) for route in table.routes]
    messages = decode_messages(value, origin, wanted)
    if after != WHOLE:
        messages = [message for message in messages if message[0] > after]
    deliver(run, provenance, messages, table.subjects, table.routes)
