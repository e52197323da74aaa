"""Holds of targets that cannot be written: begun, met by a catch-up, ended. Spec: K12, K20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mesh.core.holds import ChainKey
from mesh.core.local_links import LocalLink
from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.model.facts import ENDED, Held
from mesh.model.frames import MessageClass, SourcePartition
from mesh.transport.port import TopicPartition


def hold(lane: Lane, target: str, now_ms: int) -> None:
    """Leave a target out from where the lane stands; record that in the next commit."""
    lane.begin_hold(target)
    for source in guaranteed_sources(lane):
        hold_source(lane, source, now_ms)
    lane.log.error("target.held", target=target, lane=lane.number)


def hold_source(lane: Lane, source: Source, now_ms: int) -> None:
    """Record in the next commit from where on held targets lack what comes of a source.

    That precedes all reading of it: what the lane passes must never be forgotten with the hold.
    """
    holds = lane.progress.holds
    for target in lane.held_targets:
        key = hold_key(lane, target, source)
        if source.message_class is not MessageClass.GUARANTEED or key in holds.next(target):
            continue
        link = link_of(lane, target)
        if link is not None and link == source.link:
            continue  # nothing goes back: else full links in both directions wait for each other
        batch = lane.open(now_ms, is_awaited=True)
        first = max(0, lane.position(source.at))  # what the open batch has read it has written
        number = lane.end_beginning(target) or holds.number(target)
        lane.note(batch, Held(*key, number, first))


def is_met(lane: Lane, target: str) -> bool:
    """Return whether a target is written of each source exactly as far as the lane has read it.

    Only then may the lane write it again: what it passes while a target is left out is written by
    catch-ups alone, and one of those may have written and nobody heard of it.
    """
    positions = {
        SourcePartition(topic_id, at.partition): max(0, lane.position(at))
        for at, topic_id in lane.progress.ids_read.items()
    }
    written = lane.progress.holds.next(target)
    # What was never read, and is another topic now, lacks nothing.
    return all(positions.get(of, offset) == offset for (_, of), offset in written.items())


def release(lane: Lane, target: str, now_ms: int) -> None:
    """Record in the next commit that the lane writes a target again."""
    lane.end_beginning(target)
    batch = lane.open(now_ms, is_awaited=True)
    for held in lane.progress.holds.kept(target):
        _end(lane, batch, held)


def let_go(run: Run, target: str) -> None:
    """Record in the next commit that a held target gets no more of one source."""
    lane = run.lane
    at, of = hold_key(lane, target, run.source)
    for held in lane.progress.holds.kept(target):
        if (held.at, held.source) == (at, of):
            _end(lane, run.batch, held)


def _end(lane: Lane, batch: Batch, held: Held) -> None:
    """Record in the next commit that a source is left out no longer, and how far it was sent.

    Who takes the lane next does not ask then what was written beside it.
    """
    key, progress = (held.at, held.source), lane.progress
    if (sent := progress.sent.get(key)) is not None:
        lane.note(batch, lane.sent(key, sent, progress.since.get(key, 0)))
    lane.note(batch, replace(held, next=ENDED))


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


def sources_of(lane: Lane, target: str) -> list[Source]:
    """Return the sources of which a held target may lack something: those read, and stopped ones.

    Not those whose Kafka clusters have not answered since the lane was taken: nobody knows what
    their logs are by now.
    """
    known = {source.identity: source for source in guaranteed_sources(lane)}
    for at, stop in lane.progress.stopped.items():
        link = next((one for one in lane.learner.links if _outbox(lane, one) == at.topic), None)
        generation = lane.progress.generations.get(at, 0)
        topic_id = lane.progress.topic_ids.get(at, stop.topic_id)  # it may never have been read
        source = Source(at, topic_id, MessageClass.GUARANTEED, link, generation)
        known.setdefault(source.identity, source)
    held = {source for _, source in lane.progress.holds.next(target)}
    return [source for identity, source in known.items() if identity in held]


def _outbox(lane: Lane, link: LocalLink) -> str:
    """Return the topic by which a neighbour sends to this node."""
    return lane.names.outbox(link.neighbour, lane.node, MessageClass.GUARANTEED)


def hold_key(lane: Lane, target: str, source: Source) -> ChainKey:
    """Return what one source's position at a held target is kept under."""
    return (TopicPartition(target, source.at.partition % lane.partitions), source.identity)


def held_offsets(lane: Lane, source: Source) -> Sequence[int]:
    """Return from which offsets of a source on something is held; at least one, maybe far off."""
    found = [lane.committed_position(source.at)]
    holds = lane.progress.holds
    for target in holds:
        offset = holds.next(target).get(hold_key(lane, target, source))
        if offset is not None:
            found.append(offset)
    return found
