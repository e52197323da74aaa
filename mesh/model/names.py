"""The rule that names of nodes, zones, Kafka clusters and endpoints follow. Spec: DESIGN 3."""

from __future__ import annotations

import re

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9-]{0,63}"
"""No dot and no underscore: Kafka cannot tell topics apart that differ in these only."""

NAME_RULE = "a letter or digit, then at most 63 letters, digits or hyphens"

RESERVED_NAMES = ("audit", "config")
"""Topics `mesh.audit.*` and `mesh.config` belong to no node."""

PREFIX_LENGTH_MAX = 64
"""With two names and the fixed parts a topic name stays below Kafka's 249 characters."""

_NAME = re.compile(NAME_PATTERN)
_PREFIX = re.compile(rf"{NAME_PATTERN}(?:\.{NAME_PATTERN})*\.")


def fold(name: str) -> str:
    """Return the form in which names are compared: unique ignoring case."""
    return name.casefold()


def name_fault(name: str) -> str | None:
    """Return why a text is not a name, or None if it is one.

    Spec: DESIGN 3.
    """
    if not name:
        return f"a name is empty; write {NAME_RULE}"
    if _NAME.fullmatch(name) is None:
        return f"{name[:80]!r} is not a name; write {NAME_RULE}"
    if fold(name) in RESERVED_NAMES:
        return f"{name!r} is reserved; choose another name"
    return None


def prefix_fault(prefix: str) -> str | None:
    """Return why a text cannot start the names of topics, or None if it can.

    Spec: kafka.md 1.
    """
    if len(prefix) > PREFIX_LENGTH_MAX:
        return f"has {len(prefix)} characters; at most {PREFIX_LENGTH_MAX} are allowed"
    if _PREFIX.fullmatch(prefix) is None:
        return (
            f"{prefix!r} is not a topic prefix; write names that each end with a dot, as in mesh."
        )
    return None
