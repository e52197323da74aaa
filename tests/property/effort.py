"""How many examples a property is tried with: all in the whole suite, a tenth in `make check`."""

from __future__ import annotations

from hypothesis import settings

WHOLE = 100
"""Examples of Hypothesis' own profile, by which shares are counted."""


def examples(count: int = WHOLE) -> settings:
    """Return the settings for so many examples, or the profile's share; the machine may be busy."""
    share = settings.default.max_examples / WHOLE  # type: ignore[union-attr]
    return settings(max_examples=max(1, round(count * share)), deadline=None)
