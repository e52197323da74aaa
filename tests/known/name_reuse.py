"""A node leaves the mesh and another comes under its name, while a link lags.

What waits on that link for the first comes to the second, which has it by another way. Frames that
are forwarded by the topology in their header would tell the two apart.
"""

from __future__ import annotations

from pathlib import Path

from mesh.lab.backend import SimulatedBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario

POINT = "a node's name that comes back"
FILE = Path(__file__).with_suffix(".yaml")


def run() -> str:
    """Return what is wrong, or nothing."""
    scenario = load_scenario(FILE)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    faults = [step["detail"] for step in result["steps"] if not step["ok"]]
    return "; ".join(str(one.get("error", one)) for one in faults)
