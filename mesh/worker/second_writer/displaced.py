"""What is written about messages that an endpoint no longer holds, in one transaction. R14."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mesh.errors import DecodeError
from mesh.lane.batch import Rows
from mesh.lane.messages.refusing import letter_row
from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.model.losses import Loss
from mesh.model.state import DeadLetter, Dropped, Ledger
from mesh.transport.headers import headers_of
from mesh.transport.port import Headers, Record, TopicPartition
from mesh.wire.announcements import decode_announcement, encode_announcement, is_announcement
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger
from mesh.worker.lanes.overfull import Overfull
from mesh.worker.lanes.second_writer import second_progress
from mesh.worker.second_writer.quarantine import PutAside, delivered_aside, loss_header


def rows_of_displaced(of: Overfull, records: Sequence[Record], topic_id: bytes, until: int) -> Rows:
    """Return what to write about displaced records of a topic, below an offset.

    Dead letters, announcements of the loss in the endpoint, its account, and how far this went.

    Args:
        of: The partition of the endpoint, whose lane gives the messages up, and why.
        records: What stands there, the oldest first.
        topic_id: Of the topic that they were read from.
        until: The offset below which all are displaced.

    Returns:
        Rows by topic and partition, for one transaction.
    """
    lane, place, rows = of.lane, second_progress(of.lane), Rows(list)
    letters = TopicPartition(lane.names.dead_letters(lane.node), place.partition)
    losses = _Losses()
    messages = 0
    for record in records:
        headers = headers_of(record)
        if is_announcement(headers) and losses.add(headers):
            continue
        messages += 1
        aside = PutAside("", 1, MessageClass.GUARANTEED, record.key(), record.value(), headers)
        try:
            aside = delivered_aside(record.key(), record.value(), headers)
            losses.add([loss_header(headers, lane.node, lane.names, of.reason)])
        except DecodeError:
            pass  # written by somebody else: a dead letter without an identity
        letter = DeadLetter(
            reason=of.reason.upper(),
            detail=f"{of.endpoint} holds no more",
            topic=of.at.topic,
            partition=of.at.partition,
            offset=record.offset(),
            topic_id=topic_id,
            target=of.at.topic,
            identity=aside.identity,
        )
        row = letter_row(letter, aside.key, aside.value, aside.headers)
        rows[letters.topic, letters.partition].append(row)
    for header in losses.headers():
        rows[of.at.topic, of.at.partition].append((None, None, 0, [header]))
    leaders = [one for record in records if (one := record.leader_epoch()) is not None]
    told = SourceAt(of.at, topic_id, until, leader_epoch=max(leaders, default=-1))
    rows[place.topic, place.partition].append((encode_fact(told), fact_key(told.key), 0, None))
    ledger = Ledger(
        node=lane.node,
        lane=lane.number,
        lane_epoch=lane.progress.epoch,
        dropped=[Dropped(of.reason, of.at.topic, of.at.partition, messages)],
    )
    account = (encode_ledger(ledger), None, 0, None)
    rows[lane.names.ledger(lane.node), place.partition].append(account)
    return rows


@dataclass(slots=True)
class _Losses:
    """Announcements to be written, one per source and reason.

    A displaced record may announce a loss itself: that is announced again with the new loss.
    """

    _told: dict[Loss, Loss] = field(default_factory=dict)

    def add(self, headers: Headers) -> bool:
        """Take one announcement; its range grows to include all of its kind.

        Returns:
            Whether it is an announcement: a stranger may have written the record.
        """
        try:
            one = decode_announcement(headers)
            kind = replace(one, first=0, last=None, path=())
            known = self._told.get(kind, one)
            ends = [told.last for told in (known, one) if told.last is not None]
            last = max(ends) if len(ends) == 2 else None
            self._told[kind] = replace(known, first=min(known.first, one.first), last=last)
        except (DecodeError, TypeError):
            return False
        return True

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Return the one header of each."""
        return list(map(encode_announcement, self._told.values()))
