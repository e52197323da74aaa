"""Records that cannot be served become dead letters, with a reason. Spec: kafka.md 1, K7, R12."""

from __future__ import annotations

from mesh.lane.run import Run
from mesh.model.reasons import DropReason
from mesh.model.state import DeadLetter
from mesh.transport.headers import UNREADABLE, headers_of
from mesh.transport.port import Headers, Record, Row
from mesh.wire.dead_letters import dead_letter_record


def refuse(run: Run, record: Record, reason: DropReason, detail: str) -> None:
    """Write a record of a source to the dead letters, in the open transaction, and count it.

    Args:
        run: What the record was read of.
        record: What is refused; its full sizes are told, its parts cut to what is kept.
        reason: Why; the dead letter has it in capitals.
        detail: What is wrong, for people.

    A catch-up refuses again what the lane has refused: that is told once.
    """
    lane, batch, source = run.lane, run.batch, run.source
    if lane.catch_up_router is not None:
        return
    batch.count_dropped(reason, source.at)
    letter = DeadLetter(
        reason=reason.upper(),
        detail=detail,
        topic=source.at.topic,
        partition=source.at.partition,
        offset=record.offset(),
        topic_id=source.topic_id,
    )
    try:
        row = letter_row(letter, record.key(), record.value(), headers_of(record))
    except Exception:
        if reason is not DropReason.POISON:
            raise
        row = letter_row(letter, None, None, UNREADABLE)  # not even its headers can be read
    batch.write_rows(lane.names.dead_letters(lane.node), lane.number, [row])


def letter_row(letter: DeadLetter, key: bytes | None, value: bytes | None, headers: Headers) -> Row:
    """Return the row of a dead letter, of which `dead_letter_record` says what it keeps."""
    refused, name, told = dead_letter_record(letter, key, value, headers)
    return refused, name, 0, told
