"""Subjects and filters: which ones are valid, and the only `matches`.

Levels are separated by `/`. In a filter `*` stands for one whole level and `>`, at the end, for
one or more. Spec: K7, K26, DESIGN 2.
"""

from __future__ import annotations

import re

from mesh.errors import SubjectError

LEVELS_MAX = 16
BYTES_MAX = 250

ANY_LEVEL = "*"
ANY_REST = ">"
_WILDCARDS = (ANY_LEVEL, ANY_REST)
_UNWANTED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def matches(filter_: str, subject: str) -> bool:
    """Return whether a valid filter selects a valid subject.

    Wildcards never match a first level that starts with `$`, so `>` does not select the
    addresses of nodes.

    Spec: K26.
    """
    wanted = filter_.split("/")
    levels = subject.split("/")
    if subject.startswith("$") and wanted[0] in _WILDCARDS:
        return False
    if wanted[-1] == ANY_REST:
        wanted.pop()
        if len(levels) <= len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(want in (ANY_LEVEL, level) for want, level in zip(wanted, levels, strict=False))


def overlap(one: str, other: str) -> bool:
    """Return whether some subject is selected by both of two valid filters.

    A subject counts as the filter that selects it alone.
    """
    first, second = one.split("/"), other.split("/")
    starts = (first[0], second[0])
    if any(level.startswith("$") for level in starts) and any(s in _WILDCARDS for s in starts):
        return False
    for mine, its in zip(first, second, strict=False):
        if ANY_REST in (mine, its):
            return True
        if mine != its and ANY_LEVEL not in (mine, its):
            return False
    return len(first) == len(second)


def subject_fault(subject: str) -> str | None:
    """Return why clients may not publish to a subject, or None if they may.

    Spec: K7.
    """
    fault = _address_fault(subject, "subject")
    if fault is not None:
        return fault
    for wildcard in _WILDCARDS:
        if wildcard in subject:
            return (
                f"subject {subject!r} has {wildcard!r} at position {subject.index(wildcard) + 1}; "
                "only filters have wildcards"
            )
    return None


def filter_fault(filter_: str) -> str | None:
    """Return why clients may not subscribe with a filter, or None if they may.

    Spec: K7, K13, DESIGN 2.
    """
    fault = _address_fault(filter_, "filter")
    if fault is not None:
        return fault
    levels = filter_.split("/")
    for number, level in enumerate(levels, start=1):
        if level == ANY_REST and number < len(levels):
            return f"filter {filter_!r} has '>' at level {number}; it may only be the last level"
        for wildcard in _WILDCARDS:
            if wildcard in level and level != wildcard:
                return (
                    f"filter {filter_!r} has {wildcard!r} inside level {number}; "
                    "a wildcard is a whole level"
                )
    return None


def check_subject(subject: str) -> str:
    """Return the subject if a client may publish to it.

    Raises:
        SubjectError: It is not a valid subject; the text says why.
    """
    if (fault := subject_fault(subject)) is not None:
        raise SubjectError(fault)
    return subject


def check_filter(filter_: str) -> str:
    """Return the filter if a client may subscribe with it.

    Raises:
        SubjectError: It is not a valid filter; the text says why.
    """
    if (fault := filter_fault(filter_)) is not None:
        raise SubjectError(fault)
    return filter_


def _address_fault(text: str, noun: str) -> str | None:
    """Return the fault that subjects and filters have in common, or None."""
    if not text:
        return f"{noun} is empty; write levels separated by '/'"
    if (found := _UNWANTED.search(text)) is not None:
        return (
            f"{noun} has the control character or lone surrogate U+{ord(found[0]):04X} "
            f"at position {found.start() + 1}; remove it"
        )
    size = len(text.encode())
    if size > BYTES_MAX:
        return f"{noun} has {size} bytes in UTF-8; at most {BYTES_MAX} are allowed"
    levels = text.split("/")
    if len(levels) > LEVELS_MAX:
        return f"{noun} {text!r} has {len(levels)} levels; at most {LEVELS_MAX} are allowed"
    if "" in levels:
        number = levels.index("") + 1
        return f"{noun} {text!r} has an empty level {number}; write text between the slashes"
    if text.startswith("$"):
        return f"{noun} {text!r} starts with '$'; such addresses belong to the mesh"
    return None
