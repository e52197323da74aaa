"""Columns that are made once for each JVM."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from streaming.tables.once import once


def test_what_is_made_is_kept_by_its_arguments_and_by_the_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns of a JVM that has ended are of no use to the next one."""
    made: list[str] = []

    @once
    def column(name: str) -> list[str]:
        """Make one."""
        made.append(name)
        return [name]

    assert column("a") is column("a")
    assert column("b") == ["b"]
    assert made == ["a", "b"]
    monkeypatch.setattr(SparkContext, "_jvm", object())
    assert column("a") == ["a"]
    assert column("a") is column("a")
    assert made == ["a", "b", "a"]
    assert column.__doc__ == "Make one."
