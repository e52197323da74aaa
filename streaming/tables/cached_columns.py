"""Columns that are made once: they name no data, so every batch can use those of the one before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from pyspark import SparkContext

P = ParamSpec("P")
T = TypeVar("T")

MADE_MAX = 100
"""What one function makes is kept for so many arguments at most: some go by what clients ask for,
and of that there is always more."""


def cached_columns(make: Callable[P, T]) -> Callable[P, T]:
    """Keep what a function makes, by its arguments, as long as the JVM runs that has it.

    To make the columns of a batch Python and the JVM speak to each other some thousand times: of a
    small batch that is a good part of the work.
    """
    made: dict[object, T] = {}
    jvm: object = None

    @wraps(make)
    def kept(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal jvm
        if jvm is not SparkContext._jvm:  # noqa: SLF001  # not in Python's own API
            jvm = SparkContext._jvm  # noqa: SLF001  # the same
            made.clear()  # of one that has ended
        key = (args, *kwargs.items())
        if (found := made.get(key)) is None:
            if len(made) >= MADE_MAX:
                made.clear()
            found = made[key] = make(*args, **kwargs)
        return found

    return kept
