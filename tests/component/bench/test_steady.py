"""What the measurement of pauses calls the longest silence."""

from __future__ import annotations

import pytest

from tests.bench.steady import longest_silence


@pytest.mark.parametrize(
    ("seen_s", "silence_s"),
    [
        ([9.0, 10.5, 11.0, 19.9], 8.9),  # between two deliveries within the span
        ([7.0, 12.0, 14.0, 16.0, 18.0, 19.5], 5.0),  # began before the span: from its beginning
        ([10.5, 13.0, 30.0], 7.0),  # outlasts the span: up to its end
        ([5.0], 15.0),  # nothing within it
        ([], 10.0),  # nothing at all: the span itself
        ([10.0, 15.0, 20.0, 29.0], 5.0),  # what came after it does not count
    ],
)
def test_longest_silence(seen_s: list[float], silence_s: float) -> None:
    assert longest_silence(seen_s, 10.0, 20.0) == pytest.approx(silence_s)
