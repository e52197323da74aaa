"""What differs between two topologies, by attribute; what cannot; who must be allowed what."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mesh.config.published import published_document
from mesh.config.topology_file import topology_from_mapping
from mesh.core.differences import Described, differences_between
from mesh.core.live_change_limits import unchangeable
from mesh.core.rights import Right, compare_rights
from mesh.model.topology import Topology

SPEC: dict[str, Any] = {
    "kafka": {"left": {"bootstrap.servers": "l:1"}, "right": {}},
    "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "right"}, "c": {"kafka": "right"}},
    "zones": {
        "W": {"kind": "multi-hop", "links": [["a", "b"]]},
        "Z": {"kind": "one-hop", "nodes": ["b", "c"]},
    },
    "limits": [{"link": ["b", "a"], "bytesPerSecond": 5}],
}


def described(topology: Topology) -> Described:
    return Described(topology=topology, document=published_document(topology))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    changes = differences_between(
        described(topology_from_mapping(before)), described(topology_from_mapping(after))
    )
    return [
        f"{one.action} {one.what} {one.name}: "
        + ", ".join(f"{at.name} {at.before}>{at.after}" for at in one.attributes)
        for one in changes
    ]


def changed(*path: object, to: object) -> dict[str, Any]:
    """The file with one thing in it set, or removed if `to` is None."""
    spec = copy.deepcopy(SPEC)
    at: Any = spec
    for key in path[:-1]:
        at = at[key]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return spec


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (SPEC, []),
        (changed("keep", to="2h"), ["change setting keep: value 1h>2h"]),
        (changed("audit", to={"kafka": "right"}), ["change setting audit.kafka: value left>right"]),
        (
            changed("kafka", "left", to={"bootstrap.servers": "m:1", "linger.ms": 3}),
            ["change kafka left: bootstrap.servers l:1>m:1, linger.ms None>3"],
        ),
        (changed("nodes", "b", "realm", to="eu"), ["change node b: realm None>eu"]),
        (
            changed("nodes", "d", to={"kafka": "left"}),
            ["create node d: kafka None>left, lanes None>1, partitions None>4"],
        ),
        (changed("zones", "Z", "title", to="T"), ["change zone Z: title None>T"]),
        (
            changed("zones", "W", "links", to=[["a", "b"], ["a", "c"]]),
            [
                "change zone W: nodes ['a', 'b']>['a', 'b', 'c']",
                "create link a-c: zone None>W, kind None>multi-hop",
            ],
        ),
        (
            changed("zones", "Z", to=None),
            [
                "delete zone Z: kind one-hop>None, nodes ['b', 'c']>None",
                "delete link b-c: zone Z>None, kind one-hop>None",
            ],
        ),
        (
            changed("zones", to={"W": {"kind": "multi-hop", "links": [["a", "b"], ["c", "b"]]}}),
            [
                "change zone W: nodes ['a', 'b']>['a', 'b', 'c']",
                "delete zone Z: kind one-hop>None, nodes ['b', 'c']>None",
                "change link b-c: zone Z>W, kind one-hop>multi-hop",
            ],
        ),
        (
            changed("limits", 0, "bytesPerSecond", to=7),
            ["change limit a-b: bytesPerSecond 5>7"],
        ),
        (changed("limits", to=None), ["delete limit a-b: bytesPerSecond 5>None"]),
    ],
)
def test_each_attribute_that_differs_is_told(after: dict[str, Any], lines: list[str]) -> None:
    assert differences(SPEC, after) == lines


def test_secrets_are_no_part_of_a_difference() -> None:
    one = changed("kafka", "left", "sasl.password", to="one")
    assert differences(one, changed("kafka", "left", "sasl.password", to="other")) == []
    assert differences(SPEC, changed("kafka", "left", "sasl.password", to="${env:P}")) == []
    assert "one" not in str(published_document(topology_from_mapping(one))["spec"]["kafka"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("after", "place", "said"),
    [
        (changed("prefix", to="x."), "prefix", "stays"),
        (changed("kafka", "right", to={"brokers": 3}), "kafka.right.brokers", "or end the mesh"),
        (changed("nodes", "a", "kafka", to="right"), "nodes.a.kafka", "cannot move to right"),
        (changed("nodes", "a", "lanes", to=2), "nodes.a.lanes", "made with 1 lane"),
        (changed("nodes", "a", "partitions", to=8), "nodes.a.partitions", "made with 4 partitions"),
        (changed("zones", "W", "kind", to="one-hop"), "zones.W.kind", "cannot become one-hop"),
    ],
)
def test_what_a_living_mesh_cannot_follow(after: dict[str, Any], place: str, said: str) -> None:
    """Spec: K2, K14."""
    before = topology_from_mapping(SPEC)
    [problem] = unchangeable(
        before, topology_from_mapping(after), lambda path: ".".join(map(str, path))
    )
    assert (problem.where, problem.code) == (place, "CANNOT_CHANGE")
    assert said in problem.message


def test_what_a_living_mesh_can_follow() -> None:
    before = topology_from_mapping(
        {**SPEC, "zones": {**SPEC["zones"], "E": {"kind": "one-hop", "links": []}}}
    )
    after = copy.deepcopy(SPEC)
    after["nodes"]["d"] = {"kafka": "left", "lanes": 3}
    after["zones"]["E"] = {"kind": "multi-hop", "links": [["c", "d"]]}
    assert list(unchangeable(before, topology_from_mapping(after), str)) == []


def test_rights_are_those_of_ground_rule_one() -> None:
    """A new link: each end may read what the other writes for it, nothing else. Spec: K1."""
    after = topology_from_mapping(changed("zones", "W", "links", to=[["a", "b"], ["a", "c"]]))
    found = compare_rights(topology_from_mapping(SPEC), after)
    assert found.unneeded == []
    ends = ("control", "to.a.c", "to.a.d", "to.a.g", "to.a.t")
    assert [one for one in found.needed if one.node == "a"] == [
        Right("a", "right", "READ", "topic", f"mesh.c.{end}")
        for end in ends  # type: ignore[arg-type]
    ]
    assert {one.name for one in found.needed if one.node == "c"} == {
        "mesh.a.control", "mesh.a.to.c.c", "mesh.a.to.c.d", "mesh.a.to.c.g", "mesh.a.to.c.t",
    }  # fmt: skip
    back = compare_rights(after, topology_from_mapping(SPEC))
    assert (back.needed, back.unneeded) == ([], found.needed)


def test_a_node_writes_nowhere_but_at_home() -> None:
    """Spec: K1, DESIGN 4.1."""
    empty = topology_from_mapping({"kafka": {"left": {}, "right": {}}, "nodes": {}})
    whole = topology_from_mapping(SPEC)
    for one in compare_rights(empty, whole).needed:
        if one.operation == "WRITE":
            assert one.kafka == whole.nodes[one.node].kafka
            assert (one.name, one.is_prefix) == (f"mesh.{one.node}.", True)
