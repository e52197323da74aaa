"""`mesh validate`, `mesh walks`, `mesh schema`: what they print and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from mesh.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples" / "topologies"
FIG36 = str(EXAMPLES / "fig36.yaml")
TRIANGLE = str(EXAMPLES / "illegal" / "triangle-multi-hop.yaml")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command line; returns exit code, standard output and standard error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        printed = capsys.readouterr()
        code = caught.value.code
        return (code if isinstance(code, int) else 0), printed.out, printed.err

    return command


def test_validate_legal(run) -> None:
    """A legal file: exit 0. Spec: lab.md 3."""
    assert run("validate", FIG36) == (0, "fig36 is legal: 9 nodes, 4 zones, 11 links\n", "")
    code, out, err = run("validate", FIG36, "-o", "json")
    assert (code, json.loads(out), err) == (0, {"legal": True, "problems": []}, "")


def test_validate_illegal(run) -> None:
    """An illegal file: both walks and the edit, exit 2. Spec: lab.md 3."""
    code, out, err = run("validate", TRIANGLE, "-o", "json")
    message = (
        "a reaches c by two walks: a -Z1-> c and a -Z1-> b -Z1-> c; remove link a-b from zone Z1"
    )
    where = f"{TRIANGLE}:12:5: spec.zones.Z1"
    assert (code, err) == (2, "")
    assert json.loads(out) == {
        "legal": False,
        "problems": [
            {
                "code": "TWO_WALKS",
                "message": message,
                "where": where,
                "walks": [["a", "c"], ["a", "b", "c"]],
                "edit": [{"op": "remove", "link": ["a", "b"], "zone": "Z1"}],
            }
        ],
    }
    assert run("validate", TRIANGLE) == (2, "", f"{where}: {message} [TWO_WALKS]\n")


def test_validate_lists_every_problem_of_a_bad_file(run, tmp_path: Path) -> None:
    """One line each on standard error, or the same as JSON. Spec: lab.md 3."""
    path = tmp_path / "bad.yaml"
    path.write_text("apiVersion: mesh/v2\nkind: Mesh\nspec: {}\n")
    code, out, err = run("validate", str(path))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{path}:1:1: apiVersion: must be mesh/v1; got 'mesh/v2' [WRONG_VALUE]",
        f"{path}:1:1: metadata: this key is required; add it [MISSING_KEY]",
        f"{path}:3:1: spec.kafka: this key is required; add it [MISSING_KEY]",
        f"{path}:3:1: spec.nodes: this key is required; add it [MISSING_KEY]",
    ]
    code, out, err = run("validate", str(path), "--output=json")
    answer = json.loads(out)
    assert (code, err, answer["legal"]) == (2, "", False)
    assert [problem["code"] for problem in answer["problems"]] == [
        "WRONG_VALUE",
        "MISSING_KEY",
        "MISSING_KEY",
        "MISSING_KEY",
    ]


def test_walks(run) -> None:
    """Every walk from one node; the source is left out. Spec: lab.md 3, EMS-4."""
    code, out, err = run("walks", FIG36, "--from", "tk3", "-o", "json")
    answer = json.loads(out)
    assert (code, err, answer["source"]) == (0, "", "tk3")
    assert sorted(answer["reached"]) == ["ny1", "ny2", "ny3", "pa1", "pa2", "pa3", "tk1", "tk2"]
    assert answer["reached"]["pa2"] == [["tk3", "tk1", "ny1", "pa1", "pa2"]]
    code, out, _ = run("walks", FIG36, "--from", "tk3")
    assert code == 0
    assert "tk3 > tk1 > ny1 > pa1 > pa2" in out


def test_walks_leaves_unreached_nodes_out(run) -> None:
    """In a one-hop zone the far end is not reached. Spec: lab.md 3, EMS-2."""
    _, out, _ = run("walks", str(EXAMPLES / "fig34-one-hop.yaml"), "--from", "e", "-o", "yaml")
    assert YAML(typ="safe", pure=True).load(out) == {"source": "e", "reached": {"d": [["e", "d"]]}}


def test_walks_refuses_an_illegal_file(run) -> None:
    """Exit 2 with the problems. Spec: lab.md 3."""
    code, out, _ = run("walks", TRIANGLE, "--from", "a", "-o", "json")
    answer = json.loads(out)
    assert (code, answer["legal"], answer["problems"][0]["code"]) == (2, False, "TWO_WALKS")


def test_walks_names_the_nearest_node(run) -> None:
    """A node that is not there is wrong input."""
    line = "--from: no node is called 'tk'; did you mean tk3? [UNKNOWN_NODE]\n"
    assert run("walks", FIG36, "--from", "tk") == (2, "", line)
    code, out, err = run("walks", FIG36, "--from", "zz", "-o", "json")
    assert (code, err, json.loads(out)["error"][0]["code"]) == (2, "", "UNKNOWN_NODE")


def test_missing_file_is_one_line(run, tmp_path: Path) -> None:
    """No traceback, and the path that was tried."""
    path = tmp_path / "none.yaml"
    expected = (2, "", f"{path}: no such file; check the path [NO_FILE]\n")
    assert run("validate", str(path)) == expected
    assert run("walks", str(path), "--from", "a") == expected


def test_schema(run) -> None:
    """The schema is JSON whatever is asked for people."""
    code, out, _ = run("schema")
    assert code == 0
    assert json.loads(out)["properties"]["kind"]["const"] == "Mesh"


@pytest.mark.parametrize("arguments", [("bogus",), ("validate",), ("validate", FIG36, "-o", "xml")])
def test_usage_errors_exit_2(run, arguments: tuple[str, ...]) -> None:
    """Click's own exit code for wrong usage, with the usage on standard error."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: mesh" in err


def test_output_is_plain_without_a_terminal(run) -> None:
    """A pipe gets no colours and no wrapped lines."""
    for output in ("table", "json", "yaml"):
        assert "\x1b" not in run("walks", FIG36, "--from", "tk3", "-o", output)[1]


def test_help_loads_nothing_heavy() -> None:
    """Completion and help are quick because commands import what they need."""
    heavy = ("pyspark", "confluent_kafka", "pydantic", "ruamel", "fastavro", "psutil", "pandas")
    program = (
        "import sys\nfrom mesh.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert "validate" in done.stdout
    assert done.stderr.strip() == "[]"


def test_python_m_mesh_is_the_command() -> None:
    """The module and the script are one."""
    done = subprocess.run(
        [sys.executable, "-m", "mesh", "validate", FIG36],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("fig36 is legal")
