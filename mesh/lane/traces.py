"""Traces of applications in which a batch of a lane takes part, for whoever follows them.

A node neither begins nor changes a trace: `traceparent` is a header of clients and passes
untouched. A batch only remembers which ones it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Protocol

from mesh.errors import ProtocolError
from mesh.lane.batch import Batch
from mesh.model.state import Ledger
from mesh.transport.port import Headers
from mesh.wire.messages import scan_value
from mesh.wire.tails import read_headers

TRACEPARENT = "traceparent"
SAMPLED = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""What W3C Trace Context calls a trace that is recorded. Others are nobody's business."""

PARENTS_MAX = 32
"""Traces remembered per batch: it may have thousands of messages, and a span is one record."""


class Traces(Protocol):
    """Told of batches that are in Kafka."""

    def committed(
        self, lane: int, open_ms: int, account: Ledger, parents: Collection[bytes]
    ) -> None:
        """Record a batch that was open for so long, with the `traceparent` seen in it."""


def remember(batch: Batch, headers: Sequence[Headers]) -> None:
    """Have a batch remember the traces of messages."""
    for some in headers:
        for name, value in some:
            if name == TRACEPARENT and value is not None and SAMPLED.fullmatch(value):
                if len(batch.parents) >= PARENTS_MAX:
                    return
                batch.parents[value] = None


def remember_frame(batch: Batch, value: bytes) -> None:
    """Have a batch remember the traces of the messages in a frame; what cannot be read has none."""
    if TRACEPARENT.encode() not in value or len(batch.parents) >= PARENTS_MAX:
        return
    try:
        _, items = scan_value(value)
        remember(batch, [read_headers(value, begin) for _, _, _, begin, _ in items])
    except (ProtocolError, IndexError):
        return
