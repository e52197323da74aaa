"""Zones administered by a program, as `mesh zone` does for people. Spec: UM-8, K28."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError, NotBegunError, NotInTimeError, TransportUnavailableError
from mesh.model.control import Stage
from mesh.model.topology import Topology, ZoneKind
from mesh.operate.changes import put_in_force as putting
from mesh.operate.changes.arbiter import Arbiter
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.changes.plan import Plan
from mesh.operate.changes.proposal import plan_on_mesh
from mesh.operate.changes.zone_manager import ZoneManager
from mesh.transport.clock import Timekeeper
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.operate.following import Following

NODES = "a b c d"


def mesh(**zones: object) -> Topology:
    """Four nodes, the last of them on another Kafka cluster."""
    kafka = {node: {"kafka": "far" if node == "d" else "main"} for node in NODES.split()}
    return topology_from_mapping({"kafka": {"main": {}, "far": {}}, "nodes": kafka, "zones": zones})


def started(**zones: object) -> tuple[Following, ZoneManager]:
    before = mesh(**zones)
    nodes = Following(before, mesh(Y={"kind": "one-hop", "nodes": NODES.split()}))
    manager = ZoneManager(
        before,
        nodes.kafka,
        wait_s=5.0,
        time=Timekeeper(nodes.now_ms, nodes.pause),
        tell=nodes.lines.append,
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


A = {"kind": "one-hop", "nodes": ["a", "b"]}
WITH_D = {"kind": "one-hop", "nodes": ["a", "b", "d"]}


@pytest.mark.parametrize(
    ("zones", "call", "after"),
    [
        ({}, ("create", "A", "one-hop", ["a", "b"]), {"A": A}),
        ({"A": A}, ("join", "A", "d"), {"A": WITH_D}),
        ({"A": WITH_D}, ("leave", "A", "d"), {"A": A}),
        ({"A": A}, ("delete", "A"), {}),
    ],
)
def test_the_same_call_goes_on_with_a_change_that_one_kafka_cluster_has_in_force(
    zones: dict[str, object], call: tuple[str, ...], after: dict[str, object]
) -> None:
    """Who died between two Kafka clusters calls again, and what is wanted is there by then. K28."""
    nodes, manager = started(**zones)
    nodes.stuck = {"b": Stage.SWITCH}
    name, *given = call
    with pytest.raises(NotInTimeError):
        getattr(manager, name)(*given)
    nodes.stuck = {}
    put_in_force(2, mesh(**after), {"main": nodes.kafka["main"]})
    getattr(manager, name)(*given)
    found, records = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    assert (found.number, dict(found.topology.zones)) == (2, dict(mesh(**after).zones))
    assert records.found["main"] == records.found["far"]


def test_who_was_overtaken_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planned against another topology than the one in force by now changes nothing."""
    nodes, manager = started()

    def meanwhile(*given: object) -> Plan:
        put_in_force(2, mesh(B={"kind": "one-hop", "nodes": ["c", "d"]}), nodes.kafka)
        return plan_on_mesh(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("mesh.operate.changes.put_in_force.plan_on_mesh", meanwhile)
    with pytest.raises(ConfigError, match="somebody has put mesh, version 2"):
        manager.create("A", "one-hop", ["a", "b"])
    assert list(manager.zones()) == ["B"]


def first_behind(other: Callable[[], object], call: Callable[..., object]) -> Callable[..., object]:
    """Have something else be done before the first call."""
    others = [other]

    def wrapper(*given: object, **more: object) -> object:
        while others:
            others.pop()()
        return call(*given, **more)

    return wrapper


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (putting, "begun_last"),
        (putting, "_refuse_overtaken"),
        (putting, "_with_added_kafka"),
        (putting, "begin_change"),
        (Arbiter, "__init__"),
        (Arbiter, "put"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_who_is_overtaken_at_any_moment_takes_nothing_back(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another whole change is through between two of its steps: nobody held for both. Spec: K28."""
    nodes = Mesh(mesh(Z={"kind": "multi-hop", "links": [["a", "b"]]}), runs=False)
    put_in_force(1, nodes.topology, nodes.world.kafka)
    for node in nodes.topology.nodes:
        nodes.world.start(node)
    nodes.pause(5)

    def manager() -> ZoneManager:
        return ZoneManager(nodes.topology, nodes.world.kafka, time=nodes.time)

    def meanwhile() -> None:
        monkeypatch.undo()
        manager().create("B", "one-hop", ["c", "d"])

    monkeypatch.setattr(owner, name, first_behind(meanwhile, getattr(owner, name)))
    with pytest.raises((ConfigError, NotBegunError), match="somebody"):
        manager().create("A", "one-hop", ["a", "c"])
    assert sorted(manager().zones()) == ["B", "Z"]
