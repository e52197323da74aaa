"""Selectors: conditions that messages must meet to leave on a link. Spec: EMS-14."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SUBJECT, HEADERS = "subject", "headers"
"""The two names that a condition may use."""

CONDITION_CHARS_MAX = 1_000
"""Longest condition: a person wrote it, and every message may be checked against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A condition on one direction of a link; several on one direction must all hold.

    Attributes:
        source: The end that messages leave; it decides.
        target: The other end.
        when: The condition, in CEL over `subject` and `headers`.
    """

    source: str
    target: str
    when: str


def by_direction(selectors: Iterable[Selector]) -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the conditions by (source, target), in the order of the file."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in selectors:
        found.setdefault((one.source, one.target), []).append(one.when)
    return found
