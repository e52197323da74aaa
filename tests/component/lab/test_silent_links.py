"""What lies behind a link that says nothing keeps nobody waiting. Spec: K24, lab.md 1."""

from __future__ import annotations

from pathlib import Path

from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: line}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {}, b: {}, c: {}, d: {}}
    zones: {M: {kind: multi-hop, links: [[a, b], [b, c], [c, d]]}}
  steps:
"""
ADD = "apply: {nodes: {e: {}}, zones: {M: {links: [[a, b], [b, c], [c, d], [a, e]]}}}"


def faults(folder: Path, *steps: str) -> list[object]:
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO + "".join(f"    - {step}\n" for step in steps), encoding="utf-8")
    scenario = load_scenario(path)
    result = run_scenario(scenario, SimulatedBackend(scenario.topology, 0), backend_name="sim")
    return [step for step in result["steps"] if not step["ok"]]  # type: ignore[attr-defined]


def test_subscribing_and_changing_beside_a_disabled_link(tmp_path: Path) -> None:
    """What b knew last of c is that c waited for d, which may have answered since."""
    subscribe = "subscribe: {node: a, endpoint: %s, filter: '%s/>'}"
    assert (
        faults(
            tmp_path,
            "settle: {}",
            "kill: {node: d}",
            subscribe % ("one", "x"),
            "settle: {}",
            "disable: {link: [b, c]}",
            "start: {node: d}",
            "settle: {}",
            subscribe % ("two", "y"),
            "settle: {}",
            ADD,
        )
        == []
    )


def test_a_disabled_link_that_is_enabled_again_is_waited_for(tmp_path: Path) -> None:
    """What c and d have not heard, they hear before the mesh counts as settled."""
    assert (
        faults(
            tmp_path,
            "settle: {}",
            "disable: {link: [b, c]}",
            "subscribe: {node: a, endpoint: one, filter: 'x/>'}",
            "settle: {}",
            "enable: {link: [b, c]}",
            "settle: {}",
            "publish: {node: d, subject: x/1, count: 3}",
            "drain: {}",
            "expect: {endpoint: a/one, count: 3}",
        )
        == []
    )
