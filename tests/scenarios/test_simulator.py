"""Every example scenario holds on the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_scenario(path: Path) -> None:
    """Spec: EMS-1..10, EMS-13, DMR-1..6, UM-4, UM-5; the file names which."""
    scenario = load_scenario(path)
    result = run_scenario(scenario, SimulatedBackend.of(scenario), backend_name="sim")
    assert [step for step in result["steps"] if not step["ok"]] == []
    assert all(e["missing"] == e["duplicates"] == 0 for e in result["endpoints"].values())
