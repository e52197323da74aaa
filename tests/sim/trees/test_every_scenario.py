"""Every scenario of the source has a test that bears its number. Spec: tree_layer 11."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PLACES = [
    *Path(__file__).parent.glob("test_*.py"),
    TESTS / "component/runtime/test_tree_service.py",
]
NAMED = re.compile(r"^def test_((?:\d\d_)+)", re.MULTILINE)


def test_all_fifty_six_have_a_test() -> None:
    """Those that two numbers share have one test for both."""
    found = {
        int(number)
        for path in PLACES
        for names in NAMED.findall(path.read_text(encoding="utf-8"))
        for number in names.split("_")
        if number
    }
    assert found == set(range(1, 57))
