"""Whether a text is a condition in CEL, and in one line why not. Spec: EMS-14.

What a condition says of a message is decided elsewhere: the auditor reads files too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
_TEXT = r"""[rR]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_PATTERN = re.compile(rf"\bmatches\s*\((?:[^()]*,)?\s*({_TEXT})\s*\)", re.DOTALL)
_HEADER = re.compile(rf"""\b{HEADERS}\s*(?:\.\s*(\w+)|\[\s*["']([^"']*)["']\s*\])""")
_BAD_PATTERN = re.compile(r"Function 'matches' error: '(.*)' not a valid regex:(.*)", re.DOTALL)
_BAD_CALL = re.compile(r"Undefined variable or function: '(\w+)'")


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
    for pattern in _PATTERN.findall(text):
        # Asked alone: in the whole another part may have the answer first.
        if (fault := _fault_of(compile_condition(f"'a'.matches({pattern})"), {})) is not None:
            return fault
    headers = {one or other: "1" for one, other in _HEADER.findall(text)}
    if (fault := _fault_of(program, headers)) is not None:
        return fault
    try:
        answer = program.execute({SUBJECT: "a", HEADERS: headers})
    except Exception:  # noqa: BLE001 - this message has no answer; others may have one
        return None
    if isinstance(answer, bool):
        return None
    return "the condition is neither true nor false; compare with something, as in subject == 'a'"


def _fault_of(program: Program, headers: Mapping[str, str]) -> str | None:
    """Return why no message at all can have an answer, as far as one message shows it.

    That a number does not parse or something is missing shows nothing: the next message may do.
    """
    try:
        program.execute({SUBJECT: "a", HEADERS: headers})
    except TypeError:
        return (
            "the condition mixes kinds that do not go together; subject and headers are text, "
            "so compare them with text, or write int(headers.x) > 3"
        )
    except Exception as error:  # noqa: BLE001 - see above
        if (found := _BAD_PATTERN.search(str(error))) is not None:
            pattern, why = found[1][:60], found[2].split(". Check function")[0]
            why = why.rpartition("error:")[2].strip().rstrip(".") or "not valid"
            return f"{pattern!r} is not a regular expression: {why}; correct what matches() gets"
        if (found := _BAD_CALL.search(str(error))) is not None:
            return f"the condition calls {found[1]}() with what it does not take; correct that"
    return None


def _located(error: str) -> str:
    """Return a parser's complaint in one line."""
    found = _FAULT.search(error)
    if found is None:
        return "the condition does not parse"
    line, column, what = found.groups()
    place = f"character {column}" if line == "1" else f"line {line}, character {column}"
    if "Recursion limit" in what:
        return "the condition is nested too deeply; write it with fewer brackets"
    complaint = what.partition(" expecting ")[0].removeprefix("Syntax error: ")
    return f"the condition does not parse at {place}: {complaint}"


def _unknown(program: Program) -> Iterator[str]:
    bound = dict.fromkeys(_BINDING.findall(program.source))
    for name in program.variables():
        if name not in (SUBJECT, HEADERS, *_TYPES) and name not in bound:
            yield name
    for name in program.functions():
        if name not in FUNCTIONS and _OPERATOR.search(name) is None:
            yield f"{name}()"
