"""Before which moment all has been read, by when a query was seen to wait."""

from __future__ import annotations

import random

import pytest

from streaming.job.queries import ROUSED_S, Query

TRIGGER_S = 1.0
WAITS_S = TRIGGER_S + ROUSED_S


@pytest.mark.parametrize("asks_s", [0.05, 0.9, 2.5, 15.0])
@pytest.mark.parametrize("looks_s", [0.2, 4.0])
def test_what_was_written_while_kafka_was_asked_is_not_taken_for_read(
    asks_s: float, looks_s: float
) -> None:
    """It may have told the ends of its logs first thing, and the answer took long."""
    rng = random.Random(3)
    query, now_s, begins_s = Query(), 100.0, 100.0
    query.waited_s.append(now_s)
    claims: list[float] = []
    for _ in range(200):
        answered_s = begins_s + asks_s * rng.random()
        ends_s = answered_s + TRIGGER_S * rng.random()
        while now_s < ends_s:
            if now_s > answered_s and (read_s := query.waits(now_s, WAITS_S)) is not None:
                assert read_s <= begins_s
                claims.append(now_s - read_s)
            now_s += looks_s * rng.random()
        begins_s = ends_s
    if looks_s < TRIGGER_S:  # else few waits are seen at all
        assert max(claims) < 2 * (asks_s + WAITS_S)
    assert len(query.waited_s) < 2 * WAITS_S / (looks_s / 2) + 10
