"""Homes of queues that a scenario makes: where nobody would notice, the file is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.errors import ConfigError
from mesh.lab.scenario import load_scenario

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: line}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {}, b: {}, c: {}}
    zones: {Z: {kind: multi-hop, links: [[a, b], [b, c]]}}
    queues: {found: {policy: home, home: b}, sought: {policy: home}, all: {policy: every}}
  steps:
"""


def load(folder: Path, *steps: str) -> None:
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO + "".join(f"    - {one}\n" for one in steps), encoding="utf-8")
    load_scenario(path)


def asked(node: str, queue: str, filter_: str = "x", policy: str = "") -> str:
    said = f", policy: {policy}" if policy else ""
    return f"subscribe: {{node: {node}, endpoint: {queue}, filter: {filter_}, kind: queue{said}}}"


@pytest.mark.parametrize(
    "second", [asked("c", "Jobs", policy="home"), asked("c", "jobs", "y/>", "home")]
)
def test_two_homes_that_do_not_see_each_other(tmp_path: Path, second: str) -> None:
    """Spec: DESIGN 6."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, asked("a", "jobs", policy="home"), second)
    [problem] = caught.value.problems
    assert "has its home at a already" in problem.message
    assert "spec.steps[1].subscribe" in problem.where
    with pytest.raises(ConfigError, match="has its home at a already"):
        load(tmp_path, asked("a", "sought"), asked("c", "sought"))


def test_homes_that_are_declared_or_seen_or_gone(tmp_path: Path) -> None:
    """The mesh refuses a second home that sees the first one: that may be looked at."""
    gone = "unsubscribe: {node: a, endpoint: jobs, filter: x}"
    load(tmp_path, asked("a", "jobs", policy="home"), gone, asked("c", "jobs", policy="home"))
    load(tmp_path, asked("a", "jobs", policy="home"), asked("b", "jobs", policy="home"))
    load(tmp_path, asked("a", "jobs", policy="home"), asked("a", "jobs", "y", "home"))
    for queue in ("found", "all", "other"):
        load(tmp_path, asked("a", queue), asked("c", queue))
