"""The same scenario files on real brokers and worker processes: the same transfers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesh.lab.real import RealBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario, load_scenario
from mesh.lab.simulated import SimulatedBackend
from tests.conftest import ClustersOf
from tests.kafka.fleets import EXAMPLES, fleet_for

pytestmark = pytest.mark.kafka

CHOSEN = [
    "fig36",
    "clusters-relay-gateway",
    "link-cut",
    "link-disabled",
    "direct",
    "um-example-1",
    "apply-add-node",
    "queue-any-stranded",
    "roles-heal",
    "roles-null",
    "roles-lead",
    "roles-bridge",
]
OWN_BROKERS = ("broker-down", "kills", "storm")
"""They kill brokers, so they run on their own: `make lab`, `make storm`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "example" in metafunc.fixturenames:
        names: Sequence[str] = CHOSEN
        if metafunc.config.getoption("all_examples"):
            found = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
            names = [name for name in found if name not in OWN_BROKERS]
        metafunc.parametrize("example", names)


def transfers(result: Mapping[str, object]) -> tuple[object, object]:
    links = {name: link["messages"] for name, link in result["links"].items()}
    endpoints = {
        name: (e["count"], e["distinct"], e["missing"], e["disordered"], e["paths"])
        for name, e in result["endpoints"].items()
    }
    return links, endpoints


def run_on_kafka(
    name: str, addresses: Sequence[str], directory: Path, *, audit: bool = False
) -> tuple[Scenario, Mapping[str, Any]]:
    """Return an example scenario and what became of it; a step that fails ends it."""
    scenario, fleet = fleet_for(EXAMPLES / f"{name}.yaml", addresses, directory)
    scenario = replace(scenario, audit=scenario.audit and audit)
    try:
        backend = RealBackend(fleet)
        result = run_scenario(scenario, backend, backend_name="kafka", report=pytest.fail)
        backend.close()
    finally:
        fleet.stop()
    assert [step for step in result["steps"] if not step["ok"]] == []
    return scenario, result


def test_real_kafka_agrees_with_the_simulator(
    example: str, kafka_clusters: ClustersOf, tmp_path: Path
) -> None:
    """Spec: lab.md 2 (both backends agree)."""
    needed = len(load_scenario(EXAMPLES / f"{example}.yaml").topology.kafka)
    scenario, real = run_on_kafka(example, kafka_clusters(max(3, needed)), tmp_path)
    simulated = run_scenario(scenario, SimulatedBackend.of(scenario), backend_name="sim")
    assert transfers(real) == transfers(simulated)
    assert real["not_forwarded"].keys() == simulated["not_forwarded"].keys()
