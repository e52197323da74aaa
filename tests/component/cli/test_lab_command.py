"""`mesh lab run` on the simulator: results and exit codes. Spec: lab.md 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.patience import PATIENCE_S

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {{name: small}}
spec:
  seed: 1
  mesh:
    kafka: {{k: {{}}}}
    nodes: {{a: {{kafka: k}}, b: {{kafka: k}}, c: {{kafka: k}}}}
    zones: {zones}
  steps:
    - subscribe: {{node: b, endpoint: e, filter: "x/>"}}
    - settle: {{}}
    - publish: {{node: a, subject: x/y, count: 5}}
    - drain: {{}}
    - expect: {{endpoint: b/e, count: {count}}}
"""
CHAIN = "{Z: {kind: multi-hop, links: [[a, b], [b, c]]}}"
RING = "{Z: {kind: multi-hop, links: [[a, b], [b, c], [a, c]]}}"


def write(folder: Path, **values: object) -> str:
    file = folder / "scenario.yaml"
    file.write_text(SCENARIO.format(**values), encoding="utf-8")
    return str(file)


def test_a_scenario_that_holds_ends_with_zero(run: Run, tmp_path: Path) -> None:
    ended = run("lab", "run", write(tmp_path, zones=CHAIN, count=5), "-o", "json")
    assert ended.code == 0
    assert ended.err == ""
    result = ended.data
    assert list(result) == [
        "name", "backend", "ok", "steps", "links", "endpoints", "not_forwarded", "refusals",
        "audit",
    ]  # fmt: skip
    assert result["links"]["a->b"]["messages"] == 5
    assert result["links"]["b->c"] == {"messages": 0, "frames": 0, "control": 1}
    assert result["endpoints"]["b/e"]["paths"] == {"a>b": 5}


def test_nothing_but_the_result_is_on_standard_output(tmp_path: Path) -> None:
    """Workers of the simulator log too: as a process of its own, where logs are set up."""
    command = [sys.executable, "-m", "mesh", "lab", "run", write(tmp_path, zones=CHAIN, count=5)]
    ended = subprocess.run(
        [*command, "-o", "json"], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert json.loads(ended.stdout)["ok"] is True
    assert ended.stderr == ""


def test_the_same_file_gives_the_same_result(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, zones=CHAIN, count=5)
    assert run("lab", "run", file, "-o", "json").out == run("lab", "run", file, "-o", "json").out


def test_an_expectation_that_fails_ends_with_ten(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, zones=CHAIN, count=6)
    ended = run("lab", "run", file, "-o", "json")
    assert (ended.code, ended.data["ok"]) == (10, False)
    assert "5 records" in ended.data["steps"][-1]["detail"]["error"]
    table = run("lab", "run", file)
    assert (table.code, "NOT OK" in table.out, "FAILED" in table.out) == (10, True, True)


def test_people_see_what_each_step_was_and_no_empty_table(run: Run, tmp_path: Path) -> None:
    table = run("lab", "run", write(tmp_path, zones=CHAIN, count=5)).out
    assert "node: b, endpoint: e, filter: x/>" in table
    assert "endpoint: b/e, count: 5" in table
    assert "COLOUR" not in table


def test_a_message_that_is_too_large_is_told_with_the_reason_and_not_shown_whole(
    run: Run, tmp_path: Path
) -> None:
    file = Path(write(tmp_path, zones=CHAIN, count=1))
    large = f"subject: x/y, payload: {'z' * 900_000}"
    text = file.read_text().replace("subject: x/y, count: 5", large)
    file.write_text(text.replace("  mesh:\n", "  mesh:\n    maxMessageBytes: 2000\n"))
    ended = run("lab", "run", str(file))
    assert ended.code == 10
    assert "larger" in ended.out
    assert len(ended.out) < 10_000


def test_people_see_a_split_a_heal_and_whom_a_send_reached(run: Run) -> None:
    table = run("lab", "run", "examples/scenarios/roles-heal.yaml").out
    words = [" ".join(line.split()) for line in table.splitlines()]
    assert any("parts: [[a, b], [c, d]] ok" in line for line in words)
    assert "left b desk/pricing a 1 0 0" in words
    assert "again b desk/pricing a d 2 0 0" in words
    assert words[-2].endswith(" a b c d")


def test_an_illegal_mesh_is_refused_with_both_walks(run: Run, tmp_path: Path) -> None:
    ended = run("lab", "run", write(tmp_path, zones=RING, count=5), "-o", "json")
    assert ended.code == 2
    problem = ended.data["error"][0]
    assert len(problem["walks"]) == 2
    assert problem["edit"]
    assert problem["where"].endswith("scenario.yaml:10:13: spec.mesh.zones.Z")


def test_an_illegal_mesh_beside_the_scenario_is_told_by_its_own_lines(
    run: Run, tmp_path: Path
) -> None:
    """With all else that is wrong, at once. Spec: lab.md 3."""
    (tmp_path / "ring.yaml").write_text(
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: ring}\nspec:\n  kafka: {k: {}}\n"
        f"  nodes: {{a: {{}}, b: {{}}, c: {{}}}}\n  zones: {RING}\n",
        encoding="utf-8",
    )
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: mesh/v1\nkind: Scenario\nmetadata: {name: x}\n"
        "spec: {mesh: {file: ring.yaml}, steps: [{kill: {node: d}}]}\n",
        encoding="utf-8",
    )
    ended = run("lab", "run", str(tmp_path / "scenario.yaml"))
    told = ended.err.splitlines()
    assert (ended.code, ended.out, len(told)) == (2, "", 2)
    assert "ring.yaml:7:11: spec.zones.Z: a reaches" in told[0]
    assert "scenario.yaml:4:" in told[1]
    assert "no node is called 'd'" in told[1]


@pytest.mark.parametrize("text", ["", "kind: Mesh", "a: [", "apiVersion: mesh/v1\nkind: Scenario"])
def test_a_bad_file_ends_with_two(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")
    ended = run("lab", "run", str(file))
    assert ended.code == 2
    assert ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_a_history_is_written_over_no_scenario(run: Run, tmp_path: Path) -> None:
    """And none is promised where no storm writes one: an empty file would be left."""
    file = Path(write(tmp_path, zones=CHAIN, count=5))
    text = file.read_text()
    link = tmp_path / "link"
    link.symlink_to(file)
    for command in (["run"], ["storm", "--backend", "sim"]):
        ended = run("lab", *command, str(file), "--history", str(link))
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "is read by this command, and would be lost" in ended.err
        assert file.read_text() == text
    none = tmp_path / "history.jsonl"
    ended = run("lab", "run", str(file), "--history", str(none))
    assert (ended.code, "there is none in it; leave --history out" in ended.err) == (2, True)
    assert not none.exists()
