"""A catch-up routes its records for one target only, by what is wanted there. Spec: K20."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from mesh.core.local_links import LocalLink
from mesh.core.routing import Router
from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.messages.poison import Poison
from mesh.lane.progress import Progress
from mesh.lane.sources import Source
from mesh.lane.step import step
from mesh.model.frames import FrameFlags
from mesh.model.state import LossReason
from mesh.transport.port import Record, TopicPartition
from mesh.wire.state import encode_ledger
from mesh.worker.lanes.second_writer import second_partition_of


def catch_up_lane(
    lane: Lane,
    progress: Progress,
    *,
    link: LocalLink | None,
    endpoint: str = "",
    flags: FrameFlags = FrameFlags.NONE,
) -> Lane:
    """Return a lane that decides only for a catch-up's target, by what is wanted there now.

    Args:
        lane: The real one.
        progress: What is known of the target: chains sent, and accepted when that was read.
        link: The target, if it is a link.
        endpoint: The target, if it is an endpoint.
        flags: Flags of the frames that it writes.
    """
    router = lane.learner.router
    links = [] if link is None else [lane.link(link.neighbour)]  # with the current selectors
    one_target = Router(
        links,
        router.table,
        router.modes,
        router.draining,
        only=endpoint,
        near=router.near,
    )
    return Lane(
        topology=lane.topology,
        node=lane.node,
        number=lane.number,
        learner=lane.learner,
        progress=progress,
        flags=flags,
        catch_up_router=one_target,
        written=lane.written,
        log=lane.log,
    )


def route_again(
    lane: Lane, source: Source, records: Sequence[Record], poison: Poison, now_ms: int
) -> None:
    """Route records of a source again, by the eras in which they were first taken.

    Raises:
        PoisonError: One of them breaks the routing: nothing may be committed.
    """
    while records:
        some = _of_one_era(lane, source, records)
        output = step(lane, source, some, now_ms, records_max=len(records), poison=poison)
        records = records[output.taken :]


def _of_one_era(lane: Lane, source: Source, records: Sequence[Record]) -> Sequence[Record]:
    """Return the first records that were taken under one topology. Spec: K10."""
    era_of = lane.progress.era_of
    first, last = (era_of(source.at, records[at].offset()) for at in (0, -1))
    if first == last:
        return records
    return list(takewhile(lambda one: era_of(source.at, one.offset()) == first, records))


def account(lane: Lane, batch: Batch, *, repair: bool) -> None:
    """Account for what a catch-up writes; the lane has accounted for the reading."""
    ledger = batch.ledger()
    sent = [replace(one, repair=repair) for one in ledger.sent]
    dropped = [one for one in ledger.dropped if one.reason in set(LossReason)]
    told = replace(ledger, sources=(), not_forwarded=(), dropped=dropped, sent=sent)
    place = TopicPartition(lane.names.ledger(lane.node), second_partition_of(lane))
    batch.write(place, encode_ledger(told))
