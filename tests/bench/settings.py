"""What a run of the benchmark does, and with which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        messages: Messages per contender and round.
        payload: Bytes of each payload.
        subjects: Distinct subjects, chosen evenly.
        rounds: Rounds that count; as many again may be tried when some are dropped.
        foreign: Share of one core that other processes may use in a measurement, else the round
            is dropped.
        latency: Messages per second of each open loop; empty for none.
        latency_s: Length of each open loop, in seconds.
        idle_s: How long an idle worker is watched, in seconds; 0 for not at all.
        filters: Filters of the memory measurement; 0 for none.
        kills: How often a worker is killed under load; 0 for never.
        mirror: Whether MirrorMaker 2 takes part.
    """

    messages: int = 1_000_000
    payload: int = 100
    subjects: int = 300
    rounds: int = 5
    foreign: float = 0.05
    latency: Sequence[int] = (50, 1_000)
    latency_s: float = 20.0
    idle_s: float = 20.0
    filters: int = 100_000
    kills: int = 5
    mirror: bool = True

    def as_json(self) -> dict[str, object]:
        """Return the settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


SMOKE = Settings(
    messages=10_000,
    rounds=1,
    foreign=2.0,
    latency=(50,),
    latency_s=1.0,
    idle_s=1.0,
    filters=5_000,
    kills=0,
    mirror=False,
)
"""Shows that the benchmark itself works; its figures mean nothing."""
