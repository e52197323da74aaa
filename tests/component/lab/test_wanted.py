"""What scenarios expect to be wanted, and to be refused with which code. Spec: lab.md 1."""

from __future__ import annotations

from pathlib import Path

from mesh.lab.run import run_scenario
from mesh.lab.simulated import SimulatedBackend
from tests.component.lab.scenario_files import RING, load


def run(folder: Path, *steps: str) -> list[str]:
    """Return what is wrong with each step, or nothing."""
    scenario = load(folder, *steps)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    return [step["detail"].get("error", "") for step in result["steps"]]  # type: ignore[attr-defined]


def test_who_wants_what_through_which_link(tmp_path: Path) -> None:
    """Spec: lab.md 1 (`expect`), K22."""
    told = run(
        tmp_path,
        'subscribe: {node: c, endpoint: s, filter: "acme/>"}',
        "subscribe: {node: c, endpoint: t, filter: news}",
        "settle: {}",
        'expect: {interest: a->b, filters: [news, "acme/>"]}',
        "expect: {interest: b->a, filters: []}",
        "expect: {interest: b->c, filters: [news]}",
        "expect: {interest: b->a, filters: [news]}",
        "unsubscribe: {node: c, endpoint: t, filter: news}",
        "settle: {}",
        'expect: {interest: a->b, filters: ["acme/>"]}',
        "apply: {zones: {Z: {links: [[a, b]]}}}",
        "expect: {interest: b->c, filters: []}",
    )
    assert told[5] == "b->c: wanted are acme/>, news, expected news"
    assert told[6] == "b->a: wanted are none, expected news"
    assert [text for at, text in enumerate(told) if at not in (5, 6) and text] == []


def test_a_refusal_may_be_expected_by_its_code(tmp_path: Path) -> None:
    """For another reason it is not what was expected. Spec: lab.md 1 (`apply`)."""
    told = run(
        tmp_path,
        RING % ", refused: TWO_WALKS",
        RING % ", refused: EXCLUSIVE",
        "apply: {zones: {Z: {kind: one-hop}}, refused: CANNOT_CHANGE}",
    )
    assert told[0] == told[2] == ""
    assert told[1].startswith("it should be refused with EXCLUSIVE, and was with ")
    assert "a reaches c by two walks" in told[1]
