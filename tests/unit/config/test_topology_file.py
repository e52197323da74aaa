"""Topology files: what is read from good ones, what is said about bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from mesh.config.legal import load_legal_topology
from mesh.config.located import PROBLEMS_MAX, dotted, parse_document
from mesh.config.scalars import DURATION_RULE
from mesh.config.topology_file import load_topology, topology_from_mapping, topology_schema
from mesh.errors import ConfigError
from mesh.model.topology import ZoneKind
from tests.unit.config.files import parsed, refused, spec

EXAMPLES = Path(__file__).parents[3] / "examples" / "topologies"

GOOD = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {name: worldwide}
spec:
  kafka:
    tokyo: {bootstrap.servers: "localhost:19092", socket.keepalive.enable: true, linger.ms: 5}
    newyork: {brokers: 3}
  nodes:
    tk1: {kafka: tokyo, realm: asia, lanes: 3}
    tk2: {kafka: tokyo, lanes: 2, partitions: 8}
    ny1: {kafka: newyork}
  zones:
    TK: {kind: one-hop, nodes: [tk2, tk1], title: Tokyo, exclusive: false}
    WO: {kind: multi-hop, links: [[tk1, ny1]]}
"""


def test_good_file_is_read_whole() -> None:
    """Every setting arrives, with defaults where nothing is said. Spec: DESIGN 3, K2, K5, K6."""
    topology = parsed(GOOD)
    assert topology.name == "worldwide"
    assert (topology.prefix, topology.max_message_bytes, topology.keep_s) == (
        "mesh.",
        900_000,
        3600.0,
    )
    assert topology.audit_kafka == "tokyo"
    assert topology.kafka["tokyo"].options == {
        "bootstrap.servers": "localhost:19092",
        "socket.keepalive.enable": "true",
        "linger.ms": "5",
    }
    assert not topology.kafka["tokyo"].is_embedded
    assert topology.kafka["newyork"].is_embedded
    assert topology.kafka["newyork"].brokers == 3
    nodes = topology.nodes
    assert (nodes["tk1"].realm, nodes["tk1"].lanes, nodes["tk1"].partitions) == ("asia", 3, 6)
    assert (nodes["tk2"].lanes, nodes["tk2"].partitions, nodes["ny1"].partitions) == (2, 8, 4)
    assert topology.zones["TK"].kind is ZoneKind.ONE_HOP
    assert topology.zones["TK"].title == "Tokyo"
    assert topology.neighbours("tk1") == ["ny1", "tk2"]


def test_settings_of_the_mesh() -> None:
    """The settings that stand beside the parts."""
    topology = topology_from_mapping(
        {
            "kafka": {"a": None, "b": {}},
            "nodes": {"n": {"kafka": "b"}},
            "prefix": "x.",
            "maxMessageBytes": 1000,
            "audit": {"kafka": "b"},
            "keep": "10m",
        }
    )
    assert (topology.prefix, topology.max_message_bytes) == ("x.", 1000)
    assert (topology.audit_kafka, topology.keep_s) == ("b", 600.0)


def test_a_node_without_anything_behind_it_is_told_what_to_write() -> None:
    """Nothing stands for "take it out" in patches and in values of charts: it is not taken for {}."""
    [line] = refused(spec("", nodes="a: , b: {}"))
    told = "must be a mapping; got nothing; write {} if there is nothing to say [WRONG_TYPE]"
    assert line == f"m.yaml:6:11: spec.nodes.a: {told}"


