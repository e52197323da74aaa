"""Controls of interest in scenarios: what is owed, and what a storm cannot judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.topologies import Topologies
from mesh.model.interest_controls import ControlKind, InterestControl

PLAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abc"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    }
)
SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {{name: small}}
spec:
  mesh:
    kafka: {{k: {{}}}}
    nodes: {{a: {{}}, b: {{}}}}
    zones: {{Z: {{kind: multi-hop, links: [[a, b]]}}}}
    interest: [{controls}]
  steps:
    - subscribe: {{node: b, endpoint: s, filter: "x/>", noexport: {noexport}}}
{steps}
"""
STORM = "    - storm: {faults: [cut]}"


def written(folder: Path, steps: str, *, controls: str = "", noexport: bool = False) -> Path:
    path = folder / "scenario.yaml"
    text = SCENARIO.format(steps=steps, controls=controls, noexport=str(noexport).lower())
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_local_on_the_way_is_owed_to_nobody_behind_it() -> None:
    """Under what was in force at each moment. Spec: EMS-11, lab.md 2 (`missing`)."""
    control = InterestControl("b", ControlKind.LOCAL, "acme/>")
    found = Topologies([(-1, PLAIN), (5, replace(PLAIN, interest=(control,)))])
    assert found.carry("a", "c", "acme/x", (1, 2))
    assert not found.carry("a", "c", "acme/x", (6, 7))
    assert not found.carry("a", "c", "acme/x", (1, 7))
    assert found.carry("b", "b", "acme/x", (6, 7))
    assert found.carry("a", "c", "news", (6, 7))


@pytest.mark.parametrize(("noexport", "missing"), [(False, 11), (True, 4)])
def test_what_is_not_exported_is_owed_its_own_node_s_messages(
    tmp_path: Path, noexport: bool, missing: int
) -> None:
    """Here nothing at all is delivered: the node is killed before. Spec: DMR-12, lab.md 2."""
    steps = "\n".join(
        f"    - {step}"
        for step in (
            "settle: {}",
            "kill: {node: b}",
            "publish: {node: a, subject: x/1, count: 7}",
            "publish: {node: b, subject: x/1, count: 4}",
            "drain: {}",
        )
    )
    scenario = load_scenario(written(tmp_path, steps, noexport=noexport))
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    assert result["endpoints"]["b/s"]["missing"] == missing  # type: ignore[index]


def test_a_storm_refuses_what_its_checker_does_not_know(tmp_path: Path) -> None:
    load_scenario(written(tmp_path, STORM, controls="{node: a, static: x}"))
    with pytest.raises(ConfigError, match="does not know noexport: leave it out"):
        load_scenario(written(tmp_path, STORM, noexport=True))
    with pytest.raises(ConfigError, match="x is local at a, which the checker of storms does not"):
        load_scenario(written(tmp_path, STORM, controls="{node: a, local: x}"))


def test_headers_of_the_mesh_are_no_client_s_own(tmp_path: Path) -> None:
    publish = "    - publish: {{node: a, subject: x/1, headers: {{{}: x}}}}"
    load_scenario(written(tmp_path, publish.format("mesher")))
    with pytest.raises(ConfigError, match="header 'mesh-subject' belongs to the mesh"):
        load_scenario(written(tmp_path, publish.format("mesh-subject")))
