"""Controls of interest on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.component.cli.conftest import Chain, Run

MESH = {
    "apiVersion": "mesh/v1",
    "kind": "Mesh",
    "metadata": {"name": "m"},
    "spec": {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}, "c": {}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    },
}
CONTROLS = [{"node": "b", "local": "acme/private/>"}, {"node": "a", "static": "prices"}]


def written(folder: Path, name: str, controls: list[dict[str, str]]) -> str:
    path = folder / name
    spec = {**MESH["spec"], "interest": controls}  # type: ignore[dict-item]
    path.write_text(json.dumps({**MESH, "spec": spec}), encoding="utf-8")
    return str(path)


def test_a_plan_shows_controls_and_nothing_else(run: Run, tmp_path: Path) -> None:
    """Spec: EMS-11."""
    old, new = written(tmp_path, "old.yaml", []), written(tmp_path, "new.yaml", CONTROLS)
    plan = run("plan", new, "--from", old)
    assert plan.code == 3
    assert "acme/private/> is local at b" in plan.out
    assert "prices is static at a" in plan.out
    data = run("plan", new, "--from", old, "-o", "json").data
    assert [(one["action"], one["what"]) for one in data["changes"]] == [("create", "interest")] * 2
    assert run("plan", old, "--from", old).code == 0


def test_explain_has_the_sentence(run: Run, tmp_path: Path) -> None:
    """Spec: EMS-11, DESIGN 4.4."""
    file = written(tmp_path, "mesh.yaml", CONTROLS)
    asked = ("explain", "acme/private/x", "--from", "a", "--subscribe", "c/e=acme/>", "-f", file)
    data = run(*asked, "-o", "json").data
    sentence = "acme/private/> is local at b, so it crosses no link of b"
    assert [one["text"] for one in data["not_reached"]] == [sentence, sentence]
    assert data["refused"] == [
        {"node": "a", "neighbour": "b", "reason": "filter", "cause": "local", "text": sentence}
    ]
    assert sentence.partition(",")[0] in " ".join(run(*asked).out.split())


def test_a_subscription_that_is_not_exported_is_shown_as_such(run: Run, chain: Chain) -> None:
    """Spec: DMR-12."""
    _, file = chain
    made = run("subscribe", "acme/>", "-n", "c", "-e", "e", "--noexport", "-f", file, "-o", "json")
    assert (made.code, made.data["known_everywhere"]) == (0, True)
    [shown] = run("interest", "-f", file, "-o", "json").data["interest"]
    assert (shown["node"], shown["interest"]) == ("c", "guaranteed, noexport")


def test_what_the_topology_says_of_interest_is_listed(run: Run, chain: Chain) -> None:
    """Spec: UM-1, EMS-11."""
    _, file = chain
    document = json.loads(Path(file).read_text())
    document["spec"]["interest"] = CONTROLS
    Path(file).write_text(json.dumps(document))
    shown = run("interest", "-f", file, "-o", "json").data["interest"]
    assert [(one["node"], one["by"], one["filter"]) for one in shown] == [
        ("a", "static", "prices"),
        ("b", "local", "acme/private/>"),
    ]
    table = " ".join(run("interest", "-f", file).out.split())
    assert "a prices the node itself static topology" in table
    assert "b acme/private/> none of its neighbours local topology" in table
