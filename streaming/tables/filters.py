"""All filters that claims name: subjects that the same of them select need not be told apart.

So what is kept of a block grows with what is asked for, and not with subjects. A filter that comes
later may select some of the subjects that were taken together: of those nothing is sure.
Spec: K29, K31.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

LEVELS_MAX = 16
"""Levels of a subject. Spec: K7."""

_LEVEL = r"[^/*>\x00-\x1f\x7f-\x9f]+"
SUBJECT_PATTERN = rf"\A(?!\$){_LEVEL}(?:/{_LEVEL}){{0,{LEVELS_MAX - 1}}}\z"
"""The form of a subject for Java, which has no surrogates in its strings; its size apart."""

FILTERS_MAX = 2_000
"""With more filters than these, each subject is taken alone."""

SHAPES_MAX = 64
"""With more shapes of filters, too: where their wildcards are. Nodes widen filters beyond as many.

Spec: DESIGN 3, guide/performance.md 4.
"""

ALL = 1 << 31
"""As a number of filters: all that will ever be."""

_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a filter has wildcards.

    Attributes:
        stars: Of each level but a last `>`, whether it is `*`.
        is_open: Whether it ends with `>`.
    """

    stars: tuple[bool, ...]
    is_open: bool = False

    @classmethod
    def of(cls, filter_: str) -> Shape:
        """Return the shape of a valid filter; those without wildcards share one."""
        if "*" not in filter_ and not filter_.endswith(">"):
            return LITERAL
        levels = filter_.split("/")
        is_open = levels[-1] == ">"
        closed = levels[:-1] if is_open else levels
        return cls(tuple(level == "*" for level in closed), is_open)


LITERAL = Shape(())


def may_be_widened(filters: Iterable[str]) -> bool:
    """Return whether nodes look up other filters than these: they have more shapes than that.

    Those without wildcards are looked up as they are. Spec: DESIGN 3.
    """
    return len({Shape.of(one) for one in filters} - {LITERAL}) > SHAPES_MAX


@dataclass(slots=True)
class Filters:
    """Filters in the order in which they came.

    Attributes:
        numbers: Filter -> its number, from 0 on.
        known: How many there ever were: the next number.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    known: int = 0

    def know(self, filters: Iterable[str]) -> None:
        """Take filters, from several threads at once; those that are known keep their numbers."""
        with _LOCK:
            for one in filters:
                if one not in self.numbers:
                    self.numbers[one] = self.known
                    self.known += 1

    def keep(self, filters: Iterable[str]) -> None:
        """Forget all others. One that comes again is a new one: what was read before is vague."""
        with _LOCK:
            kept = frozenset(filters)
            self.numbers = {one: number for one, number in self.numbers.items() if one in kept}

    def newest(self, filters: Iterable[str]) -> int:
        """Return the highest number of some filters; of one that nobody knows none is higher."""
        return max(self.numbers.get(one, ALL - 1) for one in filters)

    @property
    def has_surplus(self) -> bool:
        """Whether nodes may have widened some."""
        with _LOCK:
            known = list(self.numbers)
        return may_be_widened(known)

    def by_shape(self) -> Mapping[Shape, Sequence[str]]:
        """Return all of them by shape; nothing if they are too many."""
        with _LOCK:
            known = list(self.numbers)
        shapes: dict[Shape, list[str]] = {}
        for one in known:
            shapes.setdefault(Shape.of(one), []).append(one)
        return shapes if len(known) <= FILTERS_MAX and len(shapes) <= SHAPES_MAX else {}