def test_a_node_may_leave_out_the_only_kafka_cluster() -> None:
    """With one Kafka cluster there is no question; with two there is."""
    assert parsed(spec("")).nodes["a"].kafka == "k"
    assert refused(spec("", nodes="a: {}", kafka="k: {}, l: {}")) == [
        (
            "m.yaml:6:11: spec.nodes.a.kafka: say which Kafka cluster is its own, with kafka: NAME "
            "[MISSING_KEY]"
        )
    ]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            "mesh/v1",
            "mesh/v2",
            "m.yaml:1:1: apiVersion: must be mesh/v1; got 'mesh/v2' [WRONG_VALUE]",
        ),
        (
            "kind: Mesh",
            "kind: Scenario",
            "m.yaml:2:1: kind: must be Mesh; got 'Scenario'; mesh lab run runs scenarios [WRONG_VALUE]",
        ),
        (
            "metadata: {name: worldwide}\n",
            "",
            "m.yaml:1:1: metadata: this key is required; add it [MISSING_KEY]",
        ),
        (
            "realm: asia",
            "relm: asia",
            "m.yaml:9:25: spec.nodes.tk1.relm: unknown key; did you mean realm? [UNKNOWN_KEY]",
        ),
        (
            "realm: asia",
            "zz: 1",
            "m.yaml:9:25: spec.nodes.tk1.zz: unknown key; known here: kafka, lanes, partitions, realm [UNKNOWN_KEY]",
        ),
        (
            "realm: asia",
            "realm: true",
            "m.yaml:9:25: spec.nodes.tk1.realm: must be text; got true; put it in quotes, as it stands [WRONG_TYPE]",
        ),
        (
            "realm: asia",
            "realm: 1e3",
            "m.yaml:9:25: spec.nodes.tk1.realm: must be text; got 1000.0; put it in quotes, as it stands [WRONG_TYPE]",
        ),
        (
            "realm: asia",
            "realm: [a]",
            "m.yaml:9:25: spec.nodes.tk1.realm: must be text; got a list [WRONG_TYPE]",
        ),
        (
            "realm: asia",
            "realm: a/b",
            "m.yaml:9:25: spec.nodes.tk1.realm: 'a/b' is not a name; write a letter or digit, then at most 63 letters, digits or hyphens [BAD_NAME]",
        ),
        (
            "lanes: 3",
            "lanes: 0",
            "m.yaml:9:38: spec.nodes.tk1.lanes: must be at least 1; got 0 [OUT_OF_RANGE]",
        ),
        (
            "lanes: 3",
            "lanes: .nan",
            "m.yaml:9:38: spec.nodes.tk1.lanes: must be a whole number; got nan [WRONG_TYPE]",
        ),
        (
            "lanes: 3",
            "lanes: 1e99",
            "m.yaml:9:38: spec.nodes.tk1.lanes: must be a whole number; got 1e+99 [WRONG_TYPE]",
        ),
        (
            "lanes: 3",
            "lanes: '3'",
            "m.yaml:9:38: spec.nodes.tk1.lanes: must be a whole number; got '3' [WRONG_TYPE]",
        ),
        (
            "partitions: 8",
            "partitions: 7",
            "m.yaml:10:35: spec.nodes.tk2.partitions: 2 lanes cannot share 7 partitions evenly; write 8 [WRONG_VALUE]",
        ),
        (
            "kafka: newyork",
            "kafka: newyrk",
            "m.yaml:11:11: spec.nodes.ny1.kafka: no Kafka cluster is called 'newyrk'; did you mean newyork? [UNKNOWN_KAFKA]",
        ),
        (
            "brokers: 3",
            "brokers: 0",
            "m.yaml:7:15: spec.kafka.newyork.brokers: must be between 1 and 9; got 0 [OUT_OF_RANGE]",
        ),
        (
            "kind: one-hop",
            "kind: onehop",
            "m.yaml:13:10: spec.zones.TK.kind: must be cluster, one-hop, multi-hop, external or join; got 'onehop' [WRONG_VALUE]",
        ),
        (
            "[[tk1, ny1]]",
            "[[tk1, ny1, tk2]]",
            "m.yaml:14:35: spec.zones.WO.links[0]: has 3 items; write 2 [WRONG_LENGTH]",
        ),
        (
            "nodes: [tk2, tk1]",
            "nodes: tk1",
            "m.yaml:13:25: spec.zones.TK.nodes: must be a list; got 'tk1' [WRONG_TYPE]",
        ),
        (
            "  kafka:\n",
            "  keep: 5\n  kafka:\n",
            f"m.yaml:5:3: spec.keep: must be {DURATION_RULE}; got 5 [WRONG_TYPE]",
        ),
        (
            "  kafka:\n",
            "  keep: 5 hours\n  kafka:\n",
            "m.yaml:5:3: spec.keep: '5 hours' is not a duration; write a number with its unit: 500ms, 5s, 10m, 1h or 7d [WRONG_VALUE]",
        ),
        (
            "  kafka:\n",
            "  maxMessageBytes: -1\n  kafka:\n",
            "m.yaml:5:3: spec.maxMessageBytes: must be at least 1; got -1 [OUT_OF_RANGE]",
        ),
        (
            "  kafka:\n",
            "  maxMessageBytes: 70000000\n  kafka:\n",
            "m.yaml:5:3: spec.maxMessageBytes: must be at most 48000000; got 70000000 [OUT_OF_RANGE]",
        ),
        (
            "  kafka:\n",
            "  prefix: mesh\n  kafka:\n",
            "m.yaml:5:3: spec.prefix: 'mesh' is not a topic prefix; write names that each end with a dot, as in mesh. [BAD_NAME]",
        ),
        (
            "  kafka:\n",
            "  audit: {kafka: x}\n  kafka:\n",
            "m.yaml:5:11: spec.audit.kafka: no Kafka cluster is called 'x'; known here: newyork, tokyo [UNKNOWN_KAFKA]",
        ),
    ],
)
def test_bad_setting_is_one_located_line(before: str, after: str, line: str) -> None:
    """`file:line:column: path: what is wrong; what to do [CODE]`. Spec: lab.md 3."""
    assert before in GOOD
    assert refused(GOOD.replace(before, after, 1)) == [line]


