"""Scenario files of three nodes in a row, with the steps that a test gives."""

from __future__ import annotations

from pathlib import Path

from mesh.lab.scenario import Scenario, load_scenario

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: small}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {kafka: k}, b: {kafka: k}, c: {kafka: k}}
    zones: {Z: {kind: multi-hop, links: [[a, b], [b, c]]}}
  steps:
"""
ADD_D = "apply: {nodes: {d: {kafka: k, lanes: 2}}, zones: {Y: {kind: one-hop, links: [[c, d]]}}}"
RING = "apply: {zones: {Z: {links: [[a, b], [b, c], [a, c]]}}%s}"


def load(folder: Path, *steps: str) -> Scenario:
    """Write a scenario of these steps, and read it."""
    path = folder / "scenario.yaml"
    workers = "  workers: {d: 2}\n" if ADD_D in steps else ""
    listed = "".join(f"    - {step}\n" for step in steps)
    path.write_text(SCENARIO.replace("  mesh:", workers + "  mesh:") + listed, encoding="utf-8")
    return load_scenario(path)
