"""What may be set of the tree layer, with the reasons for its defaults. Spec: tree_layer 2."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Profile(StrEnum):
    """Which rules a mesh goes by; all its nodes by the same.

    HARD is what ships. PATENT is the source's own rules for publishing, recovery and cycles, as
    far as they can be read: fewer frames, and instances that are missed. For comparison alone.
    """

    HARD = "hard"
    PATENT = "patent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one node. Times are in milliseconds.

    Attributes:
        profile: Which rules it goes by.
        spew_hops: PATENT: how many hops a flood goes everywhere from where a node is not sure.
        hops_max: Frames that crossed more links are dropped; at least the number of nodes.
        trees_max: Trees whose routes are kept; the one unused for longest goes. None: all.
        hop_ms: What one hop is expected to take, at least: what PING measures over own links counts
            if it is more. Recoveries wait for a multiple of it.
        timeout_factor: How many expected round trips a recovery waits without progress ...
        recovery_ms_min: ... plus this, however fast the links are.
        hello_ms: How often HELLO is repeated until the peer has answered.
        ping_ms: How often a link is tried; 0: never.
        pings_missed_max: A link that was silent for this many pings is down.
        record_ms: A session older than this must have lost somebody, and ends.
        sweep_ms: How often old records are looked for.
        reopen_ms: How long after its end a session may still learn of a new route.
        recovery_attempts_max: How often a recovery that was disturbed starts over.
        directed_recovery: After a heal a role that was certain before is asked for behind the heal
            alone. It saves few frames, and falls back to the flood wherever it cannot go on.
        copies_trees: A node that joins copies what its first neighbour knows.
        heals_max: Heals that are told apart; more of them mean that every role recovers.
        remembered_max: Routes of forgotten trees whose order is remembered against loops.
        seen_max: Ids of floods and messages that are remembered against copies.
        sessions_bytes_max: How large open sessions may be together, with what they carry; beyond
            that the oldest end, as if they had lost somebody.
        collected_bytes_max: How large the answers of one response may be together; one that no
            longer fits becomes a null.
    """

    profile: Profile = Profile.HARD
    spew_hops: int = 3
    hops_max: int = 64
    trees_max: int | None = None
    hop_ms: int = 20
    timeout_factor: int = 3
    recovery_ms_min: int = 1_000
    hello_ms: int = 1_000
    ping_ms: int = 1_000
    pings_missed_max: int = 10
    record_ms: int = 600_000
    sweep_ms: int = 30_000
    reopen_ms: int = 1_000
    recovery_attempts_max: int = 4
    directed_recovery: bool = False
    copies_trees: bool = True
    heals_max: int = 64
    remembered_max: int = 20_000
    seen_max: int = 200_000
    sessions_bytes_max: int = 256 << 20
    collected_bytes_max: int = 900_000
