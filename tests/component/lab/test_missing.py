"""What endpoints lack at the end of a scenario, as the checker judges it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: small}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {}, b: {}}
    zones: {Z: {kind: multi-hop, links: [[a, b]]}}
  steps:
"""
SUBSCRIBED = "subscribe: {node: b, endpoint: s, filter: x/>}"
ENDED = "unsubscribe: {node: b, endpoint: s, filter: x/>}"
PUBLISHED = "publish: {node: a, subject: x/1, count: 5}"


def missing(folder: Path, *steps: str) -> object:
    """Return how many messages b's endpoint lacks when these steps are done."""
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO + "".join(f"    - {one}\n" for one in steps), encoding="utf-8")
    scenario = load_scenario(path)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    return result["endpoints"]["b/s"]["missing"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("steps", "lacks"),
    [
        (("settle: {}", "kill: {node: b}", PUBLISHED, "drain: {}"), 5),
        (("settle: {}", "kill: {node: b}", f"{PUBLISHED[:-1]}, class: direct}}", "drain: {}"), 5),
        (("settle: {}", "kill: {node: b}", PUBLISHED), 0),
        (("settle: {}", "kill: {node: b}", PUBLISHED, ENDED, "drain: {}"), 0),
        (("settle: {}", "kill: {node: b}", PUBLISHED.replace("x/1", "y"), "drain: {}"), 0),
        (("kill: {node: b}", PUBLISHED, "drain: {}"), 0),
    ],
)
def test_owed_is_what_was_published_after_the_settle_and_drained(
    tmp_path: Path, steps: tuple[str, ...], lacks: int
) -> None:
    """Before its end; what waits counts as missing. Spec: lab.md 2 (`missing`)."""
    assert missing(tmp_path, SUBSCRIBED, *steps) == lacks


def test_messages_of_a_topic_that_was_recreated_are_told_apart(tmp_path: Path) -> None:
    """They have the offsets of those before, and are of other steps."""
    again = ("recreate_topic: {topic: mesh.a.in.g}", PUBLISHED, "drain: {}")
    before = ("kill: {node: a}", PUBLISHED, "drain: {}")
    assert missing(tmp_path, SUBSCRIBED, "settle: {}", *before, *again) == 10
