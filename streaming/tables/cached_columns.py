"""Columns that are built once: they name no data, so every batch can reuse them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from pyspark import SparkContext

P = ParamSpec("P")
T = TypeVar("T")

MADE_MAX = 100
"""For how many arguments the results of one function are kept: some depend on what clients request,
and that never ends."""


def cached_columns(make: Callable[P, T]) -> Callable[P, T]:
    """Cache a function's results, by its arguments, as long as their JVM runs.

    Building the columns of a batch takes some thousand calls between Python and the JVM: for a
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
