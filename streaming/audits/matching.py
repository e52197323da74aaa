"""The auditor's own reading of subjects and filters: filters as regular expressions.

It shares no code with the mesh's, so that a bug of the one does not hide in the other.
Spec: K7, K26, K31.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from streaming.tables.filters import LEVELS_MAX, SUBJECT_PATTERN
from streaming.tables.rows import SUBJECT_BYTES_MAX

MEMO_MAX = 65_536
"""Compiled filters and judged subjects that are kept."""

_LEVEL = r"[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
_SUBJECT = re.compile(rf"(?!\$){_LEVEL}(?:/{_LEVEL})*")
_WILDCARD = re.compile(r"[*>]")


@lru_cache(maxsize=MEMO_MAX)
def is_subject(subject: str) -> bool:
    """Return whether a client may publish to it. Spec: K7."""
    return _is_address(subject) and _WILDCARD.search(subject) is None


@lru_cache(maxsize=MEMO_MAX)
def is_filter(filter_: str) -> bool:
    """Return whether a client may subscribe with it. Spec: K7, K13."""
    levels = filter_.split("/")
    has_whole_wildcards = all(
        _WILDCARD.search(level) is None or level in ("*", ">") for level in levels
    )
    return _is_address(filter_) and has_whole_wildcards and ">" not in levels[:-1]


def _is_address(text: str) -> bool:
    size = len(text.encode(errors="replace"))
    is_short = text.count("/") < LEVELS_MAX and size <= SUBJECT_BYTES_MAX
    return is_short and _SUBJECT.fullmatch(text) is not None


@lru_cache(maxsize=MEMO_MAX)
def _compiled(filter_: str) -> re.Pattern[str]:
    levels = filter_.split("/")
    is_open = levels[-1] == ">"
    closed = levels[:-1] if is_open else levels
    patterns = ["[^/]+" if level == "*" else re.escape(level) for level in closed]
    if is_open:
        patterns.append("[^/]+(?:/[^/]+)*")
    # Addresses of the mesh itself are no answer to a wildcard in the first level.
    guard = r"(?!\$)" if levels[0] in ("*", ">") else ""
    return re.compile(guard + "/".join(patterns))


@lru_cache(maxsize=MEMO_MAX)
def selects(filter_: str, subject: str) -> bool:
    """Return whether a valid filter selects a valid subject. Spec: K26."""
    return _compiled(filter_).fullmatch(subject) is not None


def claim_pattern(filters: Iterable[str], joins: Iterable[str], kept: Iterable[str]) -> str:
    """Return one regular expression for Java of the subjects that are claimed.

    Args:
        filters: One of them must select a subject; like the others, they are valid.
        joins: Each of them must.
        kept: None of them may.
    """
    is_form = SUBJECT_PATTERN.removeprefix("\\A")
    needed = "".join(f"(?=(?:{_compiled(one).pattern})\\z)" for one in joins)
    barred = "".join(f"(?!(?:{_compiled(one).pattern})\\z)" for one in kept)
    told = "|".join(_compiled(one).pattern for one in dict.fromkeys(filters))
    return f"\\A(?={is_form}){needed}{barred}(?:{told or '(?!)'})\\z"


def pattern_of(filters: Iterable[str]) -> str:
    """Return one regular expression, for Java as for Python, of what valid filters select."""
    told = "|".join(_compiled(one).pattern for one in dict.fromkeys(filters))
    return f"\\A(?:{told or '(?!)'})\\z"
