"""Conditions in CEL over a message's subject and headers, compiled once. Spec: EMS-14.

The only module that sees the library. A condition is pure: it has no clock, no state and no loop
without end, so the same message always gets the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from mesh.model.selectors import CONDITION_CHARS_MAX

if TYPE_CHECKING:
    from cel import Program

SUBJECT, HEADERS = "subject", "headers"
"""The two names that a condition may use."""

Headers = Sequence[tuple[str, bytes | None]]
"""Client headers in order; names may repeat and values be None."""

FUNCTIONS = (
    *("size", "contains", "startsWith", "endsWith", "matches"),
    *("string", "int", "uint", "double", "bytes", "type", "dyn", "duration", "timestamp"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
"""What a condition may call, operators and macros apart."""

_TYPES = ("string", "int", "uint", "double", "bytes", "bool", "list", "map", "null_type")
_BINDING = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")
_FAULT = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_OPERATOR = re.compile(r"[_@!]")


@dataclass(frozen=True, slots=True)
class Condition:
    """One compiled condition.

    Attributes:
        text: As it was written.
        asks_headers: Whether the answer may differ between messages of one subject.
    """

    text: str
    asks_headers: bool
    _program: Program = field(repr=False, compare=False)

    def holds(self, subject: str, headers: Mapping[str, str]) -> bool:
        """Say whether a message meets it; one for which it cannot be answered does not."""
        try:
            return self._program.execute({SUBJECT: subject, HEADERS: headers}) is True
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - the library's own panics are no Exception
            return False


def condition_fault(text: str) -> str | None:
    """Return in one line why a text is no condition, or None if it is one."""
    if len(text) > CONDITION_CHARS_MAX:
        return f"the condition has {len(text)} characters; at most {CONDITION_CHARS_MAX} may be"
    try:
        program = _compiled(text)
    except ValueError as error:
        return _located(str(error))
    unknown = sorted(_unknown(program))
    if unknown:
        return (
            f"the condition uses {', '.join(unknown)}, which it does not know; there are "
            f"{SUBJECT}, {HEADERS} and the functions of CEL"
        )
    try:
        answer = program.execute({SUBJECT: "a", HEADERS: {}})
    except Exception:  # noqa: BLE001 - this message has no answer; others may have one
        return None
    if isinstance(answer, bool):
        return None
    return "the condition is neither true nor false; compare with something, as in subject == 'a'"


@lru_cache(maxsize=4_096)
def condition(text: str) -> Condition:
    """Return a condition in which `condition_fault` finds no fault, compiled once.

    Raises:
        ValueError: It does not parse.
    """
    program = _compiled(text)
    return Condition(text, HEADERS in program.variables(), program)


def selects_subject(conditions: Sequence[Condition], subject: str) -> bool:
    """Say whether a subject meets those conditions that ask for nothing else.

    What has an address of the mesh as its subject is no publication: it always does.
    """
    return subject.startswith("$") or all(
        one.asks_headers or one.holds(subject, {}) for one in conditions
    )


def needs_headers(conditions: Sequence[Condition], subject: str) -> bool:
    """Say whether only the headers of each message tell if it meets all conditions."""
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


def _compiled(text: str) -> Program:
    from cel import compile as compile_condition  # noqa: PLC0415 - takes long, and few need it

    return compile_condition(text)


def _located(error: str) -> str:
    """Return a parser's complaint in one line."""
    found = _FAULT.search(error)
    if found is None:
        return "the condition does not parse"
    line, column, what = found.groups()
    place = f"character {column}" if line == "1" else f"line {line}, character {column}"
    told = what.partition(" expecting ")[0].removeprefix("Syntax error: ")
    return f"the condition does not parse at {place}: {told}"


def _unknown(program: Program) -> Iterator[str]:
    bound = dict.fromkeys(_BINDING.findall(program.source))
    for name in program.variables():
        if name not in (SUBJECT, HEADERS, *_TYPES) and name not in bound:
            yield name
    for name in program.functions():
        if name not in FUNCTIONS and _OPERATOR.search(name) is None:
            yield f"{name}()"