@pytest.mark.parametrize(
    ("zones", "lines"),
    [
        (
            "  zones: {Z: {kind: one-hop, nodes: [a, d]}}",
            [
                "m.yaml:7:41: spec.zones.Z.nodes[1]: no node is called 'd'; known here: a, b, c [UNKNOWN_NODE]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop, links: [[a, bb]]}}",
            [
                "m.yaml:7:42: spec.zones.Z.links[0][1]: no node is called 'bb'; did you mean b? [UNKNOWN_NODE]"
            ],
        ),
        (
            "  zones: {Z: {kind: multi-hop, links: [[a, a]]}}",
            ["m.yaml:7:40: spec.zones.Z.links[0]: links node a to itself; remove it [SELF_LINK]"],
        ),
        (
            "  zones: {Z: {kind: multi-hop, links: [[a, b], [b, a]]}}",
            [
                "m.yaml:7:48: spec.zones.Z.links[1]: b and a are linked twice in zone Z, first as links[0]; remove one [DUPLICATE_LINK]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop, nodes: [a, b, a]}}",
            [
                "m.yaml:7:44: spec.zones.Z.nodes[2]: node a is listed twice; remove one [DUPLICATE_NODE]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop}}",
            [
                "m.yaml:7:11: spec.zones.Z: does not say what it links; add nodes (a full mesh) or links (as listed) [WRONG_FORM]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop, nodes: [a], links: []}}",
            [
                "m.yaml:7:11: spec.zones.Z: has nodes (a full mesh) and links (as listed); keep one of the two [WRONG_FORM]"
            ],
        ),
        (
            "  zones: {Z: {kind: cluster, links: [[a, b]]}}",
            [
                "m.yaml:7:30: spec.zones.Z.links: a cluster is fully linked: list its nodes and no links [WRONG_FORM]"
            ],
        ),
        (
            "  zones: {Z: {kind: external, nodes: [a, b]}}",
            [
                "m.yaml:7:31: spec.zones.Z.nodes: external links are listed one by one: write links and no nodes [WRONG_FORM]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop, nodes: [], hops: 3}}",
            [
                "m.yaml:7:41: spec.zones.Z.hops: only joins have this key; remove it [CONFLICTING_KEYS]"
            ],
        ),
        (
            "  zones: {Z: {kind: one-hop, nodes: []}, z: {kind: one-hop, nodes: []}}",
            ["m.yaml:7:42: spec.zones.z: 'z' and 'Z' differ in case only; rename one [NAME_CLASH]"],
        ),
        (
            "  zones: {J: {kind: join, from: a, to: a}}",
            ["m.yaml:7:36: spec.zones.J.to: joins node a to itself; remove it [SELF_LINK]"],
        ),
        (
            "  zones: {J: {kind: join, from: a, to: b, exclusive: true}}",
            [
                "m.yaml:7:43: spec.zones.J.exclusive: a join is never exclusive, for its ends are in zones besides; remove it [CONFLICTING_KEYS]"
            ],
        ),
        (
            "  zones: {J: {kind: join, from: a, to: b}, K: {kind: join, from: a, to: b}}",
            [
                "m.yaml:7:44: spec.zones.K: zone J joins a to b already; remove one of the two [DUPLICATE_JOIN]"
            ],
        ),
        (
            "  zones: {J: {kind: join, from: b, to: a}, K: {kind: one-hop, nodes: [a, b]}}",
            [
                "m.yaml:7:11: spec.zones.J: b and a are linked in zone K besides, so that messages would come twice; remove one of the two [JOIN_BESIDE_LINK]"
            ],
        ),
        (
            "  zones: {C: {kind: cluster, nodes: [a, b]}, D: {kind: cluster, nodes: [b, c]}}",
            [
                "m.yaml:7:73: spec.zones.D.nodes[0]: node b is in the cluster zones C and D; a node is in at most one: remove it from one [TWO_CLUSTERS]"
            ],
        ),
        (
            "  zones: {U: {kind: one-hop, nodes: [a, b], exclusive: true}, V: {kind: multi-hop, links: [[b, c]]}}",
            [
                "m.yaml:7:93: spec.zones.V.links[0][0]: node b is in zone V and in zone U, which is exclusive: remove it from one [EXCLUSIVE]"
            ],
        ),
    ],
)
def test_bad_zone_is_one_located_line(zones: str, lines: list[str]) -> None:
    """What zones, nodes and links must mean to each other. Spec: DESIGN 3, UM-8."""
    assert refused(spec(zones)) == lines


@pytest.mark.parametrize("name", ["a/b", "..", "a_b", "x" * 65, "audit", "''"])
def test_bad_node_name_is_refused(name: str) -> None:
    """Names become topic names, so their rule is strict. Spec: DESIGN 3."""
    (line,) = refused(spec("", nodes=f"{name}: {{}}"))
    assert line.startswith("m.yaml:6:11: spec.nodes.")
    assert line.endswith("[BAD_NAME]")


def test_join_with_every_key_is_refused_once_and_checked() -> None:
    """Its mistakes are all named at once. Spec: DESIGN 3."""
    lines = refused(spec("  zones: {J: {kind: join, to: x, hops: 99, filter: 'a//b', nodes: [a]}}"))
    assert [line.rsplit(" ", 1)[1] for line in lines] == [
        "[MISSING_KEY]",
        "[UNKNOWN_NODE]",
        "[OUT_OF_RANGE]",
        "[WRONG_VALUE]",
        "[CONFLICTING_KEYS]",
    ]


def test_a_file_of_another_kind_is_one_problem() -> None:
    """What else stands in it may be right for what it is."""
    assert refused("apiVersion: mesh/v1\nkind: Other\nspec: {steps: []}\n") == [
        "m.yaml:2:1: kind: must be Mesh; got 'Other' [WRONG_VALUE]"
    ]


def test_all_problems_are_named_at_once_in_the_order_of_the_file() -> None:
    """Shape and meaning are checked together, so nobody corrects a file five times."""
    text = (
        GOOD.replace("realm: asia", "relm: asia")
        .replace("kafka: newyork", "kafka: york")
        .replace("[tk2, tk1]", "[tk2, tk9]")
        .replace("linger.ms", "group.id")
    )
    codes = [line.rsplit(" ", 1)[1] for line in refused(text)]
    assert codes == ["[MANAGED_KEY]", "[UNKNOWN_KEY]", "[UNKNOWN_KAFKA]", "[UNKNOWN_NODE]"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "text",
        [],
        {"kafka": [], "nodes": 3, "zones": "x"},
        {"nodes": {"a": None}, "kafka": {"k": 3}, "zones": {"Z": 1}},
    ],
)
def test_any_shape_is_refused_without_a_traceback(value: object) -> None:
    """Whatever stands where, the answer is a list of problems."""
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(value)
    assert all(problem.code for problem in caught.value.problems)


def test_names_without_end_fill_no_screen() -> None:
    """Whatever was pasted where a name belongs, a problem stays a line that somebody can read.

    And it is told at once: to look for what such a name was meant to be took minutes.
    """
    long, other = "n" * 5_000, "N" * 5_000
    spec = {
        "prefix": "p" * 60 + "!",
        "kafka": {"k": {"bootstrap.servers": long}, "u": {"bootstrap.servers": f"{long}://h:1"}},
        "nodes": {"a": {"kafka": long}, "b": {"kafka": "k"}, long: {"kafka": "k"}, other: {}},
        "zones": {
            "Z": {"kind": "one-hop", "nodes": ["a", long + "x"]},
            "L": {"kind": "multi-hop", "links": [["a", "b"]]},
            "J": {"kind": "join", "from": long + "x", "to": "b"},
        },
        "selectors": [
            {"link": ["a", long + "x"], "from": "a", "when": "true"},
            {"link": ["a", "b"], "from": long, "when": "true"},
        ],
        "interest": [{"node": long + "x", "static": "x"}],
        "queues": {"q": {"policy": "home", "home": long + "x"}, long: {}, other: {}},
        long: 1,
    }
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(spec)
    lines = [problem.line() for problem in caught.value.problems]
    assert len(lines) > 12
    assert max(map(len, lines)) < 400, max(lines, key=len)


def test_inline_mesh_is_located_in_its_own_file() -> None:
    """Problems of a mesh inside a scenario name the scenario's lines."""
    text = b"spec:\n  mesh:\n    kafka: {k: {}}\n    nodes:\n      a: {kafca: k}\n"
    part = parse_document(text, "s.yaml").within("spec", "mesh")
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(part.value, part.where)
    assert str(caught.value) == (
        "s.yaml:5:11: spec.mesh.nodes.a.kafca: unknown key; did you mean kafka? [UNKNOWN_KEY]"
    )


def test_zones_and_nodes_may_be_many_and_apart() -> None:
    """Unlinked nodes, empty zones and equal titles are no fault. Spec: UM-8, DESIGN 3."""
    zones = "  zones: {Y: {kind: one-hop, nodes: [], title: T}, Z: {kind: cluster, nodes: [a], title: T}}"
    assert parsed(spec(zones)).links == ()


def test_illegal_file_is_located_at_the_zone_that_closes_the_loop() -> None:
    """The refusal names both walks and the edit, at the zone's line."""
    path = EXAMPLES / "illegal" / "parallel-links.yaml"
    assert len(load_topology(path).links) == 2
    with pytest.raises(ConfigError) as caught:
        load_legal_topology(path)
    (problem,) = caught.value.problems
    assert problem.where.endswith("parallel-links.yaml:12:5: spec.zones.Z2")
    assert problem.walks == (("a", "b"), ("a", "b"))
    assert problem.edit == ({"op": "remove", "link": ["a", "b"], "zone": "Z1"},)
    assert problem.message == (
        "a reaches b by two walks: a -Z1-> b and a -Z2-> b; remove link a-b from zone Z1"
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_are_legal(path: Path) -> None:
    """What a reader copies works."""
    assert load_legal_topology(path).name == path.stem


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("illegal/*.yaml")), ids=lambda path: path.stem
)
def test_illegal_examples_are_refused(path: Path) -> None:
    """What shall show a refusal is refused, for its walks and nothing else."""
    assert load_topology(path)
    with pytest.raises(ConfigError) as caught:
        load_legal_topology(path)
    assert {problem.code for problem in caught.value.problems} == {"TWO_WALKS"}


def test_schema_agrees_with_the_reader() -> None:
    """Editors that know the schema accept good files and mark bad ones."""
    schema = topology_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    good = parse_document(GOOD.encode(), "m.yaml").value
    assert not list(validator.iter_errors(good))
    bad = json.loads(json.dumps(good).replace("realm", "relm").replace("tk2", "tk_2"))
    assert len(list(validator.iter_errors(bad))) >= 2


@pytest.mark.parametrize("text", ['"a\\nb"', '"a\\u001b[31m"', '"a\\u202eb"', '"\\u2028"'])
def test_what_people_read_steers_no_terminal(text: str, tmp_path: Path) -> None:
    """Names of meshes and titles of zones are printed as they are."""
    path = tmp_path / "m.yaml"
    for metadata, title in ((text, "x"), ("m", text)):
        path.write_text(
            f"apiVersion: mesh/v1\nkind: Mesh\nmetadata: {{name: {metadata}}}\nspec:\n"
            "  kafka: {k: {}}\n  nodes: {a: {}}\n"
            f"  zones: {{Z: {{kind: one-hop, nodes: [a], title: {title}}}}}\n",
            encoding="utf-8",
        )
        with pytest.raises(ConfigError, match="one line without control characters") as caught:
            load_topology(path)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("keep: 3600", "spec.keep: must be a number with its unit: 500ms, 5s, 10m, 1h or 7d"),
        ("queues: {q: {policy: any, maxAge: 0}}", "maxAge: must be a number with its unit"),
        ("roles: {pingEvery: 5}", "pingEvery: must be a number with its unit"),
        ("limits: [{endpoint: e, age: 0s}]", "'0s' is not a duration above 0"),
        (
            "limits: [{link: [a, b], outboxAge: 0s, whenFull: stop}]",
            "'0s' is not a duration above 0",
        ),
    ],
)
def test_durations_have_a_unit_and_some_are_above_nothing(extra: str, message: str) -> None:
    name, _, value = extra.partition(": ")
    spec = {
        "kafka": {"k": None},
        "nodes": {"a": {}, "b": {}},
        "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
        name: YAML(typ="safe").load(value),
    }
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(spec, lambda path: dotted(("spec", *path)))
    assert message in str(caught.value)


def test_a_few_kilobytes_ask_for_no_more_links_than_a_mesh_can_have() -> None:
    """What lists some thousand names in a full mesh is refused before a link is made."""
    names = [f"n{number}" for number in range(1_001)]
    nodes = ", ".join(f"{name}: {{}}" for name in names)
    zones = f"  zones:\n    A: {{kind: one-hop, nodes: [{', '.join(names)}]}}\n"
    [line] = refused(spec(zones, nodes=nodes))
    assert "spec.zones.A: with this zone there are 500500 links" in line
    assert line.endswith("[TOO_MANY_LINKS]")


def test_a_file_in_which_nothing_fits_is_not_gone_through_to_its_end() -> None:
    """To look for what each name was meant to be takes long where there are many to choose from."""
    many = ", ".join(f"node-{number}: {{}}" for number in range(3_000))
    links = ", ".join(f"[nodes-{number}, nodes-{number + 1}]" for number in range(20_000))
    told = refused(spec(f"  zones: {{Z: {{kind: multi-hop, links: [{links}]}}}}\n", nodes=many))
    assert len(told) == PROBLEMS_MAX
    assert "no node is called 'nodes-0'; did you mean node-" in told[0]
