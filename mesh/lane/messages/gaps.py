"""GAP: the announcement that messages of a source are lost, before anything else of it goes on.

It goes wherever messages of the source could have gone, interest or not, once over each link; at
every guaranteed endpoint it becomes a record without key and value whose header says what is lost.
Spec: K10, DESIGN 4 rule 4, DESIGN 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.core.forwarding import crosses_external
from mesh.core.joins import row_of
from mesh.core.routes import PUBLISHED_HERE, Arrival
from mesh.lane.messages.outgoing import Provenance, hop_over, next_hop
from mesh.lane.messages.sending import next_chain, send, sent_to
from mesh.lane.run import Run
from mesh.model.control import Stop
from mesh.model.frames import (
    NONE_OFFSET,
    FrameKind,
    Hop,
    MessageClass,
    Origin,
    SourcePartition,
    generation_and_offset,
    position_in_chain,
)
from mesh.model.state import LossReason
from mesh.model.topology import ZoneKind
from mesh.transport.port import TopicPartition
from mesh.wire.announcements import announcement_ext, encode_announcement, loss_of
from mesh.wire.frames import Peeked, assemble_value, decode_header, key_tail, relay_key

EMPTY = assemble_value(0, [])
"""Value of a frame without messages."""


def own_provenance(run: Run) -> Provenance:
    """Return how something came that this node itself says of a source."""
    lane, source = run.lane, run.source
    link = source.link
    return Provenance(
        node=lane.node,
        source=source.identity,
        generation=source.generation,
        zone=link.zone if link is not None else "",
        hops=1 if link is not None else 0,
        crossed_external=link is not None and crosses_external(link.kind),
        path=(lane.node,),
        frame=None,
        eras=(lane.learner.era,),
        join_hops=1 if link is not None and link.kind is ZoneKind.JOIN else 0,
    )


def announce(
    run: Run,
    stop: Stop,
    goes_on: int,
    *,
    of: SourcePartition | None = None,
    is_local: bool = True,
) -> None:
    """Announce to everybody that what a stop names is lost.

    Args:
        run: Whose source is read on, by the identity that it had.
        stop: What is lost.
        goes_on: Position at which the chain goes on.
        of: Of which partition the range is, if not of the one that is read.
        is_local: Whether the endpoints of this node are told too.
    """
    lane, source, provenance = run.lane, run.source, own_provenance(run)
    origin = Origin(
        node=lane.node,
        source=of or source.identity,
        generation=source.generation,
        first=stop.first,
        last=max(stop.first, stop.next - 1),
        count=0,
        subjects=(),
        eras=provenance.eras,
    )
    ext = announcement_ext(stop.topic, stop.reason, is_open=stop.next == NONE_OFFSET)
    arrival = PUBLISHED_HERE
    if source.link is not None:
        row = row_of(lane.topology.joins, (source.link.neighbour, lane.node), provenance.join_hops)
        arrival = Arrival(source.link.zone, source.link.neighbour, provenance.crossed_external, row)
    tail = key_tail(origin, lane.flags, ext)
    for neighbour in lane.router.allowed(arrival, source.message_class):
        link = lane.link(neighbour)
        if lane.is_held(link, source):
            continue  # its catch-up finds the same loss; what an operator accepts waits for that
        # A log may have been cut off and recreated at once: what was sent is beyond its end then.
        last = max(goes_on - 1, sent_to(run, link))
        first = min(position_in_chain(source.generation, stop.first), last)
        chain = next_chain(run, link, first, last)
        key = relay_key(hop_over(lane, link, provenance, chain), tail, FrameKind.GAP)
        send(run, link, chain, key, EMPTY, 0)
    if is_local and source.message_class is MessageClass.GUARANTEED:
        _deliver(run, origin, ext, provenance)


def announce_unreadable(run: Run, hop: Hop, last: int, offset: int) -> None:
    """Announce what a neighbour sent and sends again in a form that nobody here can read.

    Args:
        run: Whose outbox is read on.
        hop: Of the first frame behind the hole.
        last: Position in the sender's source up to which all is known.
        offset: Of that frame in the outbox.
    """
    lane, source = run.lane, run.source
    sender, of = hop.path[-1], hop.chain.source
    names, message_class = lane.names, source.message_class
    topic = (
        names.ingress(sender, message_class)
        if len(hop.path) == 1
        else names.outbox(hop.path[-2], sender, message_class)
    )
    began, first = generation_and_offset(last + 1)
    generation, after = generation_and_offset(hop.chain.previous + 1)
    first = first if began == generation else 0
    stop = Stop(topic, of.partition, of.topic_id, LossReason.UNREADABLE, first, after)
    goes_on = position_in_chain(source.generation, offset)
    announce(run, stop, goes_on, of=of)
    lane.log.error("frames.unreadable", lane=lane.number, range=stop.range)


def relay(
    run: Run,
    provenance: Provenance,
    arrival: Arrival,
    peeked: Peeked,
    tail: bytes,
) -> None:
    """Hand on an announcement that a neighbour made, and deliver it here."""
    lane, source = run.lane, run.source
    for neighbour in lane.router.allowed(arrival, source.message_class):
        link = lane.link(neighbour)
        if neighbour in provenance.path or lane.is_held(link, source):
            continue  # who is held for reads the announcement in its catch-up
        hop = next_hop(run, link, provenance, NONE_OFFSET, NONE_OFFSET)
        key = relay_key(hop, tail, peeked.kind)
        send(run, link, hop.chain, key, EMPTY, 0)
    if source.message_class is MessageClass.GUARANTEED:
        header = decode_header(peeked.key)
        _deliver(run, header.origin, header.ext, provenance)


def _deliver(
    run: Run,
    origin: Origin,
    ext: Mapping[str, bytes],
    provenance: Provenance,
) -> None:
    """Write the announcement to the guaranteed endpoints of this node that the lane writes to."""
    lane = run.lane
    headers = [encode_announcement(loss_of(origin, ext, provenance.path))]
    partition = run.source.at.partition % lane.partitions
    for endpoint in lane.learner.classes:
        if lane.is_guaranteed(endpoint) and lane.router.only in (None, endpoint):
            topic = lane.names.endpoint(lane.node, endpoint)
            if not lane.holds_target(topic):
                run.batch.write(TopicPartition(topic, partition), None, headers=headers)
