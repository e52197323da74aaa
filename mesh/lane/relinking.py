"""What a lane does when links of its node are removed or added. Spec: K11, K12, K28.

Everything here is part of the transaction of the cut: what was routed before went by the old
links, what comes after goes by the new ones. Positions and chains of a removed link stay, so that
one that comes back goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mesh.lane.batch import Batch
from mesh.lane.faults import close_gap, lift_stop
from mesh.lane.lane import Lane
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.lane.target_holds import (
    guaranteed_sources,
    hold_key,
    let_go,
    link_of,
    release,
)
from mesh.model.effects import Relinked
from mesh.model.facts import UNLINKED
from mesh.model.frames import NONE_OFFSET, MessageClass, position_in_chain
from mesh.model.topology import Topology


def relink_lane(lane: Lane, relinked: Relinked, gone: Mapping[str, str], now_ms: int) -> None:
    """Have a lane end what belongs to removed links, and begin what belongs to new ones.

    Args:
        lane: Whose sources are still those of before.
        relinked: What changes.
        gone: Outboxes that are read no further, and the identities of their Kafka clusters, as far
            as these are known.
        now_ms: The present moment.
    """
    before = lane.topology
    lane.follow_topology(relinked.topology)
    batch = lane.open(now_ms, is_awaited=True)
    _leave_outboxes(lane, gone, before, now_ms)
    for neighbour in relinked.gone:
        target = lane.names.outbox(lane.node, neighbour, MessageClass.GUARANTEED)
        if lane.holds_target(target):
            release(lane, target, now_ms)
            lane.log.warning("target.hold_ended", target=target, lane=lane.number)
    _mark_unlinked(lane, batch)
    for source in (*guaranteed_sources(lane), *_resting_sources(lane)):
        if source.at.topic not in gone:
            begin_links(lane, source, relinked.added, now_ms, are_new=True)


def begin_links(
    lane: Lane,
    source: Source,
    neighbours: Sequence[str],
    now_ms: int,
    *,
    are_new: bool = False,
) -> None:
    """Record in the next commit from which position on links carry a source. Spec: K20.

    Args:
        lane: Which reads it.
        source: What it reads.
        neighbours: Whose links may be new.
        now_ms: The present moment.
        are_new: Whether they are, also if a link before them was used; else nothing changes of
            those that were, and are the same.
    """
    progress = lane.progress
    if source.message_class is MessageClass.DIRECT:
        return
    stop = progress.stopped.get(source.at)
    for link in [one for one in lane.learner.links if one.neighbour in neighbours and one.sends]:
        key = (lane.outbox(link, source), source.identity)
        offset = max(0, lane.position(source.at) if stop is None else stop.first)
        since = position_in_chain(lane.generation(source.at), offset)
        is_other = progress.links.get(key, 0) != lane.ages.numbers.get(key[0].topic, 0)
        if are_new or is_other or progress.since.get(key, UNLINKED) == UNLINKED:
            sent = progress.sent.get(key, NONE_OFFSET)
            lane.note(lane.open(now_ms), lane.sent(key, sent, since))


def _resting_sources(lane: Lane) -> list[Source]:
    """Return what a lane has read and does not read now: stopped, left, or not found yet."""
    progress, guaranteed = lane.progress, MessageClass.GUARANTEED
    return [
        Source(at, topic_id, guaranteed, None)
        for at, topic_id in progress.ids_read.items()
        if at not in lane.sources and lane.names.class_of(at.topic) is guaranteed
    ]


def _mark_unlinked(lane: Lane, batch: Batch) -> None:
    """Record in the next commit which outboxes have no link: one that comes back starts over."""
    progress = lane.progress
    for (outbox, of), sent in progress.sent.items():
        is_guaranteed = lane.names.class_of(outbox.topic) is MessageClass.GUARANTEED
        if not is_guaranteed or (outbox, of) in progress.moved:
            continue  # what movers have sent is theirs to keep: kept here too it would lag behind
        if link_of(lane, outbox.topic) is not None:
            continue
        if progress.since.get((outbox, of)) != UNLINKED:
            lane.note(batch, lane.sent((outbox, of), sent, UNLINKED))


def end_removed(lane: Lane, read: Sequence[str], now_ms: int) -> None:
    """Have a lane just taken end what its former owner had of links that were removed meanwhile.

    Args:
        lane: Taken just now; it reads nothing yet.
        read: Topics that it will read.
        now_ms: The present moment.
    """
    progress = lane.progress
    known = [at for at in (*progress.topic_ids, *progress.stopped) if at not in progress.unlinked]
    if lane.following.change < lane.learner.followed:
        _mark_unlinked(lane, lane.open(now_ms))
        for source in _resting_sources(lane):
            begin_links(lane, source, list(lane.learner.neighbours), now_ms)
    if gone := dict.fromkeys((at.topic for at in known if at.topic not in read), ""):
        # In which Kafka cluster they were read was known to the former owner alone.
        _leave_outboxes(lane, gone, lane.topology, now_ms)
    for target in lane.held_targets:
        is_outbox = lane.names.source_of(target) is not None
        if is_outbox and link_of(lane, target) is None:
            release(lane, target, now_ms)
            lane.log.warning("target.hold_ended", target=target, lane=lane.number)


def _leave_outboxes(lane: Lane, gone: Mapping[str, str], before: Topology, now_ms: int) -> None:
    """Record in the next commit that outboxes of before are read no further, and lack nothing."""
    progress, batch = lane.progress, lane.open(now_ms)
    lane.broken.leave(gone)
    # What is not read just now may be all the same what a target was left out for.
    sources = [*guaranteed_sources(lane), *_resting_sources(lane)]
    for stop in [one for one in progress.stopped.values() if one.topic in gone]:
        lane.log.warning("source.stop_ended", lane=lane.number, range=stop.range)
        lift_stop(lane, stop, now_ms)
    for key in [key for key in progress.gaps if key[0].topic in gone]:
        close_gap(lane, batch, key)
    for source in [one for one in sources if one.at.topic in gone]:
        for target in list(progress.holds):
            held = progress.holds.next(target)
            if (first := held.get(hold_key(lane, target, source))) is not None:
                lane.log.error(
                    "target.lacks",
                    target=target,
                    source=source.at.topic,
                    partition=source.at.partition,
                    first=first,
                    next=lane.position(source.at),
                )
                let_go(Run(lane, batch, source), target)
    for at in [one for one in progress.topic_ids if one.topic in gone]:
        if lane.names.class_of(at.topic) is MessageClass.DIRECT:
            continue  # one that is recreated is read on as ever
        kept = progress.source_at(at, max(0, lane.position(at)))
        left = replace(kept, leader_epoch=-1, is_unlinked=True)
        kafka, cluster_id = _kafka_of(lane, before, at.topic), gone[at.topic]
        lane.note(batch, replace(left, kafka=kafka, cluster_id=cluster_id))


def _kafka_of(lane: Lane, topology: Topology, topic: str) -> str:
    """Return in which Kafka cluster an outbox is; nothing if its node is not known any more."""
    name = lane.names.source_of(topic)
    node = None if name is None else topology.nodes.get(name.owner)
    return "" if node is None else node.kafka
