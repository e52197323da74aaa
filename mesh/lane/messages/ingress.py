"""What clients published becomes frames and local deliveries. Spec: K6, K7, K8, K9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mesh.core.routes import PUBLISHED_HERE, Route
from mesh.lane.cuts import eras_of
from mesh.lane.lane import Lane
from mesh.lane.messages.addressing import by_address
from mesh.lane.messages.delivering import deliver
from mesh.lane.messages.outgoing import MessageColumns, Provenance, count_routes, send_stretch
from mesh.lane.messages.refusing import refuse
from mesh.lane.messages.selecting import selected
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.lane.traces import remember
from mesh.model.reasons import DropReason
from mesh.model.record_headers import SUBJECT_HEADER, is_reserved
from mesh.model.subject import matches, subject_fault
from mesh.transport.headers import UNREADABLE, all_headers, headers_of
from mesh.transport.port import Headers, Record
from mesh.wire.frames import NO_EXT, MessageTuple, encode_bare_tails, encode_tail

_BARE: Headers = ()
_UNREADABLE = "its headers cannot be read: a name is not UTF-8, or its batch cannot be unpacked"


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What was accepted of some records: parallel sequences, the records themselves included."""

    records: Sequence[Record]
    kept: Sequence[Headers]
    subjects: Sequence[str]
    routes: Sequence[Route]
    tails: Sequence[bytes]


def take_ingress(run: Run, records: Sequence[Record]) -> int:
    """Route records that clients published on one ingress partition, in order.

    Args:
        run: The partition, and the batch that takes what becomes of them.
        records: One or more, each offset higher than the one before.

    Returns:
        How many were taken: those before the first whose subject is paused.
    """
    lane, source = run.lane, run.source
    try:
        gathered = _gather_usual(lane, source, records)
    except (LookupError, TypeError, ValueError):
        if lane.paused:
            records = _before_paused(lane, records)
            if not records:
                return 0
        gathered = _gather(run, records)
    first, last = records[0].offset(), records[-1].offset()
    run.about_to_read(first, last)
    count, leader_epoch = len(records), records[-1].leader_epoch()
    run.batch.read(
        source.at,
        source.topic_id,
        source.generation,
        first,
        last,
        count,
        records=count,
        leader_epoch=leader_epoch,
    )
    if gathered.routes:
        _send(run, gathered, range(first, last + 1))
    return count


def _send(run: Run, gathered: _Gathered, offsets: Sequence[int]) -> None:
    """Write what was gathered of these offsets, all that were read, to wherever it is wanted."""
    lane, batch, source = run.lane, run.batch, run.source
    counts = count_routes(gathered.routes)
    if any(route.asks for route in counts):
        routes = selected(lane.router, gathered.routes, gathered.subjects, gathered.kept)
        gathered, counts = replace(gathered, routes=routes), count_routes(routes)
    for route, count in counts.items():
        batch.count_not_forwarded(route.refused, source.message_class, count)
        if route.homeless:
            batch.count_dropped(DropReason.HOME_UNREACHABLE, source.at, count * len(route.homeless))
        batch.count_widened(route.widened, count)
    provenance = Provenance(
        node=lane.node,
        source=source.identity,
        generation=source.generation,
        zone="",
        hops=0,
        crossed_external=False,
        path=(lane.node,),
        frame=None,
        eras=eras_of(run, offsets[0]),
        join_hops=0,
    )
    if len(offsets) != len(gathered.records):
        offsets = [record.offset() for record in gathered.records]
    stamps = [stamp for _, stamp in [record.timestamp() for record in gathered.records]]
    if any(route.neighbours for route in counts):
        stretch = MessageColumns(
            offsets, gathered.subjects, stamps, gathered.tails, gathered.routes
        )
        for some, its_routes in by_address(stretch, list(counts)):
            send_stretch(run, provenance, some, its_routes)
    if any(route.endpoints for route in counts):
        _deliver(run, provenance, gathered, offsets, stamps)


def _gather_usual(lane: Lane, source: Source, records: Sequence[Record]) -> _Gathered:
    """Gather records that all have the usual shape: it takes half the time of one by one.

    That is a key, a payload, and one header, with a subject that is known already.

    Raises:
        LookupError, TypeError, ValueError: One of them has another shape.
    """
    known = lane.memos.subjects(source.message_class)
    headers = all_headers(records)
    found = [known[header] for (header,) in headers]
    tails = encode_bare_tails((record.key(), record.value()) for record in records)
    if max(map(len, tails)) > lane.topology.max_message_bytes:
        raise ValueError
    subjects, routes = zip(*found, strict=True)
    return _Gathered(records, [_BARE] * len(records), subjects, routes, tails)


