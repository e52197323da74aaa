"""Conditions in CEL over a message's subject and headers, compiled once. Spec: EMS-14.

Whether a text is a condition, `mesh.config.conditions` says. A condition is pure: it has no clock,
no state and no loop without end, so the same message always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from mesh.model.record_headers import Headers
from mesh.model.selectors import HEADERS, SUBJECT


class Program(Protocol):
    """The part of a compiled condition that is used; importing the library itself takes long."""

    def execute(self, context: dict[str, object]) -> object:
        """Return the result for the values of the names."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One compiled condition.

    Attributes:
        text: As it was written.
        asks_headers: Whether the result may differ between messages of one subject.
    """

    text: str
    asks_headers: bool
    _program: Program = field(repr=False, compare=False)

    def holds(self, subject: str, headers: Mapping[str, str]) -> bool:
        """Return whether a message meets it; a message for which it fails to evaluate does not."""
        try:
            return self._program.execute({SUBJECT: subject, HEADERS: headers}) is True
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - the library's own panics are no Exception
            return False


@lru_cache(maxsize=4_096)
def condition(text: str) -> Condition:
    """Return a condition in which `condition_fault` finds no fault, compiled once.

    Raises:
        ValueError: It does not parse.
    """
    from cel import compile as compile_condition  # noqa: PLC0415 - takes long, and few need it

    program = compile_condition(text)
    return Condition(text, HEADERS in program.variables(), program)


def selects_subject(conditions: Sequence[Condition], subject: str) -> bool:
    """Return whether a subject meets those conditions that depend on nothing else.

    A message with an address of the mesh as its subject is no publication: it always does.
    """
    return subject.startswith("$") or all(
        one.asks_headers or one.holds(subject, {}) for one in conditions
    )


def needs_headers(conditions: Sequence[Condition], subject: str) -> bool:
    """Return whether it takes a message's headers to tell if it meets all conditions."""
    return not subject.startswith("$") and any(one.asks_headers for one in conditions)


def first_refusing(
    conditions: Sequence[Condition], subject: str, headers: Mapping[str, str]
) -> Condition | None:
    """Return the first condition that a message does not meet, or None."""
    if subject.startswith("$"):
        return None
    return next((one for one in conditions if not one.holds(subject, headers)), None)


def header_texts(headers: Headers) -> Mapping[str, str]:
    """Return headers as conditions see them: the first value of each name, if it is text."""
    found: dict[str, str] = {}
    seen: dict[str, None] = {}
    for name, value in headers:
        if name in seen:
            continue
        seen[name] = None
        if value is not None:
            try:
                found[name] = value.decode()
            except UnicodeDecodeError:
                continue
    return found
