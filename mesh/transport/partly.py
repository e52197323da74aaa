"""Partial answers about many topics at once. Spec: DESIGN 4.6.

One partition without a leader, or one topic that may not be described, says nothing about others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from mesh.errors import TransportError

K = TypeVar("K")
V = TypeVar("V")


def answers_so_far(ask: Callable[[], Mapping[K, V]]) -> tuple[Mapping[K, V], bool]:
    """Return what was answered, and whether that is everything: the rest is unknown.

    Raises:
        TransportError: Nothing was answered.
    """
    try:
        return ask(), True
    except TransportError as error:
        if answers := error.answers_to(ask):
            return answers, False
        raise
