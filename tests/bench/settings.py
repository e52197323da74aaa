"""What a run of the benchmark does, and with which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

PEERS = ("mm2", "mm2-tuned", "mm2-eos", "franz-go", "nats")
"""What others made for the same work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        messages: Messages per contender and round.
        payload: Bytes of each payload; the first eight are its number.
        subjects: Distinct subjects, chosen evenly.
        rounds: Undisturbed rounds that are wanted; as many again are tried when some are not.
        foreign: Share of one core that other processes may use in a measurement, else the round
            is disturbed.
        peers: Which of `PEERS` take part.
        audited: Messages that the auditor certifies, beside Spark's own source that counts them.
    """

    messages: int = 500_000
    payload: int = 100
    subjects: int = 300
    rounds: int = 5
    foreign: float = 0.05
    peers: Sequence[str] = PEERS
    audited: int = 200_000

    def as_json(self) -> dict[str, object]:
        """Return the settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


SMOKE = Settings(messages=5_000, rounds=1, foreign=2.0, peers=(), audited=6_000)
"""Shows that the benchmark itself works; its figures mean nothing."""
