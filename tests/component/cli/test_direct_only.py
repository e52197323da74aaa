"""Direct-only clusters on the command line: refused elsewhere, shown, explained, planned, told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh.config.topology_file import load_topology
from tests.component.cli.conftest import Chain, Run

CLUSTER = {"kind": "cluster", "nodes": ["a", "b"]}
EAST = {"kind": "external", "links": [["b", "c"]]}


def written(folder: Path, name: str, zones: Mapping[str, object]) -> str:
    path = folder / name
    spec = {"kafka": {"k": {}}, "nodes": {"a": {}, "b": {}, "c": {}}, "zones": zones}
    document = {"apiVersion": "mesh/v1", "kind": "Mesh", "metadata": {"name": "m"}, "spec": spec}
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def marked(folder: Path) -> str:
    return written(folder, "on.yaml", {"C": {**CLUSTER, "directOnly": True}, "E": EAST})


@pytest.mark.parametrize(
    "zone",
    [
        {"kind": "one-hop", "nodes": ["a", "b"]},
        {"kind": "multi-hop", "nodes": ["a", "b"]},
        {"kind": "external", "links": [["a", "b"]]},
        {"kind": "join", "from": "a", "to": "b"},
    ],
)
def test_other_kinds_are_refused_in_one_line(
    run: Run, tmp_path: Path, zone: Mapping[str, object]
) -> None:
    """Spec: DMR-11, lab.md 3."""
    file = written(tmp_path, "mesh.yaml", {"Z": {**zone, "directOnly": True}})
    found = run("validate", file)
    assert found.code == 2
    (line,) = (found.out + found.err).strip().splitlines()
    assert "spec.zones.Z.directOnly: only a zone of kind cluster is direct-only" in line
    assert f"not {zone['kind']}; remove it" in line


def test_it_is_shown(run: Run, tmp_path: Path) -> None:
    """Spec: DMR-11."""
    file = marked(tmp_path)
    zones = run("topology", file, "-o", "json").data["zones"]
    assert [(one["zone"], one["direct_only"]) for one in zones] == [("C", True), ("E", False)]
    assert "zone C  cluster, direct-only: 2 nodes, 1 link" in run("topology", file).out


def test_explain_names_the_zone(run: Run, tmp_path: Path) -> None:
    """At the node that refuses, and for who does not get it. Spec: DMR-11, DESIGN 4.4."""
    asked = ("explain", "x", "--from", "c", "--subscribe", "a/e=>", "-f", marked(tmp_path))
    data = run(*asked, "-o", "json").data
    sentence = "zone C is direct-only, so no guaranteed message crosses its links"
    assert data["refused"][0] == {
        "node": "b",
        "neighbour": "a",
        "reason": "filter",
        "cause": "direct_only",
        "text": sentence,
    }
    assert [(one["node"], one["text"]) for one in data["not_reached"]] == [("a", sentence)]
    direct = run(*asked, "--class", "direct", "-o", "json").data
    assert [one["node"] for one in direct["reached"]] == ["c", "b", "a"]


def test_a_plan_tells_the_mark_and_whom_guaranteed_messages_reach(run: Run, tmp_path: Path) -> None:
    """Spec: DMR-11, DESIGN 3."""
    old, new = written(tmp_path, "off.yaml", {"C": CLUSTER, "E": EAST}), marked(tmp_path)
    data = run("plan", new, "--from", old, "-o", "json").data
    [change] = [one for one in data["changes"] if one["what"] == "zone"]
    [attribute] = change["attributes"]
    assert (change["name"], attribute["name"], attribute["after"]) == ("C", "directOnly", True)
    assert data["reach"]["sources"] == []
    lost = {one["source"]: one["lost"] for one in data["reach"]["guaranteed"]}
    assert lost == {"a": ["b", "c"], "b": ["a"], "c": ["a"]}
    assert "reach of guaranteed messages" in run("plan", new, "--from", old).out


def test_who_publishes_guaranteed_messages_is_told(run: Run, chain: Chain) -> None:
    """Once, on stderr; the messages are accepted. Spec: DMR-11."""
    mesh, file = chain
    document = json.loads(Path(file).read_text())
    zones = document["spec"]["zones"]
    zones["Z"] = {"kind": "multi-hop", "links": [["b", "c"]]}
    zones["C"] = {"kind": "cluster", "nodes": ["a", "b"], "directOnly": True}
    Path(file).write_text(json.dumps(document))
    mesh.topology = load_topology(file)
    sent = run("publish", "acme/x", "hello", "-n", "a", "--count", "2", "-f", file)
    assert (sent.code, "2 messages accepted at a" in sent.out) == (0, True)
    told = (
        "guaranteed messages do not leave a over zone C, which is direct-only; "
        "publish with --class direct to reach its nodes"
    )
    assert sent.err.strip().splitlines() == [told]
    direct = run("publish", "acme/x", "hello", "-n", "a", "--class", "direct", "-f", file)
    assert direct.err == ""
    assert run("publish", "acme/x", "hello", "-n", "c", "-f", file).err == ""
    assert mesh.client("b").direct_only_zone == "C"
    assert mesh.client("c").direct_only_zone is None
