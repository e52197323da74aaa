"""Which filters match a subject: one lookup per wildcard shape, not per filter.

A shape is where the wildcards stand. For each shape in use the subject is turned into the one
filter of that shape that matches it, and looked up. So the cost of a cold match is the number
of shapes, at most `SHAPES_MAX`, however many filters there are. Spec: DESIGN 3, performance.md 4.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

SHAPES_MAX = 64
_CATCH_ALL = ">"

Matched = tuple[Sequence[str], Sequence[str]]
"""The filters that match a subject, and those that surplus ones are merged under; both sorted."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """Where the wildcards of a filter stand.

    Attributes:
        levels: Number of levels before a trailing `>`.
        stars: Positions of `*`.
        tail: Whether it ends with `>`.
    """

    levels: int
    stars: tuple[int, ...]
    tail: bool

    @classmethod
    def of(cls, filter_: str) -> Shape:
        """Return the shape of a filter."""
        if "*" not in filter_ and ">" not in filter_:
            return cls(filter_.count("/") + 1, (), tail=False)
        levels = filter_.split("/")
        tail = levels[-1] == ">"
        if tail:
            levels.pop()
        stars = tuple(index for index, level in enumerate(levels) if level == "*")
        return cls(len(levels), stars, tail)

    @property
    def is_literal(self) -> bool:
        """Whether it contains no wildcard."""
        return not (self.tail or self.stars)

    def applied_to(self, levels: Sequence[str]) -> str | None:
        """Return the filter of this shape that matches the subject, or None.

        Also used with a filter's levels, to find the filter of this shape that covers it.
        """
        if len(levels) <= self.levels if self.tail else len(levels) != self.levels:
            return None
        picked = list(levels[: self.levels])
        for index in self.stars:
            picked[index] = "*"
        if self.tail:
            picked.append(">")
        return "/".join(picked)

    def covers(self, levels: Sequence[str]) -> str | None:
        """Return the filter of this shape that covers the filter with these levels, or None."""
        return self.applied_to(levels) if self.has_room_for(levels, _wild(levels)) else None

    def has_room_for(self, levels: Sequence[str], wild: Sequence[int]) -> bool:
        """Return whether each wildcard of a filter has one of this shape in its place."""
        if levels[-1] == ">" and not self.tail:
            return False
        return all(at in self.stars for at in wild if at < self.levels) and (
            len(levels) > self.levels if self.tail else len(levels) == self.levels
        )

    @property
    def literals(self) -> int:
        """How many levels are spelled out."""
        return self.levels - len(self.stars)

    @property
    def starts_wild(self) -> bool:
        """Whether the first level is a wildcard: such a filter matches no `$` address."""
        return 0 in self.stars or (self.tail and self.levels == 0)


@dataclass(slots=True)
class ShapeIndex:
    """The wildcard shapes in use, and the few filters that had to be widened.

    The filters themselves stay with the caller, who passes them to `match`.

    Attributes:
        most: How many shapes are looked up individually; any beyond are surplus.
        shapes: How many filters there are of each wildcard shape.
        widened: For each surplus filter the wider one that it is merged under.
    """

    most: int = SHAPES_MAX
    shapes: dict[Shape, int] = field(default_factory=dict)
    widened: dict[str, str] = field(default_factory=dict)

    def add(self, filter_: str) -> None:
        """Add a filter that was not there before."""
        shape = Shape.of(filter_)
        if shape.is_literal:
            return
        if shape not in self.shapes and len(self.shapes) >= self.most:
            wider = self._widened(filter_)
            self.widened[filter_] = wider
            shape = Shape.of(wider)
        self.shapes[shape] = self.shapes.get(shape, 0) + 1

    def remove(self, filter_: str) -> None:
        """Forget a filter that was there."""
        wider = self.widened.pop(filter_, None)
        shape = Shape.of(wider or filter_)
        if shape.is_literal:
            return
        left = self.shapes[shape] - 1
        if left:
            self.shapes[shape] = left
        else:
            del self.shapes[shape]

    def match(self, subject: str, filters: Container[str], merged: Container[str] = ()) -> Matched:
        """Return the filters that match a subject."""
        found = {subject: None} if subject in filters else {}
        wider: dict[str, None] = {}
        levels = subject.split("/")
        hidden = subject.startswith("$")
        for shape in self.shapes:
            if hidden and shape.starts_wild:
                continue
            candidate = shape.applied_to(levels)
            if candidate is None:
                continue
            if candidate in merged:
                wider[candidate] = None
            if candidate in filters and candidate not in self.widened:
                found[candidate] = None
        return sorted(found), sorted(wider)

    def _widened(self, filter_: str) -> str:
        levels = filter_.split("/")
        wild = _wild(levels)
        best: Shape | None = None
        for shape in self.shapes:
            is_better = best is None or (-shape.literals, shape) < (-best.literals, best)
            if is_better and shape.has_room_for(levels, wild):
                best = shape
        return _CATCH_ALL if best is None else best.applied_to(levels) or _CATCH_ALL


def _wild(levels: Sequence[str]) -> Sequence[int]:
    return [at for at, level in enumerate(levels) if level in ("*", ">")]
