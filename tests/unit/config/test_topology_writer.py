"""What is written is read back as the same topology."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.config.topology_writer import topology_spec, write_topology
from mesh.model.topology import DeclaredKafka

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "topologies").rglob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_survive(file: Path, tmp_path: Path) -> None:
    topology = load_topology(file)
    written = tmp_path / "mesh.yaml"
    write_topology(topology, written)
    assert load_topology(written) == topology
    assert topology_from_mapping(topology_spec(topology), name=topology.name) == topology


@pytest.mark.parametrize("keep", ["90m", "30d", "1.003s", "12.345d", "7ms", "0s"])
def test_everything_that_can_be_set_survives(tmp_path: Path, keep: str) -> None:
    spec = {
        "prefix": "other.",
        "maxMessageBytes": 1000,
        "keep": keep,
        "audit": {"kafka": "l"},
        "kafka": {
            "k": {"brokers": 3, "linger.ms": 5},
            "l": {"bootstrap.servers": "h:1", "linger.ms": 7},
        },
        "nodes": {
            "a": {"kafka": "k", "realm": "r", "lanes": 2, "partitions": 6},
            "b": {"kafka": "l"},
            "c": {"kafka": "l"},
        },
        "zones": {
            "E": {"kind": "one-hop", "links": []},
            "S": {"kind": "one-hop", "nodes": ["c"], "title": "Solo", "exclusive": True},
            "M": {"kind": "multi-hop", "links": [["a", "b"]]},
            "J": {"kind": "join", "from": "c", "to": "b", "filter": "a/>", "hops": 3},
            "K": {"kind": "join", "from": "b", "to": "c", "title": "Back"},
        },
    }
    topology = topology_from_mapping(spec)
    write_topology(topology, tmp_path / "mesh.yaml")
    assert replace(load_topology(tmp_path / "mesh.yaml"), name=topology.name) == topology


def test_secrets_stay_references_and_the_file_private(tmp_path: Path) -> None:
    topology = topology_from_mapping({"kafka": {"k": None}, "nodes": {"a": {}}})
    options = {"bootstrap.servers": "h:1", "sasl.password": "${env:SECRET}"}
    file = tmp_path / "mesh.yaml"
    write_topology(replace(topology, kafka={"k": DeclaredKafka(name="k", options=options)}), file)
    assert "${env:SECRET}" in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("age", ["1h", "90s", "1.500s", "7ms"])
def test_the_age_of_an_endpoint_is_written_as_people_write_it(age: str) -> None:
    """`mesh export` gave 3600000ms for an hour."""
    limit = {"endpoint": "e", "node": "a", "age": age, "whenFull": "stop"}
    topology = topology_from_mapping({"kafka": {"k": None}, "nodes": {"a": {}}, "limits": [limit]})
    assert topology_spec(topology)["limits"] == [limit]