def _gather(run: Run, records: Sequence[Record]) -> _Gathered:
    """Return the records that are messages, with subject, route and bytes; refuse all others. K7.

    What was learned of a subject header is looked up by its bytes: most records cost one look-up.
    """
    lane, batch, source = run.lane, run.batch, run.source
    known = lane.memos.subjects(source.message_class)
    limit = lane.topology.max_message_bytes
    taken: list[Record] = []
    kepts: list[Headers] = []
    found: list[tuple[str, Route]] = []
    tails: list[bytes] = []
    for record in records:
        headers = headers_of(record)
        kept = _BARE
        if headers is UNREADABLE:
            refuse(run, record, DropReason.POISON, _UNREADABLE)
            continue
        if len(headers) == 1 and headers[0][0] == SUBJECT_HEADER:
            raw = headers[0][1]
        else:
            raw, kept = _split_headers(run, headers)
        learnt = known.get((SUBJECT_HEADER, raw))
        if learnt is None:
            learnt = _learn(run, record, raw)
            if learnt is None:
                continue
        tail = encode_tail(record.key(), kept, record.value())
        if len(tail) > limit:
            refuse(run, record, DropReason.TOO_LARGE, f"more than {limit} bytes")
            continue
        taken.append(record)
        kepts.append(kept)
        found.append(learnt)
        tails.append(tail)
    if lane.traces is not None:
        remember(batch, kepts)
    subjects, routes = zip(*found, strict=True) if found else ((), ())
    return _Gathered(taken, kepts, subjects, routes, tails)


def _before_paused(lane: Lane, records: Sequence[Record]) -> Sequence[Record]:
    """Return the records before the first with a subject of which nothing is to be taken.

    What is no valid message is refused as ever: only a subject can be paused.
    """
    seen: dict[bytes, bool] = {}
    for index, record in enumerate(records):
        raws = [value for name, value in headers_of(record) if name == SUBJECT_HEADER]
        if len(raws) != 1 or (raw := raws[0]) is None:
            continue
        if raw not in seen:
            text = raw.decode(errors="replace")
            seen[raw] = any(matches(filter_, text) for filter_ in lane.paused)
        if seen[raw]:
            return records[:index]
    return records


def _split_headers(run: Run, headers: Headers) -> tuple[bytes | None, Headers]:
    """Return the subject and the client's own headers; forged mesh headers are removed. K7.

    Without exactly one subject header the subject is None.
    """
    subjects = [value for name, value in headers if name == SUBJECT_HEADER]
    kept = [(name, value) for name, value in headers if not is_reserved(name)]
    forged = len(headers) - len(kept) - len(subjects)
    if forged:
        run.batch.count_dropped(DropReason.HEADER_FORGED, run.source.at, forged)
    return subjects[0] if len(subjects) == 1 else None, kept


def _learn(run: Run, record: Record, raw: bytes | None) -> tuple[str, Route] | None:
    """Validate and route a subject not seen since the routing changed."""
    lane, message_class = run.lane, run.source.message_class
    if raw is None:
        detail = f"one header {SUBJECT_HEADER} is needed"
        refuse(run, record, DropReason.NO_SUBJECT, detail)
        return None
    try:
        subject = raw.decode()
    except UnicodeDecodeError:
        fault: str | None = "the subject is not UTF-8"
    else:
        fault = subject_fault(subject)
    if fault is not None:
        refuse(run, record, DropReason.INVALID_SUBJECT, fault)
        return None
    route = lane.router.route(subject, PUBLISHED_HERE, message_class)
    return lane.memos.remember_subject(message_class, raw, (subject, route))


def _deliver(
    run: Run,
    provenance: Provenance,
    gathered: _Gathered,
    offsets: Sequence[int],
    stamps: Sequence[int],
) -> None:
    routes = dict(zip(gathered.subjects, gathered.routes, strict=True))
    index_of = {subject: index for index, subject in enumerate(routes)}
    messages: list[MessageTuple] = [
        (offset, index_of[subject], stamp, record.key(), kept, record.value(), NO_EXT)
        for offset, subject, stamp, record, kept in zip(
            offsets, gathered.subjects, stamps, gathered.records, gathered.kept, strict=True
        )
        if routes[subject].endpoints
    ]
    deliver(run, provenance, messages, list(routes), list(routes.values()))
