"""Frames leave on a link: those of each source in a chain of their own. Spec: K11."""

from __future__ import annotations

from mesh.core.local_links import LocalLink
from mesh.lane.run import Run
from mesh.model.facts import Sent
from mesh.model.frames import NONE_OFFSET, Chain, MessageClass
from mesh.model.reasons import DropReason


def next_chain(run: Run, link: LocalLink, first: int, last: int) -> Chain:
    """Return the chain of what is sent next, between two positions, on a link. Spec: K11."""
    previous = sent_to(run, link)
    return Chain(source=run.source.identity, previous=previous, first=first, last=last)


def sent_to(run: Run, link: LocalLink) -> int:
    """Return the position of what was sent last of a source on a link; -1 for none."""
    lane, source = run.lane, run.source
    return lane.progress.sent.get((lane.outbox(link, source), source.identity), NONE_OFFSET)


def send(
    run: Run,
    link: LocalLink,
    chain: Chain,
    key: bytes,
    value: bytes | None,
    messages: int,
) -> None:
    """Write one frame with this chain to a link's outbox."""
    lane, batch, source = run.lane, run.batch, run.source
    outbox, of = lane.outbox(link, source), chain.source
    topic, partition = outbox.topic, outbox.partition
    since = lane.progress.since.get((outbox, of), 0)
    # What is dropped here is of the chain too: whoever takes the lane goes on behind it.
    number = lane.ages.numbers.get(topic, 0)
    lane.note(batch, Sent(outbox, of, chain.last, since, number))
    if source.message_class is MessageClass.GUARANTEED:
        batch.write(outbox, value, key)
        lane.count_written(outbox, len(key) + len(value or b""))
    elif lane.unwritable and lane.unwritable.has(topic, partition):
        batch.count_dropped(DropReason.NOT_WRITABLE, source.at, messages)
        return
    else:
        run.hand_over(topic, partition, [(value, key, 0, None)])
    batch.count_sent(link.neighbour, source.message_class, messages)
