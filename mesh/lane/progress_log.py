"""The log of a lane's progress, read back; whatever else stands there is data too.

A record that nobody can read is a stranger's under a key that no lane writes, and behind what the
lane wrote under the same key: nobody else moves its positions. Where it hides what the lane wrote,
nobody knows where that stood. To go on from elsewhere would lose messages or double them, so then
nothing goes on there before a person has looked. Spec: K12, R12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from mesh.errors import ProtocolError, TransportUnreadableError
from mesh.lane.hidden_keys import HiddenKeys
from mesh.model.facts import Fact
from mesh.transport.port import Record
from mesh.wire.state import decode_fact

LANE_KEYS = frozenset(one.word.encode() for one in get_args(Fact))
"""First words of the keys under which lanes write."""


@dataclass(slots=True)
class ProgressLog:
    """The records of one partition of `progress`, judged.

    Attributes:
        facts: What each key says in the end, by its bytes; one that was ended says nothing.
        strays: Those that cannot be read and hide nothing, with what is wrong with each.
    """

    facts: dict[bytes, Fact] = field(default_factory=dict)
    strays: list[tuple[Record, ProtocolError]] = field(default_factory=list)


def fold_progress(records: Iterable[Record]) -> ProgressLog:
    """Return what can be read of a partition of `progress`, all of it.

    Raises:
        TransportUnreadableError: A record hides where its lane stood.
    """
    kept = ProgressLog()
    hidden = HiddenKeys()
    for record in records:
        key, value = record.key() or b"", record.value()
        try:
            if value is None:
                kept.facts.pop(key, None)
            else:
                kept.facts[key] = decode_fact(value)
        except ProtocolError as error:
            is_of_lane = key.partition(b" ")[0] in LANE_KEYS
            if not (is_of_lane and hidden.hides(key, record, error)):
                kept.strays.append((record, error))
        else:
            hidden.read(key)
    for record, fault in hidden.records:
        key = record.key() or b""
        place = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        raise TransportUnreadableError(
            f"{place}, key {key_text(key)}: {fault}; nobody knows where the lane stood: "
            "look who writes there besides the node; "
            "a record with this key and no value has it begin there as if it had never been",
            offset=record.offset(),
        )
    return kept


def key_text(key: bytes) -> str:
    """Return a key as people read it, whatever its bytes are."""
    return key[:200].decode(errors="backslashreplace")
