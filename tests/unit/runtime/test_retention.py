"""Records stay for a time after their reader has passed them."""

from __future__ import annotations

from mesh.runtime.retention import CHECK_MS, Retention
from mesh.transport.port import TopicPartition

PLACE = TopicPartition("mesh.a.in.g", 0)


def test_only_what_was_passed_long_ago_is_deletable() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    retention.passed({PLACE: 5}, 0)
    retention.passed({PLACE: 9}, 600)
    assert retention.deletable(999) == {}
    assert retention.deletable(1000) == {PLACE: 5}
    assert retention.deletable(1000) == {}
    assert retention.deletable(5000) == {PLACE: 9}


def test_it_looks_once_a_minute() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    assert retention.is_due(CHECK_MS)
    assert not retention.is_due(CHECK_MS + 1)
    assert retention.is_due(2 * CHECK_MS)
