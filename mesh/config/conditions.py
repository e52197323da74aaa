"""Whether a text is a condition in CEL, and in one line why not. Spec: EMS-14.

What a condition says of a message is decided elsewhere: the auditor reads files too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mesh.model.selectors import CONDITION_CHARS_MAX, HEADERS, SUBJECT

if TYPE_CHECKING:
    from cel import Program

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


def condition_fault(text: str) -> str | None:
    """Return in one line why a text is no condition, or None if it is one."""
    from cel import compile as compile_condition  # noqa: PLC0415 - takes long, and few need it

    if len(text) > CONDITION_CHARS_MAX:
        return f"the condition has {len(text)} characters; at most {CONDITION_CHARS_MAX} may be"
    try:
        program = compile_condition(text)
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
