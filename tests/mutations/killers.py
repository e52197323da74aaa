"""Schedules that show each planted bug quickly, found with `python -m tests.mutations`."""

from __future__ import annotations

from collections.abc import Mapping

KILLERS: Mapping[str, tuple[int, ...]] = {
    "position-before-copies": (
        -2002,
        -2005,
    ),
    "position-after-copies": (
        -2000,
        -2001,
    ),
    "position-one-short": (
        -2000,
        -2001,
    ),
    "position-one-far": (
        -2000,
        -2001,
    ),
    "commit-error-swallowed": (
        -6000,
        -6001,
    ),
    "no-rewind": (
        -2002,
        -2005,
    ),
    "positions-not-read-again": (
        -2002,
        -2005,
    ),
    "same-writer-after-unknown": (
        -6001,
        -6007,
    ),
    "not-fenced": (
        -3001,
        -3004,
    ),
    "fetched-before-rewind": (
        -2001,
        -2002,
    ),
    "fetched-before-loss": (
        -2002,
        -2005,
    ),
    "inherited-not-skipped": (
        -3001,
        -3004,
    ),
    "direct-not-reserved": (
        -2002,
        -2005,
    ),
    "reservation-never-ends": (
        -3001,
        -3004,
    ),
    "previous-off-by-one": (
        -2000,
        -2001,
    ),
    "sent-not-recovered": (
        -2000,
        -2001,
    ),
    "accepted-not-recovered": (
        23,
        58,
    ),
    "lane-epoch-not-raised": (
        -1005,
        -2000,
    ),
    "one-chain-for-all": (
        -2000,
        -2001,
    ),
    "hops-never-restart": (
        13,
        24,
    ),
    "hops-always-restart": (
        1,
        34,
    ),
    "external-mark-forgotten": (
        13,
        126,
    ),
    "split-loses-last": (
        58,
        332,
    ),
    "order-by-subject": (
        27,
        31,
    ),
    "path-without-own-node": (
        -2000,
        -2001,
    ),
    "back-to-sender": (
        -1000,
        -1001,
    ),
    "no-transit-ignored": (
        13,
        14,
    ),
    "interest-returned": (
        -1000,
        -1001,
    ),
    "interest-in-zone-twice": (
        1,
        2,
    ),
    "foreign-offered": (
        13,
        14,
    ),
    "ownership-lost": (
        13,
        14,
    ),
    "ready-before-proof": (
        -4000,
        -4001,
    ),
    "removals-never-applied": (
        0,
        4,
    ),
    "removal-takes-all": (
        72,
        93,
    ),
    "tombstone-ignored": (
        0,
        4,
    ),
    "cut-not-awaited": (-1003,),
    "cut-claims-too-much": (
        -1000,
        -1001,
    ),
    "routes-not-forgotten": (
        -2001,
        -2002,
    ),
    "subjects-not-forgotten": (
        -2002,
        -2004,
    ),
    "plans-not-forgotten": (1165,),
    "node-epoch-not-raised": (
        24,
        69,
    ),
    "old-offers-not-withdrawn": (
        61,
        69,
    ),
    "acknowledged-at-once": (
        18,
        58,
    ),
    "tail-wants-more": (
        -2000,
        -2001,
    ),
    "second-star-ignored": (
        23,
        45,
    ),
    "join-filter-ignored": (1000,),
    "join-row-endless": (
        1174,
        1197,
    ),
    "join-returns": (
        1005,
        1009,
    ),
    "join-not-counted": (1000,),
    "join-wants-nothing": (
        1000,
        1001,
    ),
    "join-carries-interest": (
        1000,
        1002,
    ),
    "join-keeps-addresses": (
        1000,
        1001,
    ),
    "join-rows-mixed": (1005,),
    "displaced-before-letters": (8002, 8005),
    "quarantined-before-letter": (8003, 8012),
    "consent-skips-one-more": (8013,),
    "consent-not-awaited": (8000, 8002),
    "announcement-not-delivered": (8095, 8109),
    "mates-not-told": (8154,),
    "served-from-switch": (5_000_005,),
    "drivers-in-no-order": (5_010_153,),
    "mate-knows-less": (5_000_367, 5_001_066),
    "nothing-drains": (
        5003104,
        5003106,
    ),
    "late-sources-untold": (5_000_220,),
}
"""Name of the bug -> seeds; negative ones are drills."""
