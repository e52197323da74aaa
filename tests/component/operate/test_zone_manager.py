"""Zones administered by a program, as `mesh zone` does for people. Spec: UM-8, K28."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError, TransportUnavailableError
from mesh.model.topology import Topology, ZoneKind
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.changes.zone_manager import ZoneManager
from tests.component.operate.following import Following

NODES = "a b c d"


def mesh(**zones: object) -> Topology:
    return topology_from_mapping(
        {"kafka": {"main": {}}, "nodes": {node: {} for node in NODES.split()}, "zones": zones}
    )


def started(**zones: object) -> tuple[Following, ZoneManager]:
    before = mesh(**zones)
    nodes = Following(before, mesh(Y={"kind": "one-hop", "nodes": NODES.split()}))
    manager = ZoneManager(
        before, nodes.kafka, now_ms=nodes.now_ms, pause=nodes.pause, tell=nodes.lines.append
    )
    return nodes, manager


def test_a_zone_is_made_joined_left_and_deleted() -> None:
    """The last one that leaves it leaves it standing, inactive."""
    nodes, manager = started()
    made = manager.create("A", "one-hop", ["a", "b"], title="Prices", exclusive=True)
    assert (made.kind, made.nodes, made.title) == (ZoneKind.ONE_HOP, ("a", "b"), "Prices")
    assert manager.join("A", "c").nodes == ("a", "b", "c")
    for node in "abc":
        left = manager.leave("A", node)
    assert (left.nodes, left.links, left.exclusive) == ((), (), True)
    assert list(manager.zones()) == ["A"]
    manager.delete("A")
    assert manager.zones() == {}
    found, _ = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    assert found.number == 7
    assert any("hold" in line for line in nodes.lines)


def test_what_is_wrong_changes_nothing() -> None:
    """A second zone of an exclusive member, a name that is not there, a node that is in it."""
    nodes, manager = started(A={"kind": "one-hop", "nodes": ["a", "b"], "exclusive": True})
    with pytest.raises(ConfigError, match="exclusive"):
        manager.create("B", "one-hop", ["a", "c"])
    with pytest.raises(ConfigError, match="there is none"):
        manager.join("C", "a")
    with pytest.raises(ConfigError, match="has node a already"):
        manager.join("A", "a")
    with pytest.raises(ConfigError, match="'z'"):
        manager.join("A", "z")
    found, _ = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    assert found.number == 1


def test_a_dead_kafka_cluster_begins_nothing() -> None:
    nodes, manager = started()
    nodes.kafka["main"].available = False
    with pytest.raises(TransportUnavailableError, match="main"):
        manager.create("A", "one-hop", ["a", "b"])
