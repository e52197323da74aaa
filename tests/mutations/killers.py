"""Schedules that show each planted bug quickly, as `python -m tests.mutations` found them."""

from __future__ import annotations

from collections.abc import Mapping

KILLERS: Mapping[str, tuple[int, ...]] = {}
