"""Direct-only clusters in scenarios: what is owed, and what a storm cannot judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.lab.scenario import load_scenario
from mesh.lab.topologies import Topologies
from mesh.model.frames import MessageClass

PLAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abz"},
        "zones": {
            "C": {"kind": "cluster", "nodes": ["a", "b"]},
            "E": {"kind": "external", "links": [["a", "z"]]},
        },
    }
)
STORM = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: small}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {}, b: {}}
    zones: {C: {kind: cluster, nodes: [a, b], directOnly: true}}
  steps:
    - subscribe: {node: b, endpoint: s, filter: "x/>"}
    - storm: {faults: [cut]}
"""


def test_guaranteed_messages_are_owed_to_nobody_behind_it() -> None:
    """Under what was in force at each moment; direct ones as before. Spec: DMR-11, lab.md 2."""
    marked = replace(PLAIN, zones={**PLAIN.zones, "C": replace(PLAIN.zones["C"], direct_only=True)})
    found = Topologies([(-1, PLAIN), (5, marked)])
    assert found.carry("z", "b", "x", (1, 2))
    assert not found.carry("z", "b", "x", (6, 7))
    assert not found.carry("z", "b", "x", (1, 7))
    assert found.carry("z", "a", "x", (6, 7))
    assert found.carry("b", "b", "x", (6, 7))
    assert found.carry("z", "b", "x", (6, 7), MessageClass.DIRECT)


def test_a_storm_refuses_it_in_one_line(tmp_path: Path) -> None:
    """Spec: DMR-11."""
    path = tmp_path / "scenario.yaml"
    path.write_text(STORM, encoding="utf-8")
    with pytest.raises(ConfigError, match="zone C is direct-only, which the checker of storms"):
        load_scenario(path)
