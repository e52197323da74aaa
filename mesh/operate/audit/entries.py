"""Records of the auditor's topics, read as what a stranger may have written. Spec: K29, DESIGN 4.

Every field that is counted, looked up or iterated over has the type that its JSON schema says, or
is left out; a record without its required fields is ignored. Other fields stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

Entry = Mapping[str, Any]

NUMBER_MAX = 2.0**53
"""Beyond, numbers of JSON are not exact, and moments are in no calendar."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "findings": ("kind",),
    "certificates": ("endpoint", "equal"),
    "canaries": ("way", "sent", "arrived", "lost"),
    "links": ("messages", "frames", "repairs", "direct", "direct_read"),
    "minutes": ("from_ms", "minutes"),
    "link-hours": ("from_ms", "minutes"),
    "subscriptions": ("endpoint", "filter", "kind", "class", "from_ms", "to_ms"),
}
"""Without these a record of a table says nothing."""


def number(value: object) -> float:
    """Return a number from a record, 0 if it is not one."""
    return float(value) if isinstance(value, (int, float)) else 0.0


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    """Return a number; one that is too large could not be written as JSON."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is larger than any number")
    return number


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and abs(value) < NUMBER_MAX  # type: ignore[arg-type]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _is_sources(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict) and _is_number(one.get("read_ms") or 0) for one in value.values()
    )


def _is_waiting(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and _is_text(one.get("source"))
        and _is_text(one.get("endpoint"))
        and _is_number(one.get("block", 0))
        for one in value
    )


_TYPES: Mapping[Callable[[object], bool], str] = {
    _is_text: "kind text endpoint link path source id node rule what_to_do run kafka filter class "
    "way",
    _is_flag: "equal partial sure is_news final noexport",
    _is_number: "first last count first_seen_ms last_seen_ms block from to expected delivered "
    "first_ms last_ms at_ms uncertified batch messages frames repairs direct direct_read "
    "messages_per_s certificates differing unsure from_ms to_ms minutes guaranteed "
    "guaranteed_bytes direct_bytes control waited sent arrived lost latency_ms slowest_ms "
    "findings more_endpoints partitions offsets",
    _is_texts: "ids evidence endpoints for",
    _is_counts: "dropped not_forwarded",
    _is_mapping: "positions",
    _is_sources: "sources",
    _is_waiting: "waiting",
}

TYPES: Mapping[str, Callable[[object], bool]] = {
    field: is_right for is_right, fields in _TYPES.items() for field in fields.split()
}
"""What each field must be, whatever table it stands in."""


def entry_of(table: str, value: bytes) -> Entry | None:
    """Return the content of a record, or None if it does not belong to that table.

    Args:
        table: As in `<prefix>audit.<table>`.
        value: The record's value.
    """
    try:
        text = value.decode()
        said = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\ud" in text.lower():  # half a surrogate pair could not be written again
            json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    entry = {
        field: one
        for field, one in said.items()
        if field not in TYPES or one is None or TYPES[field](one)
    }
    if any(entry.get(field) is None for field in NEEDED.get(table, ())):
        return None
    # Null is kept only in texts: counting and iterating find nothing then.
    return {
        field: one
        for field, one in entry.items()
        if one is not None or TYPES.get(field, _is_text) is _is_text
    }
