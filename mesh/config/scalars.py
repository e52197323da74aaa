"""What plain YAML text means: the core schema of YAML 1.2 and nothing else, and durations."""

from __future__ import annotations

import re

_NUMBER_LENGTH_MAX = 30
"""Longer digits are text: no setting needs them, and reading them takes quadratic time."""

_NULL = ("", "~", "null", "Null", "NULL")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_OF_EARLIER = re.compile(
    r"[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
)

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

DURATION_RULE = "a number with its unit: 500ms, 5s, 10m, 1h or 7d"


def plain_value(text: str) -> str | int | float | bool | None:
    """Return the value of unquoted text; what is no null, boolean or number is text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) > _NUMBER_LENGTH_MAX:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def needs_quotes(text: str) -> bool:
    """Return whether readers of YAML 1.1, as PyYAML and Helm, take plain text for something else.

    `no` and `on` are booleans there, and `1:30` is 90.
    """
    return _OF_EARLIER.fullmatch(text) is not None


def duration_s(text: str) -> float | None:
    """Return a duration such as `1h` in seconds, to the millisecond, or None if it is not one."""
    match = _DURATION.fullmatch(text)
    return round(float(match[1]) * _UNIT_S[match[2]], 3) if match else None
