"""Keys of a compacted topic under which nobody can read what stood there. Spec: K12, K27, R12.

A record that cannot be read says nothing. Behind what its writer wrote under the same key it is a
stranger's, and the writer's own word holds. But where compaction has taken that word away, or a
newer program wrote it, nobody knows what stood there, and nobody may guess.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mesh.errors import ProtocolError, UnknownVersionError
from mesh.transport.port import Record
from mesh.wire.varint import read_zigzag
from schemas import VERSION

NEWER = range(VERSION + 1, VERSION + 15)
"""Versions of programs to come: no text begins with the byte of one of these."""


@dataclass(slots=True)
class HiddenKeys:
    """What was found so far of the keys of a topic, read in order."""

    _known: set[bytes] = field(default_factory=set)
    _hiding: dict[bytes, tuple[Record, ProtocolError]] = field(default_factory=dict)

    @property
    def records(self) -> Collection[tuple[Record, ProtocolError]]:
        """The records that hide what stood under their keys, with what is wrong with each."""
        return self._hiding.values()

    def read(self, key: bytes) -> None:
        """Record that what stands under a key can be read."""
        self._known.add(key)
        self._hiding.pop(key, None)

    def cleared(self, key: bytes) -> None:
        """Record that somebody removed what stood under a key, although nobody may have read it."""
        self._hiding.pop(key, None)

    def hides(self, key: bytes, record: Record, error: ProtocolError) -> bool:
        """Record that one cannot be read; return whether it hides what stood there."""
        is_hiding = key not in self._known or _is_newer(record.value() or b"", error)
        if is_hiding:
            self._hiding[key] = record, error
        return is_hiding


def _is_newer(value: bytes, error: ProtocolError) -> bool:
    """Return whether a record that cannot be read may be one of a newer program's."""
    return isinstance(error, UnknownVersionError) and read_zigzag(value, 0)[0] in NEWER
