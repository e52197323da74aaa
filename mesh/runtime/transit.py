"""A neighbour's frames: judged by the chain, relayed untouched or split, delivered here.

Spec: K10, K11, K18, R10.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.codec.deliveries import delivery_header, delivery_prefix
from mesh.codec.frames import Peeked, decode_messages, origin_of, peek, relay_key, scan_value
from mesh.core.chain import Verdict
from mesh.core.routing import Arrival, LocalLink, Route
from mesh.errors import ProtocolError, UnknownVersionError
from mesh.model.frames import NONE_OFFSET, Hop, MessageClass, Origin
from mesh.model.headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import DeadLetter, Progress, ProgressKind
from mesh.runtime.batch import Batch, refuse_record
from mesh.runtime.lane import Lane, Plan, Source
from mesh.runtime.outgoing import Came, Stretch, next_hop, send_stretch
from mesh.transport.port import Record


def take_frames(
    lane: Lane, source: Source, link: LocalLink, records: Sequence[Record], now_ms: int
) -> None:
    """Take frames of one outbox partition, in order."""
    batch = lane.open(now_ms)
    for record in records:
        try:
            count = _take_frame(lane, batch, source, link, record)
        except UnknownVersionError:
            raise  # not the record's fault: the link stops. Spec: K10
        except ProtocolError as error:
            _refuse(lane, batch, source, record, "CODEC", str(error))
            count = 0
        offset = record.offset()
        batch.read(source.at, source.topic_id, offset, offset, count)


def _take_frame(lane: Lane, batch: Batch, source: Source, link: LocalLink, record: Record) -> int:
    """Take one frame; return how many messages it had."""
    peeked = peek(record.key() or b"")
    origin = origin_of(peeked)
    hop = peeked.hop
    if lane.node in hop.path:
        _refuse(lane, batch, source, record, "LOOP_TRACE", f"path {'>'.join(hop.path)}")
        return origin.count
    if len(hop.path) >= len(lane.topology.nodes):
        _refuse(lane, batch, source, record, "LOOP_HOPS", f"path {'>'.join(hop.path)}")
        return origin.count
    after = _accepted_after(lane, batch, source, hop, origin)
    if after is None:
        return origin.count
    came = Came(
        node=origin.node,
        source=origin.source,
        generation=origin.generation,
        zone=hop.zone,
        hops=hop.hops,
        crossed_external=hop.crossed_external,
        path=(*hop.path, lane.node),
        frame=record.offset(),
    )
    value = record.value() or b""
    plan = _plan(lane, source, link, peeked, origin)
    if plan.only is not None and after == NONE_OFFSET:
        _relay(lane, batch, source, came, peeked, value, plan.only, origin.count)
    else:
        _split(lane, batch, source, came, origin, value, plan, after)
    if any(route.endpoints for route in plan.routes):
        _deliver(lane, batch, source, came, origin, value, plan, after)
    return origin.count


def _accepted_after(
    lane: Lane, batch: Batch, source: Source, hop: Hop, origin: Origin
) -> int | None:
    """Judge a frame by its chain.

    Returns:
        The origin offset after which its messages are accepted (-1: all), or None for none.
    """
    chains = lane.chains(source.at)
    if source.message_class is MessageClass.DIRECT:
        if hop.lane_epoch < lane.direct_epoch(source.at, hop.lane_epoch):
            batch.dropped("stale_epoch", source.at, origin.count)
            return None
        if chains.last.get(hop.chain.source, NONE_OFFSET) >= hop.chain.last:
            batch.dropped("duplicate", source.at, origin.count)
            return None
        chains.jump(hop.chain)
        _note_accepted(batch, source, hop)
        return NONE_OFFSET
    last = chains.last.get(hop.chain.source, NONE_OFFSET)
    verdict = chains.judge(hop.chain)
    match verdict:
        case Verdict.ACCEPT | Verdict.PARTIAL:
            _note_accepted(batch, source, hop)
            return last if verdict is Verdict.PARTIAL else NONE_OFFSET
        case Verdict.GAP:
            lane.repairs.append((source, hop.chain.source, last))
            batch.dropped("gap", source.at, origin.count)
        case _:
            batch.dropped(verdict.value, source.at, origin.count)
    return None


def _note_accepted(batch: Batch, source: Source, hop: Hop) -> None:
    batch.note(
        Progress(
            kind=ProgressKind.ACCEPTED,
            offset=hop.chain.last,
            topic=source.at.topic,
            partition=source.at.partition,
            topic_id=hop.chain.source.topic_id,
            source_partition=hop.chain.source.partition,
        )
    )


def _plan(lane: Lane, source: Source, link: LocalLink, peeked: Peeked, origin: Origin) -> Plan:
    """Return the plan for a frame's subject table, remembered by the table's very bytes."""
    arrival = Arrival(link.zone, link.neighbour, peeked.hop.crossed_external)
    plans = lane.plans(arrival, source.message_class)
    plan = plans.get(peeked.table_bytes)
    if plan is None:
        routes = [
            lane.router.route(subject, arrival, source.message_class) for subject in origin.subjects
        ]
        first = routes[0] if routes else None
        only = first if all(route is first for route in routes) else None
        plan = plans[peeked.table_bytes] = Plan(routes, only)
    return plan


def _relay(
    lane: Lane,
    batch: Batch,
    source: Source,
    came: Came,
    peeked: Peeked,
    value: bytes,
    route: Route,
    count: int,
) -> None:
    """Hand the value on untouched under a new header."""
    batch.refused(route.refused, source.message_class, count)
    for neighbour in route.neighbours:
        link = lane.link(neighbour)
        hop = next_hop(lane, link, source, came, NONE_OFFSET, NONE_OFFSET)
        lane.send(batch, link, source, relay_key(hop, peeked.tail), value, count)


def _split(
    lane: Lane,
    batch: Batch,
    source: Source,
    came: Came,
    origin: Origin,
    value: bytes,
    plan: Plan,
    after: int,
) -> None:
    """Cut the messages apart, without decoding them, for links that want only some."""
    offsets: list[int] = []
    subjects: list[str] = []
    stamps: list[int] = []
    tails: list[bytes] = []
    routes: list[Route] = []
    counts: dict[Route, int] = {}
    base, items = scan_value(value)
    for delta, index, stamp, begin, end in items:
        offset = origin.first + delta
        if offset <= after:
            continue
        route = plan.routes[index]
        offsets.append(offset)
        subjects.append(origin.subjects[index])
        stamps.append(base + stamp)
        tails.append(value[begin:end])
        routes.append(route)
        counts[route] = counts.get(route, 0) + 1
    if len(offsets) < origin.count:
        batch.dropped("duplicate", source.at, origin.count - len(offsets))
    for route, count in counts.items():
        batch.refused(route.refused, source.message_class, count)
    stretch = Stretch(offsets, subjects, stamps, tails, routes)
    send_stretch(lane, batch, source, came, stretch, list(counts))


def _deliver(
    lane: Lane,
    batch: Batch,
    source: Source,
    came: Came,
    origin: Origin,
    value: bytes,
    plan: Plan,
    after: int,
) -> None:
    prefix = delivery_prefix(source.message_class, came.path, came.source, came.generation)
    wanted = [bool(route.endpoints) for route in plan.routes]
    addresses = [(SUBJECT_HEADER, subject.encode()) for subject in origin.subjects]
    partition = source.at.partition
    delivered: dict[Route, int] = {}
    deliver = lane.deliver
    for offset, index, stamp, key, headers, payload, _ in decode_messages(value, origin, wanted):
        if offset <= after:
            continue
        route = plan.routes[index]
        delivered[route] = delivered.get(route, 0) + 1
        whole = [*headers, addresses[index], (MESH_HEADER, delivery_header(prefix, offset))]
        for endpoint in route.endpoints:
            deliver(batch, endpoint, partition, key, payload, stamp, whole)
    for route, count in delivered.items():
        for endpoint in route.endpoints:
            batch.delivered(endpoint, source.message_class, count)


def _refuse(
    lane: Lane, batch: Batch, source: Source, record: Record, reason: str, detail: str
) -> None:
    key, value = record.key(), record.value()
    batch.dropped(reason.lower(), source.at)
    letter = DeadLetter(
        reason=reason,
        detail=detail,
        topic=source.at.topic,
        partition=source.at.partition,
        offset=record.offset(),
        topic_id=source.topic_id,
        key_size=len(key or b""),
        value_size=len(value or b""),
    )
    refuse_record(
        lane.writer.produce,
        lane.names.dead_letters(lane.node),
        lane.number,
        letter,
        key=key,
        value=value,
        headers=[],
    )
