"""`directOnly` of topology files: read, written, published, exported."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from mesh.config.located import parse_document
from mesh.config.published import as_yaml_file, published_text, published_topology
from mesh.config.topology_file import topology_from_mapping, topology_of, topology_schema
from mesh.config.topology_writer import topology_document, topology_spec
from mesh.config.zone_edits import retitled, with_nodes


def spec(**more: object) -> dict[str, object]:
    return {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}, "c": {}},
        "zones": {"C": {"kind": "cluster", "nodes": ["a", "b"], **more}},
    }


@pytest.mark.parametrize("direct_only", [True, False])
def test_it_survives_writing_publishing_and_exporting(direct_only: bool) -> None:
    """Spec: DMR-11."""
    topology = topology_from_mapping(spec(directOnly=direct_only))
    assert topology.zones["C"].direct_only is direct_only
    assert ("directOnly" in str(topology_spec(topology))) is direct_only
    assert topology_from_mapping(topology_spec(topology), name=topology.name) == topology
    assert published_topology(published_text(topology)) == topology
    exported = as_yaml_file(topology_document(topology))
    assert topology_of(parse_document(exported.encode(), "mesh.yaml")) == topology
    Draft202012Validator(topology_schema()).validate(topology_document(topology))
    assert (topology_from_mapping(spec()) == topology) is not direct_only


def test_edits_of_the_zone_keep_it() -> None:
    """Spec: DMR-11, UM-8."""
    topology = topology_from_mapping(spec(directOnly=True))
    for edited in (with_nodes(topology, "C", ["c"]), retitled(topology, "C", "Tokyo")):
        assert topology_from_mapping(edited).zones["C"].direct_only


def test_other_kinds_may_say_that_they_are_not() -> None:
    """Spec: DMR-11."""
    zone = {"kind": "one-hop", "nodes": ["a", "b"], "directOnly": False}
    assert not topology_from_mapping({**spec(), "zones": {"Z": zone}}).zones["Z"].direct_only
