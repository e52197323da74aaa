"""With filters of more shapes than nodes look up, endpoints may get what they did not ask for.

It is the one exception to exactness. Spec: DESIGN 3.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.tables.filters import SHAPES_MAX
from tests.component.streaming.plain_bench import PlainBench
from tests.streaming.planted import ROUTE, Plant

SHAPES = [
    f"{number:07b}".replace("0", "x/").replace("1", "*/").removesuffix("/")
    for number in range(1, SHAPES_MAX + 2)
]


@pytest.fixture
def plant() -> Plant:
    made = Plant()
    made.identities()
    made.want_all()
    return made


@pytest.mark.parametrize("letter", ["g", "d"])
def test_what_comes_by_a_widened_filter_is_no_fault(
    plant: Plant, tmp_path: Path, letter: str
) -> None:
    """Nor is it once others have left theirs. Who asks for one subject is sent that alone."""
    bench = PlainBench(None, plant, tmp_path)
    for one in SHAPES:
        plant.subscribe("c", "hostile", one)
    plant.cuts_everywhere("c", plant.subscribe("c", "calm", "other"))

    def come(*endpoints: str) -> None:
        offsets = plant.publish("a", "acme/x", 3, letter=letter)
        for endpoint in endpoints:
            plant.deliver(endpoint, offsets, ROUTE[:3], origin=f"a.in.{letter}")
        plant.progress("a", f"a.in.{letter}", 0, offsets[-1] + 1)

    come("c/hostile", "c/calm")
    bench.settle()
    for one in SHAPES[:-1]:
        plant.subscribe("c", "hostile", one, None)
    come("c/hostile")
    bench.settle()
    found = bench.auditor.state.register.findings.values()
    assert [(str(one.kind), one.endpoint) for one in found] == [("unexpected", "c/calm")]
