"""Questions to brokers that do not hang on each other are asked side by side, not in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 16
"""Questions on their way at one time."""

_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")


def side_by_side(ask: Callable[[_Asked], _Told], each: Iterable[_Asked]) -> list[_Told]:
    """Return the answers in the order of what is asked: the slowest alone is waited for.

    Args:
        ask: Waits for brokers, and changes nothing that others use.
        each: Of whom.
    """
    asked = list(each)
    if len(asked) < 2:
        return [ask(one) for one in asked]
    with ThreadPoolExecutor(min(AT_ONCE, len(asked)), "ask") as pool:
        return list(pool.map(ask, asked))
