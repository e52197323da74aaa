"""What standbys of a node have written to `learned`. Spec: K16, K21."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mesh.errors import ProtocolError
from mesh.model.state import Standby
from mesh.wire.keys import LEARNED_KEYS, StandbyKey, parse_key
from mesh.wire.state import decode_standby

GONE_MS = 600_000
"""A standby's record this much older than the newest one, by the brokers' clock, is deleted."""

LearnedRecord = tuple[bytes | None, bytes | None, int]
"""Key and value of a record, and when it was appended, in ms since 1970."""


def standbys(records: Iterable[LearnedRecord]) -> Mapping[str, tuple[Standby, int]]:
    """Return the newest record of each standby, and when it was appended."""
    found: dict[str, tuple[Standby, int]] = {}
    for raw, value, at_ms in records:
        try:
            key = parse_key(raw or b"", LEARNED_KEYS)
            if not isinstance(key, StandbyKey):
                continue
            found.pop(key.worker, None)
            if value is not None:
                found[key.worker] = decode_standby(value), at_ms
        except ProtocolError:
            continue
    return found


def gone(records: Sequence[LearnedRecord]) -> Sequence[str]:
    """Return the standbys that have written nothing for a long time."""
    newest_ms = max((at_ms for _, _, at_ms in records), default=0)
    return [name for name, (_, at_ms) in standbys(records).items() if newest_ms - at_ms > GONE_MS]
