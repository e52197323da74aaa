"""Subjects that the same filters select, combined on the JVM. Spec: K26, K31.

A matcher of its own: each shape of filters turns a subject into one text, and that text is a
requested filter, or not. So a subject costs as much as there are shapes, whatever the filters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from streaming.tables.filters import LITERAL, SUBJECT_PATTERN, Shape

BETWEEN = "\n"
"""Separates the filters of a bundle: no filter contains it."""


@dataclass(frozen=True)
class Bundles:
    """How subjects are combined.

    Attributes:
        filters: Filters that distinguish them, by shape.
        known: About a filter with this number or a higher one nothing is known.
    """

    filters: Mapping[Shape, Sequence[str]]
    known: int

    @property
    def count(self) -> int:
        """Return how many filters there are."""
        return sum(map(len, self.filters.values()))

    @cached_property
    def column(self) -> Column:
        """Return for the column `subject` the filters that select it; null if it is no subject."""
        levels = "split(subject, '/', -1)"
        told = ", ".join(
            f"if({_text(shape, levels)} in ({', '.join(map(_quoted, filters))}),"
            f" {_text(shape, levels)}, null)"
            for shape, filters in self.filters.items()
        )
        selected = f"concat_ws({_quoted(BETWEEN)}, {told})"
        return F.expr(f"case when subject rlike r'{SUBJECT_PATTERN}' then {selected} end")


def _text(shape: Shape, levels: str) -> str:
    """Return the text of a subject as a filter of a shape, or null."""
    if shape == LITERAL:
        return "subject"
    count = len(shape.stars)
    named = ["'*'" if star else f"get({levels}, {at})" for at, star in enumerate(shape.stars)]
    rest = ["'>'"] if shape.is_open else []
    text = f"concat_ws('/', {', '.join([*named, *rest])})"
    is_fit = f"size({levels}) {'>' if shape.is_open else '='} {count}"
    return f"if({is_fit}, {text}, null)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
