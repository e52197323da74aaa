"""With filters of more shapes than nodes look up, endpoints may get what they did not ask for.

It is the one exception to exactness; queues get less instead. Spec: DESIGN 3.
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


def test_what_a_queue_does_not_get_by_a_surplus_filter_is_not_missing(
    plant: Plant, tmp_path: Path
) -> None:
    """Its node takes so many shapes of wildcards for its queues. The others it owes all the same."""
    bench = PlainBench(None, plant, tmp_path)
    for one in SHAPES:
        plant.subscribe("c", "hostile", one, b'{"kind": "queue"}')
    plant.subscribe("b", "calm", "x/*/x/x/x/x/x", b'{"kind": "queue"}')
    for node in "bc":
        plant.cuts_everywhere(node, len(plant.logs[f"mesh.{node}.clients", 0]) - 1)
    plant.carry(3, [], subject="x/x/x/x/x/x/x")
    bench.settle()
    found = bench.auditor.state.register.findings.values()
    assert [(str(one.kind), one.endpoint) for one in found] == [("missing", "b/calm")]
