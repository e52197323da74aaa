"""`mesh topology`, `mesh route`, and `mesh explain` of what is supposed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mesh.cli.topology import as_text
from mesh.cli.topology_drawings import as_dot, as_mermaid
from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.model.reasons import SENTENCES
from mesh.model.topology import Topology
from mesh.operate.changes.founding import publish
from tests.component.cli.conftest import Chain, Run

FOLDER = Path(__file__).parents[3] / "examples" / "topologies"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
FIG36 = str(FOLDER / "fig36.yaml")
EXPLAIN = ["explain", "x", "--from", "tk1"]
NO_TRANSIT = str(FOLDER / "clusters-no-transit.yaml")

QUOTED = r'"(?:[^"\\]|\\.)*"'
MERMAID = {
    "begin": re.compile(r"flowchart LR"),
    "group": re.compile(r'  subgraph k\d+ \["[^"]+"\]'),
    "node": re.compile(r'    (?P<id>n\d+)\(\("(?P<label>[^"]+)"\)\)'),
    "end": re.compile(r"  end"),
    "link": re.compile(
        r'  (?P<a>n\d+) (?:---|===|-\.-|-->|==>|-\.->)\|"(?P<zone>[^"]*)"\| (?P<b>n\d+)'
    ),
}
DOT = {
    "begin": re.compile(rf"graph {QUOTED} \{{"),
    "style": re.compile(r"  node \[shape=circle\];"),
    "group": re.compile(r"  subgraph cluster_\d+ \{"),
    "label": re.compile(rf"    label={QUOTED};"),
    "node": re.compile(rf"    (?P<id>n\d+) \[label=(?P<label>{QUOTED})\];"),
    "end": re.compile(r"  ?\}|\}"),
    "link": re.compile(
        rf"  (?P<a>n\d+) -- (?P<b>n\d+) \[label=(?P<zone>{QUOTED}), style=\w+(?:, dir=forward)?\];"
    ),
}  # fmt: skip
AWKWARD = {
    "kafka": {"end": {}, "graph": {}},
    "nodes": {"end": {"kafka": "end"}, "node-1": {"kafka": "graph"}, "subgraph": {"kafka": "end"}},
    "zones": {
        "click": {"kind": "one-hop", "nodes": ["end", "node-1"], "title": 'say "hi" \\ & go'},
        "style": {"kind": "external", "links": [["node-1", "subgraph"]]},
    },
}


def parsed(
    text: str, grammar: dict[str, re.Pattern[str]]
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Read a drawing line by line; every line must be of the language. Return labels and links."""
    labels: dict[str, str] = {}
    links: list[tuple[str, str, str]] = []
    depth = 0
    for number, line in enumerate(text.splitlines()):
        found = [(name, match) for name, rule in grammar.items() if (match := rule.fullmatch(line))]
        assert len(found) == 1, line
        [(name, match)] = found
        assert (name == "begin") == (number == 0)
        depth += (name in ("group", "begin")) - (name == "end")
        assert depth >= 0
        if name == "node":
            labels[match["id"]] = match["label"].strip('"')
        elif name == "link":
            links.append((labels[match["a"]], match["zone"].strip('"'), labels[match["b"]]))
    # A flowchart has no end of its own.
    assert depth == (1 if grammar is MERMAID else 0)
    return list(labels.values()), links


