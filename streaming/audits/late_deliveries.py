"""Deliveries that came after their block was certified for good. Spec: K29, K31."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.block import Receipt
from streaming.audits.interest import EndpointKey
from streaming.tables.rows import TopicPartition


class LateKey(NamedTuple):
    """Deliveries to one endpoint of a block that was certified for good."""

    place: TopicPartition
    block: int
    endpoint: EndpointKey


@dataclass(slots=True)
class LateDeliveries:
    """What came late of one block to one endpoint.

    Attributes:
        since_s: When the first was read, on the auditor's clock.
        first: Lowest source offset.
        last: Highest one.
        receipt: What came.
    """

    since_s: float
    first: int
    last: int
    receipt: Receipt = field(default_factory=Receipt)
