"""Is what clients publish read, from existing positions, or refused? Spec: R6, R12."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mesh.errors import TransportError
from mesh.model.control import StopReason
from mesh.model.frames import MessageClass
from mesh.model.words import EndpointWord, LinkWord
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged, unseen
from mesh.operate.doctor.dead_letters import check_letters, count_letters
from mesh.operate.doctor.examination import Examination
from mesh.transport.port import TopicInfo, TopicPartition, place_of
from mesh.transport.reading import read_range


def check_delivery(at: Examination) -> Iterator[Check]:
    """Yield the checks of each node: what it reads, what it can write, and what it refused."""
    letters: dict[str, Counter[str]] = {}
    for kafka in at.kafka:
        nodes = at.nodes_on(kafka)
        try:
            letters |= count_letters(at, kafka)
            stalled = {node: _stalled(at, node) for node in nodes}
        except TransportError as fault:
            for node in nodes:
                description = f"what clients published at {node} is read"
                yield unseen(Category.DELIVERY, description, fault)
            continue
        for node in nodes:
            yield stalled[node]
            yield _positions(at, node)
            yield _stops(at, node)
            yield _held(at, node)
            yield _paused(at, node)
            yield _subjects(at, node)
            yield _full(at, node)
            yield _queues(at, node)
            yield check_letters(at, node, letters[node])


def _stalled(at: Examination, node: str) -> Check:
    before, after = at.moments()
    waited, waits = at.waiting(node, before), at.waiting(node, after)
    was, now = before.positions[node], after.positions[node]
    standing = [
        place
        for place, count in waits.items()
        if count and waited.get(place) and was.get(place) == now.get(place)
    ]
    stuck = _with_records(at, node, standing)
    count = sum(waits[place] for place in stuck)
    moving = sum(waits.values()) - sum(waits[place] for place in standing)
    where = ", ".join(map(str, stuck[:3]))
    more = f" and {len(stuck) - 3} more" if stuck[3:] else ""
    is_paused = bool(at.view.nodes[node].subject_pauses)
    return judged(
        Category.DELIVERY,
        f"what clients published at {node} is read",
        f"{count} records wait on {where}{more} and stand still" if stuck else "",
        "subjects are paused there, see below"
        if is_paused
        else "look at the node's log; records that cannot be read stop nobody else's",
        result=Result.WARNING if is_paused else Result.FAILED,
        note=f"moves: {moving} records wait" if moving else "",
        figures={"waiting": count + moving},
    )


def _with_records(
    at: Examination, node: str, places: Sequence[TopicPartition]
) -> Sequence[TopicPartition]:
    """Return those with a record to read: what waits may be just a client's transaction marker."""
    if not places:
        return ()
    moment = at.moments()[1]
    begins = {
        place: max(moment.positions[node].get(place, 0), moment.starts.get(place, 0))
        for place in places
    }
    found: dict[TopicPartition, None] = {}
    kafka = at.answering(at.topology.nodes[node].kafka)
    for record in read_range(kafka, begins, moment.stable, name="waiting"):
        found[place_of(record)] = None
        if len(found) == len(places):
            break
    return sorted(found)


def _positions(at: Examination, node: str) -> Check:
    """Return whether a node reads from where its sources are. Spec: R6."""
    names = at.topology.names
    direct = {names.ingress(node, MessageClass.DIRECT)} | {
        names.outbox(other, node, MessageClass.DIRECT) for other in at.topology.neighbours(node)
    }
    infos = _infos(at)
    faults = [
        (fault, place.topic not in direct)
        for place, position in sorted(at.reports().of(node).read.sources.items())
        for fault in _misplaced(at, place, position.next, position.topic_id, infos.get(place.topic))
    ]
    is_guaranteed = any(counts for _, counts in faults)
    return judged(
        Category.DELIVERY,
        f"positions of {node} lie within their logs",
        first_of(fault for fault, _ in faults),
        "a guaranteed source stands still there so that nothing is lost in silence: find out who "
        "deleted or trimmed the topic; `mesh status` says what is lost, `mesh link resume` goes on"
        if is_guaranteed
        else "nothing to do: lost direct messages are skipped and counted, and reading goes on",
        result=Result.FAILED if is_guaranteed else Result.WARNING,
    )


def _stops(at: Examination, node: str) -> Check:
    """Is a source stopped until an operator accepts its loss? Spec: R6, DESIGN 6."""
    stops = [stop for _, stop in sorted(at.view.nodes[node].stops.items())]
    neighbours = {
        at.topology.names.outbox(other, node, MessageClass.GUARANTEED): other
        for other in at.topology.neighbours(node)
    }
    commands = {
        f"mesh link resume {node} {neighbours[stop.topic]}"
        if stop.topic in neighbours
        else f"mesh node resume {node}": None
        for stop in stops
        if stop.reason != StopReason.UNREADABLE
    }
    hints = [
        f"{' and '.join(commands)} shows what is lost; with --accept-gap it is announced and "
        "reading goes on"
        if commands
        else "",
        "the log of the node's worker says which record of its progress hides where the lane "
        "stood, and what to do"
        if any(stop.reason == StopReason.UNREADABLE for stop in stops)
        else "",
    ]
    return judged(
        Category.DELIVERY,
        f"{node} reads all its sources",
        first_of(str(stop) for stop in stops),
        "; ".join(filter(None, hints)),
    )