@pytest.mark.parametrize(
    "topology",
    [*map(load_topology, EXAMPLES), topology_from_mapping(AWKWARD)],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize(
    ("draw", "grammar"), [(as_mermaid, MERMAID), (as_dot, DOT)], ids=["mermaid", "dot"]
)
def test_drawings_are_valid_and_whole(topology: Topology, draw: Any, grammar: Any) -> None:
    nodes, links = parsed(draw(topology), grammar)
    assert sorted(nodes) == sorted(topology.nodes)
    assert sorted((zone, *sorted((a, b))) for a, zone, b in links) == [
        (link.zone, *link.ends)
        for name in sorted(topology.zones)
        for link in topology.zones[name].links
    ]


@pytest.mark.parametrize("topology", [*map(load_topology, EXAMPLES)], ids=lambda one: one.name)
def test_every_topology_has_a_text(topology: Topology) -> None:
    text = as_text(topology, 80)
    assert re.findall(r"^zone (\S+)", text, re.MULTILINE) == list(topology.zones)


def test_joins_of_both_directions_are_two(run: Run) -> None:
    """They are one link, and each leads its own way."""
    file = str(FOLDER / "um-two-way.yaml")
    shown = run("topology", file).out
    assert "zone DB  join: 2 nodes, 1 link\n  d -> b\n" in shown
    assert "zone BD  join: 2 nodes, 1 link\n  b -> d\n" in shown
    [link] = [
        one for one in run("topology", file, "-o", "json").data["links"] if one["kind"] == "join"
    ]
    assert link["directions"] == ["b->d", "d->b"]
    drawn = as_mermaid(load_topology(file))
    assert ('-.->|"DB"|' in drawn, '-.->|"BD"|' in drawn) == (True, True)


def test_quotes_cannot_end_a_label() -> None:
    topology = topology_from_mapping(AWKWARD, name='a "mesh" \\')
    assert as_dot(topology).splitlines()[0] == 'graph "a \\"mesh\\" \\\\" {'


def test_text_is_as_narrow_as_the_terminal() -> None:
    """Who is in several zones stands below each other where one line does not hold them."""
    lines = as_text(load_topology(FIG36), 40).splitlines()
    assert "in several zones  tk1 (TK, WO)," in lines
    assert [line for line in lines if len(line) > 40 and line[:4] not in ("fig3", "zone")] == []


def test_text_is_for_people(run: Run) -> None:
    shown = run("topology", str(FOLDER / "mixed.yaml"))
    assert (shown.code, shown.err) == (0, "")
    assert "mixed: 8 nodes on 3 Kafka clusters, 5 zones, 9 links" in shown.out
    assert (
        'zone TK "Tokyo"  one-hop: 3 nodes, 3 links\n  each with each  tk1, tk2, tk3\n' in shown.out
    )
    assert 'zone WO "World"  multi-hop: 2 nodes, 1 link\n  ny1 - tk1\n' in shown.out
    assert "gateways          ny2, p1\n" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    data = json.loads(run("topology", str(FOLDER / "mixed.yaml"), "-o", "json").out)
    assert [one["node"] for one in data["nodes"] if one["gateway"]] == ["ny2", "p1"]
    assert data["links"][0] == {
        "link": ["ny1", "ny2"], "zone": "NY", "kind": "cluster", "directions": ["ny1->ny2", "ny2->ny1"],
    }  # fmt: skip


def test_the_running_mesh_is_shown_and_routed(run: Run, chain: Chain) -> None:
    mesh, file = chain
    publish(mesh.topology, mesh.world.kafka)
    assert "zone Z  multi-hop: 3 nodes, 2 links" in run("topology", "-f", file).out
    assert run("route", "a", "c", "-f", file).out.startswith("a > b > c\n")


def test_a_way_and_where_one_ends(run: Run) -> None:
    """Spec: DESIGN 4.4."""
    way = run("route", "tk3", "pa2", FIG36, "-o", "json")
    assert (way.code, way.data["path"]) == (0, ["tk3", "tk1", "ny1", "pa1", "pa2"])
    assert [one["hops"] for one in way.data["links"]] == [1, 1, 2, 1]
    ended = run("route", "a2", "d2", NO_TRANSIT, "-o", "json")
    assert (ended.code, ended.data["reason"], ended.data["stops_at"]) == (10, "no_transit", "b1")
    said = run("route", "a2", "d2", NO_TRANSIT)
    assert (said.code, said.out.count("\n")) == (10, 1)
    assert "messages stop at b1, before link b1->d1 (zone X)" in said.out


def test_supposed_subscriptions_need_no_mesh(run: Run) -> None:
    told = run(
        "explain", "orders/eu", "--from", "a2", "-f", NO_TRANSIT, "--subscribe", "d2/billing=orders/>",
        "--subscribe", "b2/x=orders/*", "-o", "json",
    )  # fmt: skip
    assert told.code == 0
    assert [
        (one["node"], one["endpoints"]) for one in told.data["reached"] if one["endpoints"]
    ] == [("b2", ["x"])]
    reasons = {
        one["node"]: (one["reason"], one["rule"], one["link"]) for one in told.data["not_reached"]
    }
    assert reasons == {
        "c1": ("no_interest", None, "a1->c1"),
        "c2": ("no_interest", None, "a1->c1"),
        "d1": ("no_way", "no_transit", "b1->d1"),
        "d2": ("no_way", "no_transit", "b1->d1"),
    }


def test_people_read_sentences_and_no_reasons(run: Run) -> None:
    """Spec: DESIGN 4.4."""
    told = run("explain", "x", "--from", "a2", "-f", NO_TRANSIT, "--subscribe", "d2/e=>")
    assert not [why for why in SENTENCES if "_" in why and why in told.out]
    assert told.out.count("the message has crossed an external link") == 2
    assert "nobody behind this link wants it" in told.out


def test_a_proposed_file_under_the_subscriptions_of_the_mesh(
    run: Run, chain: Chain, tmp_path: Path
) -> None:
    _, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    document = json.loads(Path(file).read_text())
    document["spec"]["zones"] = {"Z": {"kind": "one-hop", "links": [["a", "b"], ["b", "c"]]}}
    proposed = tmp_path / "proposed.yaml"
    proposed.write_text(json.dumps(document))
    explained = ("explain", "acme/x", "--from", "a", "-f", file, "-o", "json")
    assert run(*explained).data["reached"][-1]["endpoints"] == ["e"]
    told = run(*explained, "--proposed", str(proposed)).data
    assert told["not_reached"][-1] == {
        "node": "c", "reason": "no_way", "cause": "arrival_zone", "rule": "arrival_zone",
        "link": "b->c", "wants": True,
        "text": "the message came over zone Z, and what came over a one-hop zone does not go on in it",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["route", "tk9", "pa2", FIG36], "no node is called 'tk9'"),
        (["route", "tk1", "tk1", FIG36], "is A itself"),
        (["route", "tk1", "pa2", "no.yaml"], "no such file"),
        (["topology", "no.yaml"], "no such file"),
        (["topology", "no.yaml", "-o", "dot"], "no such file"),
        (
            ["explain", "x", "--from", "tk1", "-f", FIG36, "--subscribe", "tk2=x"],
            "NODE/ENDPOINT=FILTER",
        ),
        (
            ["explain", "x", "--from", "tk1", "-f", FIG36, "--subscribe", "q/e=x"],
            "no node is called",
        ),
        (["explain", "x", "--from", "tk1", "-f", FIG36, "--subscribe", "tk2/e=>/x"], "last level"),
        (
            ["explain", "x", "--from", "tk1", "-f", FIG36, "--subscribe", "tk2/e e=x"],
            "is not a name",
        ),
        (
            [*EXPLAIN, "-f", FIG36, "--subscribe", "tk2/e=x", "--subscribe", "tk2/E=y"],
            "tk2/E=y: is one endpoint with e: case does not tell names apart",
        ),
        # Who names a mesh beside a file would believe that both were looked at.
        (["route", "tk1", "pa2", FIG36, "-c", "other"], "fig36.yaml: is looked at alone"),
        (["topology", FIG36, "-f", NO_TRANSIT, "-o", "dot"], "fig36.yaml: is looked at alone"),
        (
            [*EXPLAIN, "--proposed", FIG36, "--subscribe", "tk2/e=x", "--bootstrap", "tokyo=h:1"],
            "fig36.yaml: is looked at alone, and no mesh: leave --file, --bootstrap and --context out",
        ),
    ],
)
def test_wrong_input_is_one_line_and_two(run: Run, arguments: list[str], said: str) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
