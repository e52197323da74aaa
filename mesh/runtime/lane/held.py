"""What a lane keeps of targets that it leaves out: they cannot be written. Spec: K12, K20."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from mesh.core.routing import LocalLink
from mesh.model.facts import ENDED, Held, Sent
from mesh.model.frames import MessageClass, SourcePartition
from mesh.runtime.lane.batch import Batch
from mesh.runtime.lane.lane import Lane, Source
from mesh.runtime.lane.positions import ChainKey, Hold
from mesh.transport.port import TopicPartition

HOLDS_MAX = 1_000_000
"""Holds that a lane begins in one epoch: each has a number of its own, for what a catch-up tells
of one must never end another."""

log = structlog.get_logger()


def hold(lane: Lane, target: str, now_ms: int) -> None:
    """Have the next commit keep that a target is left out from the lane's positions on."""
    positions = lane.positions
    positions.holds_begun += 1
    number = positions.epoch * HOLDS_MAX + positions.holds_begun
    positions.holds[target] = Hold(number=number)
    for source in guaranteed_sources(lane):
        hold_source(lane, source, now_ms)
    log.error("target.held", target=target, lane=lane.number)


def hold_source(lane: Lane, source: Source, now_ms: int) -> None:
    """Have the next commit keep from where on a source is left out for the targets that are held.

    Before anything is read of it: what the lane passes must never be forgotten with the hold.
    """
    at = source.at
    for target, kept in lane.positions.holds.items():
        key = hold_key(lane, target, source)
        if source.message_class is not MessageClass.GUARANTEED or key in kept.next:
            continue
        link = link_of(lane, target)
        if link is not None and link == source.link:
            continue  # nothing goes back: else full links in both directions wait for each other
        batch = lane.open(now_ms)
        batch.is_awaited = True
        first = max(0, lane.position(at))  # what the open batch has read it has written
        lane.note(batch, Held(*key, kept.number, first))


def release(lane: Lane, target: str, now_ms: int) -> None:
    """Have the next commit keep that the lane writes a target again."""
    batch = lane.open(now_ms)
    batch.is_awaited = True
    kept = lane.positions.holds.pop(target)
    for at, of in kept.next:
        lane.note(batch, Held(at, of, kept.number, ENDED))
    for (outbox, of), sent in lane.positions.sent.items():
        if outbox.topic == target:
            since = lane.positions.since.get((outbox, of), 0)
            lane.note(batch, Sent(outbox, of, sent, since))


def let_go(lane: Lane, batch: Batch, target: str, source: Source) -> None:
    """Have the next commit keep that a held target gets no more of one source."""
    kept = lane.positions.holds[target]
    key = hold_key(lane, target, source)
    lane.note(batch, Held(*key, kept.number, ENDED))


def endpoint_of(lane: Lane, target: str) -> str:
    """Return the guaranteed endpoint that a topic belongs to, or nothing."""
    for name in lane.learner.classes:
        if lane.names.endpoint(lane.node, name) == target and lane.is_guaranteed(name):
            return name
    return ""


def link_of(lane: Lane, target: str) -> LocalLink | None:
    """Return the link whose guaranteed outbox a topic is, or None."""
    for link in lane.learner.links:
        if lane.names.outbox(lane.node, link.neighbour, MessageClass.GUARANTEED) == target:
            return link
    return None


def guaranteed_sources(lane: Lane) -> list[Source]:
    """Return what a lane reads of the guaranteed class."""
    guaranteed = MessageClass.GUARANTEED
    return [one for one in lane.sources.values() if one.message_class is guaranteed]


def sources_of(lane: Lane, target: str) -> list[Source] | None:
    """Return the sources of which a held target may lack something: those read, and stopped ones.

    None if one of them cannot be read now: its Kafka cluster does not answer.
    """
    known = {source.identity: source for source in guaranteed_sources(lane)}
    for at, stop in lane.positions.stopped.items():
        link = next((one for one in lane.learner.links if _outbox(lane, one) == at.topic), None)
        generation = lane.positions.generations.get(at, 0)
        topic_id = lane.positions.topic_ids.get(at, stop.topic_id)  # it may never have been read
        source = Source(at, topic_id, MessageClass.GUARANTEED, link, generation)
        known.setdefault(source.identity, source)
    # What was never read, and is another topic now, lacks nothing.
    read = {SourcePartition(id_, at.partition) for at, id_ in lane.positions.topic_ids.items()}
    held = {source for _, source in lane.positions.holds[target].next}
    if not held & read <= known.keys():
        return None
    return [source for identity, source in known.items() if identity in held]


def _outbox(lane: Lane, link: LocalLink) -> str:
    """Return the topic by which a neighbour sends to this node."""
    return lane.names.outbox(link.neighbour, lane.node, MessageClass.GUARANTEED)


def hold_key(lane: Lane, target: str, source: Source) -> ChainKey:
    """Return what one source's position at a held target is kept under."""
    return (TopicPartition(target, source.at.partition % lane.partitions), source.identity)


def forget_ended(lane: Lane, now_ms: int) -> None:
    """Have the next commit keep that holds have ended of which the lane itself did not tell."""
    for (place, source), number in lane.positions.ended.items():
        batch = lane.open(now_ms)
        lane.note(batch, Held(place, source, number, ENDED))
        sent = lane.positions.sent.get((place, source))
        if sent is not None:
            # Who takes the lane next does not ask what was written beside it.
            since = lane.positions.since.get((place, source), 0)
            lane.note(batch, Sent(place, source, sent, since))
    lane.positions.ended.clear()


def held_offsets(lane: Lane, source: Source) -> Sequence[int]:
    """Return from which offsets of a source on something is held; at least one, maybe far off."""
    found = [lane.positions.next.get(source.at, 0)]
    for target, kept in lane.positions.holds.items():
        offset = kept.next.get(hold_key(lane, target, source))
        if offset is not None:
            found.append(offset)
    return found
