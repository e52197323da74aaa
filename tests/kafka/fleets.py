"""Fleets on the shared brokers: each test gets its own prefix, so nothing is cleaned up."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML

from mesh.lab.scenario import Scenario, load_scenario
from mesh.lab.steps import Send, Step, Storm
from mesh.local.fleet import Fleet
from tests.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


def patient(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps; those that wait for a state do so with patience."""
    return tuple(
        one
        if isinstance(one, Send | Storm)  # their time is part of what comes of them
        else one.model_copy(update={"timeout": max(PATIENCE_S, one.timeout or 0)})
        for one in steps
    )


def fleet_for(
    path: Path, addresses: Sequence[str], directory: Path, *, lanes: int = 1
) -> tuple[Scenario, Fleet]:
    """Return an example scenario on these brokers, and its fleet; no node runs yet."""
    yaml = YAML(typ="safe")
    document = yaml.load(path)
    mesh = document["spec"]["mesh"]
    if "file" in mesh:
        topology = yaml.load(path.parent / mesh["file"])
    else:
        name = document["metadata"]
        topology = {"apiVersion": "mesh/v1", "kind": "Mesh", "metadata": name, "spec": mesh}
    spec = topology["spec"]
    spec["prefix"] = f"t{uuid.uuid4().hex[:8]}."
    spec["kafka"] = {
        name: {"bootstrap.servers": address}
        for name, address in zip(spec["kafka"], addresses, strict=False)
    }
    workers = document["spec"].get("workers", {})
    for name, node in spec["nodes"].items():
        node["lanes"] = max(lanes, workers.get(name, 1))
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "mesh.yaml"
    yaml.dump(topology, file)
    document["spec"]["mesh"] = {"file": str(file)}
    scenario_file = directory / "scenario.yaml"
    yaml.dump(document, scenario_file)
    scenario = load_scenario(scenario_file)
    fleet = Fleet.start(scenario.topology, file, directory)
    return replace(scenario, topology=fleet.topology, steps=patient(scenario.steps)), fleet