def _paused(at: Examination, node: str) -> Check:
    """Has an operator paused a link, so that it reads nothing there?"""
    pauses = at.view.nodes[node].pauses
    paused = [
        f"the link from {key.neighbour}"
        + ("" if key.partition is None else f", partition {key.partition}")
        + (f" ({pause.why})" if pause.why else "")
        for key, pause in pauses.items()
    ]
    commands = {f"mesh link resume {node} {key.neighbour}": None for key in pauses}
    return judged(
        Category.DELIVERY,
        f"{node} reads all its links",
        f"paused: {first_of(paused)}" if paused else "",
        f"messages wait there; {' and '.join(commands)} ends it",
        result=Result.WARNING,
    )


def _subjects(at: Examination, node: str) -> Check:
    """Has an operator paused some subjects?"""
    paused, commands = [], []
    for filter_, pause in sorted(at.view.nodes[node].subject_pauses.items()):
        paused.append(filter_ + (f" ({pause.why})" if pause.why else ""))
        commands.append(f"mesh subject resume {shlex.quote(filter_)} --node {node}")
    return judged(
        Category.DELIVERY,
        f"{node} takes all subjects",
        f"paused: {first_of(paused)}" if paused else "",
        f"clients are refused, and what others write waits in the ingress; "
        f"{' and '.join(commands)} ends it",
        result=Result.WARNING,
    )


def _full(at: Examination, node: str) -> Check:
    """Is an outbox or an endpoint full? Spec: R14."""
    links, here = at.view.nodes[node].links, at.view.nodes[node].endpoints
    full = [f"for {one.neighbour}: {one.reason}" for one in links if one.state == LinkWord.FULL]
    elsewhere = (EndpointWord.HELD, EndpointWord.REFUSED)  # see `_held` and `_queues`
    endpoints = [one for one in here if one.state not in elsewhere]
    hints = ["see why the neighbour does not read (is it down, paused or slow?)"] if full else []
    full += [f"in endpoint {one.endpoint}: {one.reason}" for one in endpoints]
    if endpoints:
        hints.append("see why the endpoint's slowest group does not read")
    if any(one.state == EndpointWord.LOSSY for one in endpoints):
        hints.append(f"`mesh dlq {node}` lists what was given up")
    return judged(
        Category.DELIVERY,
        f"nothing at {node} has reached its limit",
        first_of(full),
        "; ".join([*hints, "or raise the limit"]),
        result=Result.WARNING,
    )


def _queues(at: Examination, node: str) -> Check:
    """Are there queues whose subscriptions contradict each other or the topology? Spec: K13."""
    endpoints = at.view.nodes[node].endpoints
    refused = [one.reason for one in endpoints if one.state == EndpointWord.REFUSED]
    return judged(
        Category.DELIVERY,
        f"{node} takes all subscriptions to queues",
        first_of(refused),
        "subscribe as the queue is declared, or declare it otherwise; until then it gets nothing",
    )


def _held(at: Examination, node: str) -> Check:
    """Are there targets that lanes leave out because they cannot be written? Spec: K20.

    Progress lists those that are owed something; the heartbeat adds direct endpoints.
    """
    told = {
        at.topology.names.endpoint(node, one.endpoint): one.reason
        for one in at.view.nodes[node].endpoints
        if one.state == EndpointWord.HELD
    }
    topics = dict.fromkeys([*at.reports().of(node).targets_held, *told])
    targets = [told.get(topic, topic) for topic in topics]
    return judged(
        Category.DELIVERY,
        f"{node} can write all its targets",
        f"held: {first_of(targets)}" if targets else "",
        "the topic takes no records: look at its limits, its leader and the rights of this node; "
        "what is guaranteed is written beside the lane once it can be",
    )


def _infos(at: Examination) -> Mapping[str, TopicInfo]:
    found: dict[str, TopicInfo] = {}
    for kafka in at.kafka:
        try:
            found |= at.infos(kafka)
        except TransportError:
            continue  # reported by the checks of kafka
    return found


def _misplaced(
    at: Examination,
    place: TopicPartition,
    offset: int,
    topic_id: bytes | None,
    info: TopicInfo | None,
) -> Iterator[str]:
    moment = at.moments()[1]
    if info is None or place not in moment.ends:
        return
    where = str(place)
    if topic_id and topic_id != info.topic_id:
        yield (
            f"{where} was recreated: the position belongs to topic id {topic_id.hex()}, "
            f"it is {info.topic_id.hex()} now"
        )
    elif offset > moment.ends[place]:
        yield f"{where} was truncated: it ends at {moment.ends[place]}, the position is {offset}"
    elif 0 <= offset < moment.starts.get(place, 0):
        start = moment.starts[place]
        gone = start - offset
        yield f"{where} begins at {start}, the position is {offset}: retention took {gone}"
