"""The examples of Universal Messaging, down to the single transfer and its reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


@pytest.mark.parametrize(
    ("name", "transfers", "reasons"),
    [
        ("um-example-1", 4, {"arrival_link": 4, "arrival_zone": 3, "no_interest": 1}),
        ("um-example-2", 7, {"arrival_link": 7, "arrival_zone": 5, "no_interest": 1}),
        ("um-filter", 13, {"arrival_link": 13, "filter": 4, "no_interest": 11}),
        ("um-hop-limit", 20, {"arrival_link": 20, "join_hops": 2, "no_interest": 1}),
    ],
)
def test_each_transfer_and_each_reason(
    name: str, transfers: int, reasons: Mapping[str, int]
) -> None:
    """Spec: UM-2, UM-3, UM-5, UM-6, UM-10, lab.md 2 (`not_forwarded`)."""
    scenario = load_scenario(EXAMPLES / f"{name}.yaml")
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    assert sum(link["messages"] for link in result["links"].values()) == transfers
    assert result["not_forwarded"] == reasons


def test_no_interest_crosses_a_join() -> None:
    """Nor do addresses count as such. Spec: UM-5, lab.md 2 (`control`)."""
    scenario = load_scenario(EXAMPLES / "um-two-way.yaml")
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    links = run_scenario(scenario, backend, backend_name="sim")["links"]
    assert (links["d->b"]["control"], links["b->d"]["control"]) == (0, 0)
    assert links["d->f"]["control"] == 1
