"""Columns that are made once for each JVM, and handed over once."""

from __future__ import annotations

from types import SimpleNamespace
from weakref import WeakSet

import pytest
from pyspark import SparkContext

from streaming.connectors import sequences
from streaming.tables.cached_columns import cached_columns


def test_what_is_made_is_kept_by_its_arguments_and_by_the_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns of a JVM that has ended are of no use to the next one."""
    made: list[str] = []

    @cached_columns
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


def test_of_what_is_made_for_ever_new_arguments_little_is_kept() -> None:
    """Each filter of a client is one more."""
    made = WeakSet[Made]()

    @cached_columns
    def column(number: int) -> Made:
        made.add(one := Made(number))
        return one

    for number in range(1_000):
        assert column(number) is column(number)
        assert len(made) < 200


class Made:
    """What can be seen to be there no more."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_the_same_columns_are_handed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number in the JVM tells which they are; of names it is the name."""
    handed: list[int] = []

    def to_seq(columns: list[object]) -> list[object]:
        handed.append(len(columns))
        return columns

    sequence = sequences.made_once(to_seq)
    one, again, other = (SimpleNamespace(_target_id=id_) for id_ in ("o1", "o1", "o2"))
    assert sequence([one, "name"]) is sequence(iter([again, "name"]))
    assert sequence([one, other]) is not sequence([other, one])
    assert handed == [2, 2, 2]
    monkeypatch.setattr(sequences, "SEQUENCES_MAX", 3)
    sequence([])
    assert sequence([one, "name"]) == [one, "name"]
    assert handed == [2, 2, 2, 0, 2]
