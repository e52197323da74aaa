"""Why a message did not leave on a link. Spec: lab.md 2, DESIGN 4.4."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Every non-forward has exactly one: of those that apply, the first in this order."""

    ARRIVAL_LINK = "arrival_link"
    ARRIVAL_ZONE = "arrival_zone"
    NO_TRANSIT = "no_transit"
    JOIN_HOPS = "join_hops"
    FILTER = "filter"
    LINK_DISABLED = "link_disabled"
    QUOTA = "quota"
    NOT_RESYNCED = "not_resynced"
    NODE_DOWN = "node_down"
    NO_INTEREST = "no_interest"
