"""Every scenario of the source has a test that bears its number; some run on real brokers.

Spec: tree_layer 11.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.kafka.test_scenarios import CHOSEN

TESTS = Path(__file__).parents[2]
EXAMPLES = TESTS.parent / "examples/scenarios"
ON_KAFKA = frozenset({8, 14, 26, 31, 34, 36, 42, 53})
"""Those that must be among the ones that example files play on real brokers."""

PLACES = [
    *Path(__file__).parent.glob("test_*.py"),
    *(TESTS / "component/worker/trees").glob("test_*.py"),
]
PLAYED = re.compile(r"scenarios? ([\d, and]+)\)")
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


def test_a_dozen_and_more_are_played_on_real_brokers() -> None:
    """The first line of a file tells which; four files are played by default."""
    played = {}
    for path in EXAMPLES.glob("roles-*.yaml"):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        found = PLAYED.search(first)
        played[path.stem] = {int(one) for one in re.findall(r"\d+", found[1])} if found else set()
    every = set().union(*played.values())
    assert every >= ON_KAFKA
    assert len(every) >= 12
    assert sum(bool(played.get(name)) for name in CHOSEN) >= 4
