"""What a lane has kept of itself, read back; whatever else stands there is data too.

A record that nobody can read says nothing. Under a key that no lane writes it is a stranger's.
Under a lane's key, behind what the lane wrote there, it is one as well, and the lane's own word
holds: nobody else moves its positions. But where compaction has taken that word away, or a newer
program wrote it, nobody knows where the lane stood. To go on from elsewhere would lose messages or
double them, so then nothing goes on there before a person has looked. Spec: K12, R12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from mesh.errors import ProtocolError, TransportUnreadableError, UnknownVersionError
from mesh.model.facts import Fact
from mesh.transport.port import Record
from mesh.wire.state import decode_fact
from mesh.wire.varint import read_zigzag
from schemas import VERSION

LANE_KEYS = frozenset(one.word.encode() for one in get_args(Fact))
"""First words of the keys under which lanes write."""

NEWER = range(VERSION + 1, VERSION + 15)
"""Versions of programs to come: no text begins with the byte of one of these."""


@dataclass(slots=True)
class Kept:
    """The records of one partition of `progress`, judged.

    Attributes:
        facts: What each key says in the end, by its bytes; one that was ended says nothing.
        strays: Those that cannot be read and hide nothing, with what is wrong with each.
    """

    facts: dict[bytes, Fact] = field(default_factory=dict)
    strays: list[tuple[Record, ProtocolError]] = field(default_factory=list)


def fold_kept(records: Iterable[Record]) -> Kept:
    """Return what can be read of a partition of `progress`, all of it.

    Raises:
        TransportUnreadableError: A record hides where its lane stood.
    """
    kept = Kept()
    known: set[bytes] = set()
    hiding: dict[bytes, tuple[Record, ProtocolError]] = {}
    for record in records:
        key, value = record.key() or b"", record.value()
        try:
            if value is None:
                kept.facts.pop(key, None)
            else:
                kept.facts[key] = decode_fact(value)
        except ProtocolError as error:
            may_hide = key not in known or is_newer(value or b"", error)
            if may_hide and key.partition(b" ")[0] in LANE_KEYS:
                hiding[key] = record, error
                continue
            kept.strays.append((record, error))
        else:
            known.add(key)
            hiding.pop(key, None)
    for key, (record, fault) in hiding.items():
        place = f"{record.topic()}[{record.partition()}] offset {record.offset()}"
        raise TransportUnreadableError(
            f"{place}, key {key_text(key)}: {fault}; nobody knows where the lane stood: "
            "look who writes there besides the node; "
            "a record with this key and no value has it begin there as if it had never been",
            offset=record.offset(),
        )
    return kept


def is_newer(value: bytes, error: ProtocolError) -> bool:
    """Return whether a record that cannot be read may be one of a newer program's."""
    return isinstance(error, UnknownVersionError) and read_zigzag(value, 0)[0] in NEWER


def key_text(key: bytes) -> str:
    """Return a key as people read it, whatever its bytes are."""
    return key[:200].decode(errors="backslashreplace")
