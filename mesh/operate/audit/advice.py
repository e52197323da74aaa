"""What to do about what the auditor finds: its own words, and the commands that show more."""

from __future__ import annotations

import re
from shlex import quote

from mesh.operate.audit.entries import Entry

_MESSAGE = re.compile(r"[^\s/]+/\d+(/\d+)?/\d+(-\d+)?", re.ASCII)

WITHOUT_ADVICE = "See docs/audit.md for what this rests on."
"""For findings of an auditor that gives none."""


def advice_for(finding: Entry) -> str:
    """Return what to do, in a sentence."""
    text = finding.get("what_to_do")
    return text if isinstance(text, str) and text else WITHOUT_ADVICE


def commands_for(finding: Entry) -> list[str]:
    """Return commands that show more about a finding."""
    ids, link = finding.get("ids"), finding.get("link")
    found: list[str] = []
    if isinstance(finding.get("id"), str):
        found.append(f"mesh audit explain {quote(str(finding['id']))}")
    if isinstance(ids, list) and ids and _MESSAGE.fullmatch(str(ids[0])):
        found.append(f"mesh trace {quote(first_id(str(ids[0])))}")
    if isinstance(link, str) and link:
        found.append("mesh links")
    return found or ["mesh audit report"]


def first_id(text: str) -> str:
    """Return the first message of an id or a range of them: `t/0/0/5` of `t/0/0/5-9`."""
    stem, slash, offsets = text.rpartition("/")
    return f"{stem}{slash}{offsets.partition('-')[0]}"
