"""The same scenario files on real brokers and worker processes: the same transfers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh.lab.backend import SimulatedBackend
from mesh.lab.real import RealBackend
from mesh.lab.run import run_scenario
from tests.conftest import ClustersOf
from tests.kafka.fleets import EXAMPLES, fleet_for

pytestmark = pytest.mark.kafka

CHOSEN = [
    "fig34-one-hop",
    "fig36",
    "clusters-relay-gateway",
    "node-down",
    "link-cut",
    "link-disabled",
    "direct",
    "um-example-1",
    "um-two-way",
    "ems-12",
    "queue-any-stranded",
]


def transfers(result: Mapping[str, object]) -> tuple[object, object]:
    links = {name: link["messages"] for name, link in result["links"].items()}
    endpoints = {
        name: (e["count"], e["distinct"], e["missing"], e["disordered"], e["paths"])
        for name, e in result["endpoints"].items()
    }
    return links, endpoints


@pytest.mark.parametrize("name", CHOSEN)
def test_real_kafka_agrees_with_the_simulator(
    name: str, kafka_clusters: ClustersOf, tmp_path: Path
) -> None:
    """Spec: lab.md 2 (both backends agree)."""
    scenario, fleet = fleet_for(EXAMPLES / f"{name}.yaml", kafka_clusters(3), tmp_path)
    try:
        backend = RealBackend(fleet)
        real = run_scenario(scenario, backend, backend_name="kafka")
        backend.close()
    finally:
        fleet.stop()
    simulated = run_scenario(
        scenario, SimulatedBackend(scenario.topology, scenario.seed), backend_name="sim"
    )
    assert [step for step in real["steps"] if not step["ok"]] == []
    assert transfers(real) == transfers(simulated)
    assert real["not_forwarded"].keys() == simulated["not_forwarded"].keys()
