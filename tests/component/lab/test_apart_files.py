"""Scenarios whose nodes have files of their own: what the files may say, and that they are read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.errors import ConfigError
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend

EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "apart.yaml"


def test_each_node_knows_what_its_own_file_says() -> None:
    """Where the files name no link, the links of the scenario's mesh carry nothing."""
    scenario = load_scenario(EXAMPLE)
    links = {node: [link.ends for link in one.links] for node, one in scenario.apart.items()}
    assert links == {"a": [("a", "b")], "c": [("b", "c")]}
    alone = replace(scenario.topology, zones={})
    apart = dict.fromkeys(scenario.topology.nodes, alone)
    scenario = replace(scenario, apart=apart)
    result = run_scenario(scenario, SimulatedBackend.of(scenario), backend_name="sim")
    assert result["ok"] is False
    assert result["links"]["a->b"]["messages"] == 0


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("x: {nodes: {c: null}}", "no node is called 'x'"),
        ("a: {nodes: {a: null}, zones: {Z: {links: [[b, c]]}}}", "its own file leaves a out"),
        ("a: {kafka: {left: {bootstrap.servers: 'x:1'}}}", "not in kafka and prefix"),
        ("a: {zones: {Z: {links: [[a, b], [b, c], [a, c]]}}}", "TWO_WALKS"),
        ("a: {zones: {Z: {kind: ring}}}", "must be"),
        ("a: {nodes: {a: {lanes: 4}}}", "a is another node in the mesh"),
        ("a: {nodes: {d: {kafka: left}}}", "d is another node in the mesh"),
        ("a: 7", "must be a mapping"),
    ],
)
def test_a_file_that_cannot_be_is_refused_at_its_place(
    written: str, told: str, tmp_path: Path
) -> None:
    """One line, with the place in the scenario file."""
    text = EXAMPLE.read_text()
    file = tmp_path / "apart.yaml"
    file.write_text(
        re.sub(r"  apart:\n(    .*\n)+?  steps", f"  apart:\n    {written}\n  steps", text)
    )
    with pytest.raises(ConfigError) as refused:
        load_scenario(file)
    lines = [one.line() for one in refused.value.problems]
    assert any(told in line and str(file) in line for line in lines), lines


def test_nodes_configured_apart_follow_no_change(tmp_path: Path) -> None:
    file = tmp_path / "apart.yaml"
    file.write_text(EXAMPLE.read_text() + "    - apply: {zones: {Z: {title: new}}}\n")
    with pytest.raises(ConfigError, match="follow no change"):
        load_scenario(file)
