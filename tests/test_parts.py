"""The suite says in its end where its time went."""

from __future__ import annotations

from dataclasses import dataclass

from tests.parts import durations, part_of


@dataclass
class Phase:
    nodeid: str
    duration: float


def test_seconds_are_added_up_by_part_longest_first() -> None:
    """Set-up counts to the test that waited for it; a test counts once."""
    told = durations(
        [
            Phase("tests/unit/core/test_a.py::test_a", 1.0),
            Phase("tests/kafka/test_b.py::test_b[x/y]", 2.0),
            Phase("tests/kafka/test_b.py::test_b[x/y]", 0.5),
            Phase("tests/unit/core/test_a.py::test_c", 0.25),
        ]
    )
    assert [line.split() for line in told] == [
        ["2.5", "s", "1", "tests", "kafka"],
        ["1.2", "s", "2", "tests", "unit"],
    ]


def test_parts_are_folders() -> None:
    assert part_of("tests/sim/swarm/test_swarm.py::test_x") == "sim/swarm"
    assert part_of("tests/sim/test_exact.py::test_x") == "sim"
    assert part_of("tests/test_tidy.py::test_x") == "tests"
