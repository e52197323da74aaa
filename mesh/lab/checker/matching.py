"""Which filter wants which subject, written a second time on purpose. Spec: DESIGN 2, K26."""

from __future__ import annotations


def wants(filter_: str, subject: str) -> bool:
    """Return whether a filter matches a subject: `*` is one level, a trailing `>` one or more."""
    pattern, levels = filter_.split("/"), subject.split("/")
    if levels[0].startswith("$") and pattern[0] in ("*", ">"):
        return False
    while pattern and levels:
        if pattern == [">"]:
            return True
        if pattern[0] not in ("*", levels[0]):
            return False
        pattern, levels = pattern[1:], levels[1:]
    return not pattern and not levels
