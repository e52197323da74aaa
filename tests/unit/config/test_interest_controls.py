"""`spec.interest` of topology files: what is read, what is said about bad ones, what is written."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from mesh.config.located import parse_document
from mesh.config.merge_patch import merged
from mesh.config.published import (
    as_yaml_file,
    published_document,
    published_text,
    published_topology,
)
from mesh.config.topology_file import topology_from_mapping, topology_of, topology_schema
from mesh.config.topology_writer import topology_document, topology_spec
from mesh.core.differences import Described, differences_between
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.topology import Topology
from tests.unit.config.files import parsed, refused, spec

STATIC = {"node": "a", "static": "acme/prices/>"}
LOCAL = {"node": "b", "local": "acme/private/>"}
BARE = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}},
    "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
}
BOTH = {**BARE, "interest": [LOCAL, STATIC]}


def differences(before: Topology, after: Topology) -> list[str]:
    changes = differences_between(
        *(Described(topology=one, document=published_document(one)) for one in (before, after))
    )
    return [f"{one.action} {one.what} {one.name}" for one in changes]


def test_controls_are_values_in_one_order() -> None:
    """Spec: EMS-11, UM-1."""
    topology = topology_from_mapping(BOTH)
    assert topology.interest == (
        InterestControl("a", ControlKind.STATIC, "acme/prices/>"),
        InterestControl("b", ControlKind.LOCAL, "acme/private/>"),
    )
    assert topology == topology_from_mapping({**BARE, "interest": [STATIC, LOCAL]})


@pytest.mark.parametrize("mesh", [BARE, BOTH])
def test_they_survive_writing_publishing_and_exporting(mesh: dict[str, object]) -> None:
    topology = topology_from_mapping(mesh)
    assert ("interest" in topology_spec(topology)) is ("interest" in mesh)
    assert topology_from_mapping(topology_spec(topology), name=topology.name) == topology
    assert published_topology(published_text(topology)) == topology
    exported = as_yaml_file(topology_document(topology))
    assert topology_of(parse_document(exported.encode(), "mesh.yaml")) == topology
    Draft202012Validator(topology_schema()).validate(topology_document(topology))


def test_the_schema_knows_them() -> None:
    validator = Draft202012Validator(topology_schema())
    document = dict(topology_document(topology_from_mapping(BOTH)))
    document["spec"] = {**BOTH, "interest": [{"node": "a", "sttic": "x"}]}
    assert list(validator.iter_errors(document))


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        (
            "{node: d, static: x}",
            "m.yaml:7:15: spec.interest[0].node: no node is called 'd'; known here: a, b, c",
        ),
        ("{node: a, local: a//b}", "filter 'a//b' has an empty level 2"),
        ("{node: a, static: $node/x}", "such addresses belong to the mesh"),
        ("{node: a}", "say what it does: give static or local, with a filter"),
        ("{node: a, static: x, local: x}", "has static and local; keep one"),
        (
            "{node: a, local: x}, {node: a, static: x}, {node: a, local: x}",
            "says the same as interest[0]; remove one of the two",
        ),
        ("{static: x}", "spec.interest[0].node"),
        ("{node: a, always: x}", "spec.interest[0].always"),
        ("{node: a, static: 7}", "spec.interest[0].static"),
        ("{node: [a, b], static: x}", "spec.interest[0].node: must be text; got a list"),
    ],
)
def test_each_fault_is_one_clear_line(listed: str, line: str) -> None:
    [found] = refused(spec(f"  interest: [{listed}]\n"))
    assert line in found


def test_one_filter_may_be_static_and_local_at_several_nodes() -> None:
    listed = "{node: a, static: x}, {node: a, local: x}, {node: b, local: x}"
    assert len(parsed(spec(f"  interest: [{listed}]\n")).interest) == 3


def test_a_patch_sets_and_removes_them() -> None:
    """Spec: lab.md 1 (`apply`)."""
    patched = topology_from_mapping(merged(BARE, {"interest": [LOCAL]}))
    assert [str(one) for one in patched.interest] == ["acme/private/> is local at b"]
    assert topology_from_mapping(merged(BOTH, {"interest": None})).interest == ()


def test_a_plan_names_each_control() -> None:
    """Spec: EMS-11."""
    bare, both = topology_from_mapping(BARE), topology_from_mapping(BOTH)
    assert differences(bare, both) == [
        "create interest acme/prices/> is static at a",
        "create interest acme/private/> is local at b",
    ]
    assert differences(both, topology_from_mapping({**BARE, "interest": [STATIC]})) == [
        "delete interest acme/private/> is local at b"
    ]
    assert differences(both, both) == []
