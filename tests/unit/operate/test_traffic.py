"""Rates of what flows: by the ticks between which it came."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.operate.links.traffic import Flow


@pytest.mark.parametrize("begin_s", [0.0, 50_000.0])
def test_a_rate_is_right_from_the_second_tick_on(begin_s: float) -> None:
    """What came before the first one came in nobody knows how long: it is in no rate."""
    flow, before_s = Flow(), None
    told = []
    for second in range(4):
        flow.take(MessageClass.GUARANTEED, 100, 0, is_new=True)
        flow.tick(begin_s + second, before_s)
        before_s = begin_s + second
        told.append(flow.rates[0])
    assert told == [0.0, 100.0, 100.0, 100.0]


def test_what_begins_later_has_its_rate_at_once() -> None:
    flow = Flow()
    flow.take(MessageClass.DIRECT, 50, 0, is_new=True)
    flow.tick(9.0, 8.0)
    assert flow.rates == (0.0, 50.0)
